"""The sources of which no published file is at hand: self-written rows in their true form."""

from __future__ import annotations

import csv
import io
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipelines.metricinstruct.schema import REAL, SYNTHETIC
from pipelines.metricinstruct.sources.reading import read_keys
from pipelines.metricinstruct.sources.registry import SOURCES


def lines(*rows):
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def table(*rows):
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]))
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


XSUM = {"document": "The mill was sold.", "summary": "A mill has a new owner.", "id": "31"}
SYNTHETIC_FORMS = [
    # source, file, content, instruction begins with, input, first reference
    (
        "xsum",
        "train.jsonl",
        lines(XSUM),
        "Write an abstractive",
        "The mill was sold.",
        "A mill has a new owner.",
    ),
    (
        "samsum",
        "train.json",
        json.dumps([{"id": "1", "summary": "Ann is late.", "dialogue": "Ann: late\r\nBo: ok"}]),
        "Write a summary of the dialogue",
        "Ann: late\r\nBo: ok",
        "Ann is late.",
    ),
    (
        "cnn_dailymail",
        "train.csv",
        table({"id": "f0", "article": 'Said "yes", he did.\nTwice.', "highlights": "He said yes."}),
        "Write a summary of the news",
        'Said "yes", he did.\nTwice.',
        "He said yes.",
    ),
    (
        "gigaword",
        "train.jsonl",
        lines({"document": "shares rose on monday .", "summary": "shares up"}),
        "Write a title",
        "shares rose on monday .",
        "shares up",
    ),
    (
        "wmt19",
        "train.jsonl",
        lines({"translation": {"cs": "Dobrý den.", "en": "Good day."}}),
        "Translate the following text from Czech to English.",
        "Dobrý den.",
        "Good day.",
    ),
    (
        "wmt19",
        "train.jsonl",
        lines({"translation": {"de": "Guten Tag.", "fr": "Bonjour."}}),
        "Translate the following text from French to German.",
        "Bonjour.",
        "Guten Tag.",
    ),
    (
        "wikitabletext",
        "MSRA_NLC.Table2Text.train",
        "2\tsubj_title_||_year\told_$$_mill_||_1788\tthe old_$$_mill is from 1788 .\n",
        "Generate a description for the following table.",
        "the subj_title is old mill , the year is 1788 .",
        "the old mill is from 1788 .",
    ),
    (
        "wikitabletext",
        "train.jsonl",
        lines({"headers": "['title', 'year']", "content": "['mill', '1788']", "reference": "Old."}),
        "Generate a description for the following table.",
        "the title is mill , the year is 1788 .",
        "Old.",
    ),
    (
        "asqa",
        "ASQA.json",
        json.dumps(
            {
                "dev": {
                    "-7": {
                        "ambiguous_question": "Who built the mill?",
                        "annotations": [
                            {"knowledge": [], "long_answer": "Two families built it."},
                            {"knowledge": [], "long_answer": "It was built twice."},
                        ],
                    }
                }
            }
        ),
        "The question below can be read",
        "Who built the mill?",
        "Two families built it.",
    ),
    (
        "eli5",
        "train.jsonl",
        lines(
            {
                "q_id": "x",
                "title": "Why do mills turn?",
                "selftext": "",
                "answers": {"text": ["No idea.", "Water.", "Wind."], "score": [1, 9, 9]},
            }
        ),
        "Answer the question below in several sentences",
        "Why do mills turn?",
        "Water.",
    ),
    (
        "gsm8k",
        "train.jsonl",
        lines({"question": "2 + 2?", "answer": "It is <<2+2=4>>4.\n#### 4"}),
        "Answer the following math word problem step-by-step.",
        "2 + 2?",
        "It is <<2+2=4>>4.\n#### 4",
    ),
    (
        "alpaca_farm",
        "sft.json",
        json.dumps([{"instruction": "Add.", "input": "2, 3", "output": "5"}]),
        "Add.",
        "2, 3",
        "5",
    ),
    (
        "guanaco",
        "guanaco.json",
        json.dumps([{"instruction": "Say hello.", "input": "", "output": "Hello."}]),
        "Say hello.",
        "",
        "Hello.",
    ),
    (
        "guanaco",
        "train.jsonl",
        lines({"text": "### Human: Say hello.### Assistant: Hello."}),
        "Say hello.",
        "",
        "Hello.",
    ),
    (
        "dolly",
        "databricks-dolly-15k.jsonl",
        lines(
            {"instruction": "When?", "context": "In 1788.", "response": "1788", "category": "qa"}
        ),
        "When?",
        "In 1788.",
        "1788",
    ),
    (
        "oasst1",
        "2023-04-12_oasst_ready.trees.jsonl",
        lines(
            {
                "message_tree_id": "a",
                "prompt": {
                    "message_id": "a",
                    "text": "Name a tree.",
                    "role": "prompter",
                    "lang": "en",
                    "replies": [
                        {"message_id": "b", "text": "A stone.", "rank": 1, "replies": []},
                        {"message_id": "c", "text": "An elm.", "rank": 0, "replies": []},
                        {"message_id": "d", "text": "Me.", "rank": None, "replies": []},
                    ],
                },
            }
        ),
        "Name a tree.",
        "",
        "An elm.",
    ),
    (
        "oasst1",
        "train_ift.jsonl",
        lines({"messages": [{"content": "Name a tree."}, {"content": "An elm."}]}),
        "Name a tree.",
        "",
        "An elm.",
    ),
]


@pytest.mark.parametrize(
    ("source", "name", "content", "instruction", "given", "reference"),
    SYNTHETIC_FORMS,
    ids=[f"{form[0]}-{form[1]}" for form in SYNTHETIC_FORMS],
)
def test_inputs_with_references(
    written, read_file, source, name, content, instruction, given, reference
):
    frames = read_file(source, written(name, content), SYNTHETIC)
    (row,) = frames["examples"].rows(named=True)
    assert row["instruction"].startswith(instruction)
    assert row["input_context"] == given
    assert row["references"][0] == reference
    assert row["hypothesis"] is None


def test_summeval_in_both_forms(written, read_file):
    article = "The mill was sold ."
    rating = {"coherence": 4, "consistency": 5, "fluency": 3, "relevance": 4}
    annotated = {
        "id": "cnn-1",
        "decoded": "The mill -lrb- old -rrb- was sold .",
        "expert_annotations": [rating, {**rating, "fluency": 5}],
        "references": ["A mill was sold.", "Mill sold."],
        "model_id": "M11",
        "text": article,
    }
    path = written("model_annotations.aligned.paired.jsonl", lines(annotated))
    (row,) = read_file("summeval", path)["examples"].rows(named=True)
    assert (row["hypothesis"], row["system"]) == ("The mill ( old ) was sold .", "M11")
    assert row["references"] == ["A mill was sold.", "Mill sold."]
    assert row["quality"] == pytest.approx(4.25)
    output = {"id": "cnn-1", "text": article, "decoded": "Sold .", "reference": "A mill was sold."}
    other = written("M3/paired/outputs.aligned.paired.jsonl", lines(output))
    (second,) = read_file("summeval", other)["examples"].rows(named=True)
    assert (second["system"], second["key"]) == ("M3", row["key"])
    # The annotated articles are an evaluation set: their keys leave out the others' outputs.
    assert read_keys([str(path)], SOURCES["summeval"]) == [row["key"]]
    assert read_keys([str(path)], SOURCES["summeval"], frozenset({"cnn-1"})) == [row["key"]]


def test_newsroom_rates_each_output_three_times(written, read_file):
    row = {
        "ArticleID": "5",
        "ArticleTitle": "Mill",
        "System": "lede3",
        "ArticleText": "The mill&#39;s sold.</p><p>Really.",
        "SystemSummary": "Sold.",
        "CoherenceRating": "4",
        "FluencyRating": "5",
        "InformativenessRating": "2",
        "RelevanceRating": "3",
    }
    frames = read_file("newsroom", written("newsroom-human-eval.csv", table(row, row, row)))
    assert frames["examples"]["input_context"].unique().to_list() == ["The mill's sold.\nReally."]
    assert frames["examples"]["quality"].to_list() == [3.5] * 3
    assert frames["examples"]["references"].to_list() == [[]] * 3


def test_direct_assessments_before_2022_of_the_released_pairs(written, read_file):
    row = {
        "lp": "de-en",
        "src": "Guten Tag.",
        "mt": "Good tag.",
        "ref": "Good day.",
        "raw": "40.0",
        "annotators": "1",
        "score": "-0.5",
        "domain": "news",
        "year": "2020",
    }
    path = written("train.csv", table(row, {**row, "year": "2022"}, {**row, "lp": "ru-de"}))
    frames = read_file("wmt_da", path)
    (example,) = frames["examples"].rows(named=True)
    assert (example["quality"], example["stratum"], example["system"]) == (-0.5, "de-en", "unknown")
    assert example["instruction"] == "Translate the following text from German to English."
    assert frames["rejected"]["rule"].to_list() == ["evaluation_year", "language_pair"]
    assert frames["rejected"]["value"].to_list() == ["2022", "ru-de"]


WEBNLG_JSON = json.dumps(
    {
        "entries": [
            {
                "1": {
                    "modifiedtripleset": [
                        {"subject": "Mill", "property": "built", "object": "1788"},
                        {"subject": "Mill", "property": "place", "object": "Hollen"},
                    ],
                    "lexicalisations": [{"lex": "The mill is old."}, {"lex": "A mill."}],
                }
            }
        ]
    }
)
WEBNLG_XML = """<?xml version="1.0" encoding="utf-8"?>
<benchmark><entries><entry category="Mill" eid="Id1">
<modifiedtripleset><mtriple>Mill | built | 1788</mtriple><mtriple>Mill | place | Hollen</mtriple>
</modifiedtripleset>
<lex comment="good" lid="Id1" lang="en">The mill is old.</lex><lex lid="Id2" lang="ru">-</lex>
<lex comment="good" lid="Id3" lang="en">A mill.</lex></entry></entries></benchmark>
"""


@pytest.mark.parametrize(
    ("name", "content"), [("references-en.json", WEBNLG_JSON), ("refs-en.xml", WEBNLG_XML)]
)
def test_webnlg_with_submissions_beside_it(written, read_file, name, content):
    submissions = [written(f"{team}/primary.en", f"By {team}.\n") for team in ("bt5", "CycleGT")]
    frames = read_file("webnlg_2020", written(name, content), REAL, tuple(submissions))
    given = frames["examples"].sort("system")
    assert given["input_context"].unique().to_list() == ["(Mill,built,1788)\n(Mill,place,Hollen)"]
    assert given.select("system", "hypothesis").rows() == [
        ("CycleGT", "By CycleGT."),
        ("bt5", "By bt5."),
    ]
    assert given["references"].to_list() == [["The mill is old.", "A mill."]] * 2


def test_mixinstruct_keeps_good_candidates_beside_a_bad_one(written, read_file):
    row = {
        "id": "unified_chip2/1",
        "instruction": "",
        "input": "Name a tree.",
        "output": "An elm.",
        "candidates": [
            {"model": "a", "text": "Oak.", "scores": {"bartscore": -2.5, "bleu": 1.0}},
            {"model": "b", "text": " ", "scores": {}},
            {"model": "c", "text": "Ash.", "scores": {"bartscore": "nan"}},
        ],
        "cmp_results": "{}",
    }
    frames = read_file("mixinstruct", written("val_data_prepared.jsonl", lines(row)))
    given = frames["examples"]
    assert given.select("system", "hypothesis", "quality", "input_rows").rows() == [
        ("a", "Oak.", -2.5, 1),
        ("c", "Ash.", None, 0),
    ]
    assert given["instruction"].unique().to_list() == ["Name a tree."]
    assert given["split"].unique().to_list() == ["validation"]
    assert frames["rejected"].select("rule", "value", "input_rows").rows() == [("blank", "b", 0)]


@pytest.mark.parametrize(
    ("source", "name", "content", "rule"),
    [
        (
            "guanaco",
            "a.jsonl",
            {"text": "### Human: a### Assistant: b### Human: c"},
            "not_single_turn",
        ),
        ("oasst1", "a.jsonl", {"messages": [{"content": "a"}]}, "not_single_turn"),
        ("oasst1", "a.jsonl", {"text": "a", "role": "prompter", "replies": []}, "no_answer"),
        (
            "oasst1",
            "a.jsonl",
            {"text": "a", "role": "prompter", "lang": "de", "replies": []},
            "language",
        ),
        (
            "oasst1",
            "a.jsonl",
            {"text": "", "deleted": True, "role": "prompter", "replies": []},
            "deleted",
        ),
        ("wmt19", "a.jsonl", {"translation": {"en": "a", "de": "b", "x": "c"}}, "language_pair"),
        ("eli5", "a.jsonl", {"title": "a", "answers": {"text": [], "score": []}}, "no_answer"),
        ("dart", "a.jsonl", {"tripleset": [], "annotations": [{"text": "a"}]}, "empty"),
        (
            "wikitabletext",
            "a.jsonl",
            {"headers": ["a"], "content": ["b", "c"], "reference": "d"},
            "ragged_table",
        ),
    ],
)
def test_what_a_source_leaves_out_has_its_rule(written, read_file, source, name, content, rule):
    frames = read_file(source, written(name, lines(content)), SYNTHETIC)
    assert frames["rejected"]["rule"].to_list() == [rule]


def test_parquet_rows_with_nested_fields(tmp_path, read_file):
    path = tmp_path / "train-00000-of-00001.parquet"
    rows = [{"q_id": "x", "title": "Why?", "answers": {"text": ["So."], "score": [3]}}]
    pq.write_table(pa.Table.from_pylist(rows), path)
    frames = read_file("eli5", path, SYNTHETIC)
    assert frames["examples"].select("item", "references", "split").rows() == [
        ("x", ["So."], "train")
    ]


def test_asqa_shows_the_long_answer_of_the_first_annotation(written, read_file):
    answers = ["It was built twice.", "Two families built it, the second after a fire.", "Twice."]
    row = {
        "ambiguous_question": "Who built the mill?",
        "annotations": [{"knowledge": [], "long_answer": answer} for answer in answers],
    }
    frames = read_file("asqa", written("dev.jsonl", json.dumps(row) + "\n"), SYNTHETIC)
    assert frames["examples"]["references"].to_list() == [answers]


@pytest.mark.parametrize(
    ("start", "end", "kind", "found"),
    [
        (2, 4, "Fluency", ("output", 2, 4, "me")),
        (5, 2, "Fluency", (None, None, None, None)),
        (2, 4, "no-error", (None, None, None, None)),
    ],
)
def test_feedback_has_a_place_where_its_offsets_tell_one(
    written, read_file, start, end, kind, found
):
    error = {"error type": kind, "explanation": "", "start": start, "end": end}
    row = {
        "question": "a",
        "gold": "b",
        **{f"prediction {number}": f"some text {number}" for number in range(1, 5)},
        "feedback": {"errors": [error]},
    }
    frames = read_file("asqa", written("dev_feedback.json", json.dumps([row])), REAL)
    assert frames["examples"].height == 4
    assert frames["human_errors"].select("side", "start", "end", "text").rows() == [found]
