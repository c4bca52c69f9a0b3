"""The published files of the sources, read whole."""

from __future__ import annotations

import gzip
import json
from collections import Counter

import polars as pl
import pytest

from pipelines.metricinstruct.human_agreement import groups_of, human_annotations
from pipelines.metricinstruct.schema import NO_ERROR, REAL, SEVERITIES, SYNTHETIC
from transforms.crowd.spans import agreement, pool, tally

FETAQA = "fetaqa/fetaQA-v1_test.jsonl.gz"
FILES = [
    # source, channel, file, outputs, rows, examples, inputs, rejects by rule
    ("wmt_mqm", REAL, "wmt_mqm/mqm_ted_ende.tsv.gz", (), 8435, 6877, {"reference_system": 529}),
    ("wmt_mqm", REAL, "wmt_mqm/mqm_ted_zhen.tsv.gz", (), 9915, 6877, {"reference_system": 1058}),
    (
        "gsm8k",
        REAL,
        "gsm8k_model_solutions/example_model_solutions.jsonl.gz",
        (),
        1319,
        5276,
        {},
    ),
    (
        "gsm8k",
        SYNTHETIC,
        "gsm8k_model_solutions/example_model_solutions.jsonl.gz",
        (),
        1319,
        1319,
        {},
    ),
    (
        "fetaqa",
        REAL,
        FETAQA,
        ("fetaqa/t5-small-test-predictions.txt", "fetaqa/t5-large-test-predictions.txt"),
        2003,
        2334,
        {"short_answer": 836},
    ),
    ("fetaqa", SYNTHETIC, FETAQA, (), 2003, 1167, {"short_answer": 836}),
    ("totto", SYNTHETIC, "totto_sample/dev_sample.jsonl", (), 5, 5, {}),
    ("totto", SYNTHETIC, "totto_sample/train_sample.jsonl", (), 3, 3, {}),
    (
        "cosmosqa",
        SYNTHETIC,
        "cosmosqa/valid.csv.gz",
        (),
        2985,
        1049,
        {"short_answer": 1677, "none_of_the_above": 259},
    ),
    ("dart", SYNTHETIC, "dart/dart-v1.1.1-full-dev.json.gz", (), 2768, 2768, {}),
    ("oasst1", SYNTHETIC, "oasst_en_100/en_100_message.jsonl.gz", (), 100, 100, {}),
    (
        "oasst1",
        REAL,
        "oasst_en_100/en_100_message.jsonl.gz",
        ("oasst_en_100/pythia-1b_sampling.json",),
        100,
        700,
        {},
    ),
    ("asqa", REAL, "asqa_fine_grained_feedback/dev_feedback.json.gz", (), 500, 2000, {}),
    ("summedits", REAL, "summedits/summedits_sales_call.json.gz", (), 520, 520, {}),
    ("summedits", REAL, "summedits/summedits_sales_email.json.gz", (), 613, 613, {}),
    ("llmbar", REAL, "llmbar/natural.json", (), 100, 200, {}),
    ("quintd", REAL, "quintd_spans/quintd_human_vs_gpt4.jsonl.gz", (), 800, 0, {"no_input": 800}),
]


@pytest.mark.parametrize(
    ("source", "channel", "name", "outputs", "rows", "examples", "rejects"),
    FILES,
    ids=[f"{source}-{channel}-{name.split('/')[1]}" for source, channel, name, *_ in FILES],
)
def test_every_row_of_a_real_file_is_read_or_rejected_with_its_rule(
    shared_data, read_file, source, channel, name, outputs, rows, examples, rejects
):
    frames = read_file(source, shared_data(name), channel, tuple(map(shared_data, outputs)))
    counts = frames["counts"].filter(pl.col("stage") == "input_rows")
    assert counts["n"].to_list() == [rows]
    assert frames["examples"].height == examples
    assert dict(frames["rejected"].group_by("rule").len().iter_rows()) == rejects
    given = frames["examples"]
    assert given["key"].null_count() == 0
    assert given.filter(pl.col("instruction").str.len_chars() == 0).is_empty()
    if channel == SYNTHETIC:
        assert given["hypothesis"].null_count() == given.height
        assert given.filter(pl.col("references").list.len() == 0).is_empty()
    elif examples:
        assert given["hypothesis"].null_count() == given["system"].null_count() == 0
        assert not given.select("source", "system", "item", "hypothesis").is_duplicated().any()


def test_human_spans_of_the_feedback_are_where_the_file_has_them(shared_data, read_file):
    path = shared_data("asqa_fine_grained_feedback/dev_feedback.json.gz")
    frames = read_file("asqa", path)
    with gzip.open(path) as file:
        rows = json.load(file)
    spans = Counter(
        row["prediction 1"][error["start"] : error["end"]].strip()
        for row in rows
        for error in row["feedback"]["errors"]
    )
    errors = frames["human_errors"].filter(pl.col("category") != "No-error")
    assert Counter(text.strip() for text in errors["text"].to_list()) == spans
    without = sum(not row["feedback"]["errors"] for row in rows)
    assert frames["human_errors"].height == errors.height + without


def test_outputs_of_quintd_have_their_inputs_and_both_annotators(shared_data, read_file):
    inputs = tuple(
        shared_data(f"quintd_spans/input_{name}_test.json.gz")
        for name in ("gsmarena", "ice_hockey")
    )
    path = shared_data("quintd_spans/quintd_human_vs_gpt4.jsonl.gz")
    frames = read_file("quintd", path, inputs=inputs)
    examples, errors = frames["examples"], frames["human_errors"]
    assert (examples.height, frames["rejected"].height) == (800, 0)
    assert (
        examples.group_by("key").agg(pl.col("system").n_unique())["system"].to_list() == [4] * 200
    )
    phone = examples.filter(pl.col("item") == "gsmarena/0")
    assert all("iQOO 12 Pro" in text for text in phone["input_context"])
    assert any("iQOO 12 Pro" in text for text in phone["hypothesis"])
    is_model = pl.col("annotator") == "model gpt-4"
    assert errors.filter(~is_model)["side"].drop_nulls().len() == 1541
    outputs = dict(examples.select(pl.concat_str("item", "system"), "hypothesis").iter_rows())
    placed = errors.filter(pl.col("side") == "output").select(
        pl.concat_str("item", "system"), "start", "end", "text"
    )
    assert all(
        outputs[output][start:end] == text for output, start, end, text in placed.iter_rows()
    )
    annotated = errors.group_by("item", "system").agg(pl.col("annotator").n_unique())
    assert annotated["annotator"].to_list() == [2] * 800


def test_gpt4_as_an_annotator_of_quintd(shared_data, read_file):
    path = shared_data("quintd_spans/quintd_human_vs_gpt4.jsonl.gz")
    human = read_file("quintd", path)["human_errors"].with_columns(
        pl.format("{}: {}", "source", "annotator").alias("annotator")
    )
    tallies = tally(*human_annotations(human, NO_ERROR), SEVERITIES)
    people = pool(tallies, groups_of(human["annotator"].unique()))
    (row,) = agreement(people).rows(named=True)
    # One person an output; a little below the 0.42 reported for GPT-4 on data-to-text elsewhere.
    assert (row["first"], row["second"]) == ("quintd: model gpt-4", "quintd: people")
    assert row["segments"] == 800
    assert row["character_f1"] == pytest.approx(0.370, abs=0.001)
    assert row["spearman"] == pytest.approx(0.192, abs=0.001)
    assert row["kendall"] == pytest.approx(0.154, abs=0.001)
    assert row["any_error"] == pytest.approx(0.705, abs=0.001)
    assert row["any_error_kappa"] == pytest.approx(0.028, abs=0.001)


def test_linearised_inputs_have_the_form_of_the_facts(shared_data, read_file):
    fetaqa = read_file("fetaqa", shared_data(FETAQA), SYNTHETIC)["examples"]
    assert fetaqa["input_context"][0] == (
        'Given the table title of "Television" . In row 6 , the Year is 2019 , the Title is Laal '
        "Ishq , the Role is Pernia . In row 7 , the Year is 2019 , the Title is Vikram Betaal Ki "
        "Rahasya Gatha , the Role is Rukmani/Kashi . In row 8 , the Year is 2019 , the Title is "
        "Shaadi Ke Siyape , the Role is Dua . What TV shows was Shagun Sharma seen in 2019?"
    )
    totto = read_file("totto", shared_data("totto_sample/train_sample.jsonl"), SYNTHETIC)
    assert totto["examples"]["input_context"][0] == (
        "Given the table title of Tobias Harris . Given the table section title of College . "
        "Given the cell value of 15.3 . The column header : PPG ."
    )
    dart = read_file("dart", shared_data("dart/dart-v1.1.1-full-dev.json.gz"), SYNTHETIC)
    assert dart["examples"]["input_context"][0].split("\n") == [
        "( Mars Hill College, JOINED, 1973)",
        "( Mars Hill College, LOCATION, Mars Hill, North Carolina)",
    ]


def test_dart_and_totto_show_their_last_text_first(shared_data, read_file):
    path = shared_data("dart/dart-v1.1.1-full-dev.json.gz")
    frames = read_file("dart", path, SYNTHETIC)
    with gzip.open(path) as file:
        last = [row["annotations"][-1]["text"].strip() for row in json.load(file)]
    assert [references[0] for references in frames["examples"]["references"].to_list()] == last


def test_outputs_beside_fetaqa_stand_with_their_row(shared_data, read_file):
    path = shared_data("fetaqa/t5-large-test-predictions.txt")
    frames = read_file("fetaqa", shared_data(FETAQA), REAL, (path,))
    lines = path.read_text(encoding="utf-8").split("\n")
    given = frames["examples"].select("line", "system", "hypothesis").iter_rows()
    assert all((lines[line - 1].strip(), "t5-large") == (text, s) for line, s, text in given)
