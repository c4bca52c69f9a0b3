from __future__ import annotations

import gzip
import json
import re
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pipelines.metricinstruct.schema import CHANNELS, REAL, SYNTHETIC
from pipelines.metricinstruct.sources.reading import SourceFile, read_source_file
from pipelines.metricinstruct.sources.registry import SOURCES
from pipelines.metricinstruct.sources.samples import sample_files
from pipelines.metricinstruct.sources.source import source_key
from transforms.errors import InputError

SAMPLES = {file.source: file for file in sample_files()}
#: Nested rows of every source that reads objects, to be damaged.
ROWS: dict[str, Any] = {
    name: json.loads(Path(SAMPLES[name].path).read_text("utf-8").splitlines()[0])
    for name in ("summeval", "totto", "fetaqa", "gsm8k", "mixinstruct", "dolly")
}
ROWS |= {
    name: json.loads(Path(SAMPLES[name].path).read_text("utf-8"))[0] for name in ("samsum", "dart")
}
ROWS |= {
    "asqa": {
        "question": "a",
        "gold": "b",
        **{f"prediction {number}": "some text" for number in range(1, 5)},
        "feedback": {"errors": [{"error type": "x", "explanation": "", "start": 0, "end": 4}]},
    },
    "eli5": {"title": "a", "answers": {"text": ["b"], "score": [1]}},
    "oasst1": {
        "text": "a",
        "role": "prompter",
        "replies": [{"message_id": "b", "text": "c", "rank": 0}],
    },
    "quintd": {
        "dataset": "a",
        "model": "b",
        "table_idx": 0,
        "output": "some text",
        "input": {},
        "human": {"annotator": "h", "spans": [{"start": 0, "text": "some", "type": "other"}]},
        "gpt4": [{"start": 5, "text": "text", "type": 1, "reason": "c"}],
    },
    "wmt19": {"translation": {"de": "a", "en": "b"}},
    "wikitabletext": {"headers": "['a']", "content": ["b"], "reference": "c"},
    "llmbar": {"input": "a", "output_1": "b", "output_2": "c", "label": 1},
    "summedits": {
        "id": "a",
        "doc": "b",
        "summary": "c",
        "original_summary": "d",
        "edit_types": ["e"],
        "label": 0,
    },
}
DAMAGE = st.sampled_from(
    [
        None,
        "",
        " ",
        0,
        -1,
        99999,
        1.5,
        True,
        [],
        {},
        [[]],
        [None],
        {"text": []},
        "\ud800",
        "\0",
        "x",
    ]
)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the paths of all values within ``value``."""
    inner = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    return [p for key, v in inner for p in ((*path, key), *places(v, (*path, key)))]


@settings(
    max_examples=150,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(data=st.data())
def test_no_damage_within_a_row_costs_more_than_the_row(tmp_path, read_file, data):
    name = data.draw(st.sampled_from(sorted(ROWS)))
    row = json.loads(json.dumps(ROWS[name]))
    place = data.draw(st.sampled_from(places(row)))
    parent = row
    for step in place[:-1]:
        parent = parent[step]
    parent[place[-1]] = data.draw(DAMAGE)
    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps(ROWS[name]) + "\n" + json.dumps(row) + "\n", encoding="utf-8")
    for channel in SOURCES[name].channels:
        frames = read_file(name, path, channel)
        assert frames["counts"]["n"].sum() == 2
        written = pl.concat([frames["examples"].select("line"), frames["rejected"].select("line")])
        assert set(written["line"]) == {1, 2}


def test_lines_that_cannot_be_read_are_rejects(tmp_path, read_file):
    good = json.dumps({"question": "a", "answer": "b"}).encode()
    path = tmp_path / "train.jsonl.gz"
    bad = [
        b'{"question": "cut',
        b"[1]",
        b'{"question": "\xff", "answer": "b"}',
        b"",
        b'{"question": 1}',
    ]
    path.write_bytes(gzip.compress(b"\n".join([good, *bad, good]) + b"\n"))
    frames = read_file("gsm8k", path, SYNTHETIC)
    assert frames["examples"]["line"].to_list() == [1, 7]
    assert frames["rejected"].select("line", "rule", "field").rows() == [
        (2, "bad_json", None),
        (3, "not_an_object", None),
        (4, "invalid_bytes", "question"),
        (6, "not_text", "question"),
    ]
    assert frames["rejected"].filter(pl.col("unit") != "input_row").is_empty()


def test_a_broken_row_of_a_csv_file_is_a_reject(written, read_file):
    text = "id,article,highlights\n1,a,b\n2,only\n3,c,d\n"
    frames = read_file("cnn_dailymail", written("train.csv", text), SYNTHETIC)
    assert frames["examples"]["item"].to_list() == ["1", "3"]
    assert frames["rejected"].select("rule", "line").rows() == [("ragged_row", 3)]


@pytest.mark.parametrize(
    ("source", "name", "content", "message"),
    [
        ("gsm8k", "a.jsonl", '{"text": "b"}\n', "is not a file of gsm8k.*question"),
        ("gsm8k", "a.jsonl", "", "no row that can be read"),
        ("gsm8k", "a.jsonl", "not json\n", "no row that can be read"),
        ("gsm8k", "a.doc", "a", "can't tell its kind"),
        ("gsm8k", "a.xml", "<a/>", "has no .xml form"),
        ("totto", "a.json", '{"a": 1}', "one JSON value"),
        ("totto", "a.json", "{", "is not JSON"),
        ("webnlg_2020", "a.xml", "<a>", "is not XML"),
        ("wmt_mqm", "mqm_ende.tsv", "a\tb\n1\t2\n", "is not a file of wmt_mqm"),
        ("fetaqa", "a.parquet", "x", "not a parquet file"),
    ],
)
def test_a_file_of_another_form_is_refused(written, read_file, source, name, content, message):
    with pytest.raises(InputError, match=message):
        read_file(source, written(name, content))


def test_a_missing_file_is_refused(tmp_path, read_file):
    with pytest.raises(InputError, match="no such file"):
        read_file("gsm8k", tmp_path / "a.jsonl")


def test_chunks_hold_the_same_rows_whatever_their_size(read_file):
    file = SAMPLES["mixinstruct"]
    whole = read_file(file.source, file.path)
    for chunk_rows in (1, 3):
        parts = read_file(file.source, file.path, chunk_rows=chunk_rows)
        assert all(parts[name].equals(frame) for name, frame in whole.items())


def test_a_chunk_is_handed_on_when_it_is_full():
    file = SAMPLES["mixinstruct"]
    chunks = read_source_file(file, SOURCES[file.source], chunk_rows=2)
    heights = [frame.height for name, frame in chunks if name == "examples"]
    assert len(heights) >= 5
    assert sum(heights) == 10


def test_an_input_without_outputs_or_references_has_its_rule(written, read_file):
    path = written("train.jsonl", '{"question": "a", "answer": "b"}\n')
    real = read_file("gsm8k", path, REAL)
    assert real["rejected"]["rule"].to_list() == ["no_output"]
    row = json.dumps({"instruction": "a", "input": "", "candidates": [{"model": "m", "text": "t"}]})
    source = SOURCES["mixinstruct"]
    file = SourceFile("mixinstruct", SYNTHETIC, str(written("m.jsonl", row + "\n")))
    frames = dict(read_source_file(file, source))
    assert frames["rejected"]["rule"].to_list() == ["no_reference"]


def test_an_input_is_not_lost_with_an_output_of_it(written, read_file):
    solutions = {"a": {"solution": " "}, "b": {"solution": "It is 4.", "is_correct": True}}
    row = {"question": "2 + 2?", "ground_truth": "4", **solutions}
    path = written("example_model_solutions.jsonl", json.dumps(row) + "\n")
    assert read_file("gsm8k", path, SYNTHETIC)["examples"]["references"].to_list() == [["4"]]
    real = read_file("gsm8k", path, REAL)
    assert real["examples"].select("system", "quality", "input_rows").rows() == [("b", 1.0, 0)]
    assert real["rejected"].select("rule", "value", "input_rows").rows() == [("blank", "a", 1)]


def test_the_key_is_that_of_the_input_alone():
    one = source_key("summarization", "Write a summary.", "The  MILL was sold.")
    assert one == source_key("summarization", "Write a title.", "the mill was sold.")
    first = source_key("instruction-following", "Shorten.", "The mill was sold.")
    assert first != source_key("instruction-following", "Translate.", "The mill was sold.")
    assert source_key("mathQA", "a", " ") != source_key("mathQA", "b", " ")


def test_every_source_of_the_card_serves_its_channels():
    real = {
        *("summeval", "xsum", "newsroom", "samsum", "wmt_mqm", "wmt_da", "webnlg_2020"),
        *("wikitabletext", "totto", "asqa", "fetaqa", "cosmosqa", "eli5", "gsm8k", "mixinstruct"),
    }
    synthetic = {
        *("cnn_dailymail", "xsum", "gigaword", "samsum", "wmt19", "wikitabletext", "dart", "totto"),
        *("asqa", "fetaqa", "cosmosqa", "eli5", "alpaca_farm", "oasst1", "guanaco", "dolly"),
    }
    for names, channel in ((real, REAL), (synthetic, SYNTHETIC)):
        assert {name for name in names if channel in SOURCES[name].channels} == names
    assert all(set(source.channels) <= set(CHANNELS) for source in SOURCES.values())


def test_every_source_stands_in_the_table_with_its_licence_and_what_its_form_rests_on():
    page = Path(__file__).parents[4] / "pipelines" / "metricinstruct" / "SOURCES.md"
    text = page.read_text("utf-8")
    rows = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| `")]
    licences = {cells[0].strip("`"): cells[-1] for cells in rows}
    assert licences == {name: source.licence for name, source in SOURCES.items()}
    rests_on = {part.strip() for cells in rows for part in cells[-2].split(";")}
    letters = sorted(part for part in rests_on if len(part) == 1)
    assert letters == re.findall(r"^- \*([a-z])\* ", text, re.MULTILINE)
