from __future__ import annotations

import gzip
import json
import re
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pipelines.metricinstruct.schema import CHANNELS, REAL, SYNTHETIC
from pipelines.metricinstruct.sources import text_files
from pipelines.metricinstruct.sources.chunk import Chunk
from pipelines.metricinstruct.sources.reading import SourceFile, read_source_file
from pipelines.metricinstruct.sources.registry import SOURCES, described_source
from pipelines.metricinstruct.sources.samples import sample_files
from pipelines.metricinstruct.sources.source import Example, Row, source_key
from transforms.errors import InputError
from transforms.reading import decode

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


DEEP = '{"question": ' + "[" * 100_000 + "\n"
REPEATED = '{"question": "a", "answer": "b", "answer": "c"}'
GOOD = '{"question": "a", "answer": "b"}'


@pytest.mark.parametrize(
    ("source", "name", "content", "rejected"),
    [
        ("gsm8k", "a.jsonl", f"{GOOD}\n{DEEP}", [(2, "bad_json", None)]),
        ("gsm8k", "a.jsonl", f"{GOOD}\n{REPEATED}\n", [(2, "duplicate_field", "answer")]),
        (
            "gsm8k",
            "a.json",
            f'[{GOOD}, {REPEATED}, 3, {{"question": "a", "answer": "b", "more": [-Infinity]}}]',
            [(2, "duplicate_field", "answer"), (3, "not_an_object", None), (4, "bad_json", None)],
        ),
        (
            "eli5",
            "a.jsonl",
            '{"title": "a", "answers": {"text": ["b"], "score": [1]}}\n'
            '{"title": "a", "answers": {"text": ["b"], "score": [1], "text": ["c"]}}\n',
            [(2, "duplicate_field", "text")],
        ),
        (
            "gsm8k",
            "a.jsonl",
            f'{GOOD}\n{{"question": NaN, "answer": "b"}}\n',
            [(2, "bad_json", None)],
        ),
        (
            "cosmosqa",
            "a.jsonl",
            "".join(
                f'{{"context": "a", "question": "b", "answer0": "{"c" * 51}", "answer3": "d", '
                f'"label": {label}}}\n'
                for label in ("0", "1" + "0" * 400)
            ),
            [(2, "no_answer", "label")],
        ),
        (
            "asqa",
            "a.jsonl",
            '{"ambiguous_question": "a", "annotations": [{"long_answer": "b"}]}\n'
            '{"foo": "bar"}\n{}\n{"foo": {}}\n',
            [(2, "not_an_object", "samples"), (3, "empty", None), (4, "empty", None)],
        ),
        (
            "asqa",
            "a.json",
            '{"dev": {"x": {"ambiguous_question": "a", "annotations": [{"long_answer": "b"}]}, '
            '"y": 1, "z": {"ambiguous_question": "a", "annotations": 2}, "n": {"more": NaN}, '
            '"t": {"more": 1, "more": 2}}, "train": {}}',
            [
                (2, "not_an_object", None),
                (3, "not_a_list", "annotations"),
                (4, "bad_json", None),
                (5, "duplicate_field", "more"),
            ],
        ),
    ],
)
def test_what_is_malformed_is_a_reject(written, read_file, source, name, content, rejected):
    frames = read_file(source, written(name, content), SYNTHETIC)
    assert frames["examples"]["line"].to_list() == [1]
    assert frames["rejected"].select("line", "rule", "field").rows() == rejected


def test_malformed_entries_of_webnlg_are_rejects(written, read_file):
    entry = {
        "modifiedtripleset": [{"subject": "a", "property": "b", "object": "c"}],
        "lexicalisations": [{"lex": "d"}],
    }
    bad = [3, {**entry, "modifiedtripleset": [1]}, {**entry, "lexicalisations": "d"}]
    entries = [{"1": entry}, 2, *({str(n): one} for n, one in enumerate(bad, 3)), {"9": entry}]
    path = written("references-en.json", json.dumps({"entries": entries}))
    outputs = written("s.txt", "".join(f"{n}\n" for n in range(6)))
    frames = read_file("webnlg_2020", path, outputs=(outputs,))
    assert frames["examples"].select("item", "hypothesis").rows() == [("1", "0"), ("9", "5")]
    assert frames["rejected"].select("line", "rule", "field").rows() == [
        (2, "not_an_object", None),
        (3, "not_an_object", None),
        (4, "not_a_list", "triples"),
        (5, "not_a_list", "lex"),
    ]


def test_a_field_named_twice_costs_the_entry_of_webnlg_that_it_stands_in(written, read_file):
    entry = (
        '{"modifiedtripleset": [{"subject": "a", "property": "b", "object": "c"}], '
        '"lexicalisations": [{"lex": "d"}]}'
    )
    twice = entry.replace('"lex": "d"', '"lex": "d", "lex": "e"')
    text = f'{{"entries": [{{"1": {entry}}}, {{"2": {twice}}}, {{"3": {entry}}}]}}'
    outputs = written("s.txt", "x\ny\nz\n")
    frames = read_file("webnlg_2020", written("a.json", text), outputs=(outputs,))
    assert frames["examples"].select("item", "hypothesis").rows() == [("1", "x"), ("3", "z")]
    assert frames["rejected"].select("line", "rule", "field").rows() == [
        (2, "duplicate_field", "lex")
    ]
    lost = written("b.json", f'{{"entries": [{{"1": {entry}, "1": {entry}}}]}}')
    with pytest.raises(InputError, match=r"webnlg_2020 .1: duplicate_field"):
        read_file("webnlg_2020", lost)


def test_the_rows_behind_an_output_are_counted_where_it_is_rejected():
    chunk = Chunk(REAL, SOURCES["wmt_mqm"], None)
    example = Example("a\0", hypothesis="b", system="s", stratum="en-de", input_rows=3)
    chunk.add_output(Row({}, "mqm_ende.tsv", 1), example)
    ((_, frame),) = chunk.frames()
    assert frame.select("rule", "input_rows").rows() == [("nul_byte", 3)]


@pytest.mark.parametrize("name", ["wmt19", "quintd", "fetaqa", "gsm8k"])
def test_a_value_nested_as_deeply_as_can_be_read_costs_its_row_only(written, read_file, name):
    field = {"quintd": "input", "fetaqa": "table_array", "gsm8k": "question"}.get(
        name, "translation"
    )
    for depth in range(700, 1000, 7):
        row = json.dumps(ROWS[name])
        inner = "[" * depth + "]" * depth
        deep = json.dumps({**ROWS[name], field: "DEEP"}).replace('"DEEP"', inner)
        frames = read_file(name, written("a.jsonl", f"{row}\n{deep}\n"), SOURCES[name].channels[0])
        ends = [*frames["examples"]["line"], *frames["rejected"]["line"]]
        assert set(ends) == {1, 2}


@pytest.mark.parametrize(
    ("content", "lines", "rules"),
    [
        ('{"question": "' + "a" * 9000 + '", "answer": "b"}\n' + GOOD + "\n", [1, 2], []),
        (f"{GOOD}\n", [1], []),
        (f"\n{GOOD}\n\n{GOOD}", [2, 4], []),
        (f'{{"question": "cut\n{GOOD}\n', [2], ["bad_json"]),
        (f'{{"question": NaN}}\n{{"question": NaN}}\n{GOOD}\n', [3], ["bad_json", "bad_json"]),
        (f"[1]\n{GOOD}\n", [2], ["not_an_object"]),
        (f"[{GOOD},\n{GOOD}\n]", [1, 2], []),
        (f"[\n{GOOD}\n]", [1], []),
    ],
)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_json_lines_are_told_from_an_array(tmp_path, read_file, content, lines, rules, encoding):
    path = tmp_path / "train.json"
    path.write_bytes(content.encode(encoding))
    frames = read_file("gsm8k", path, SYNTHETIC)
    assert frames["examples"]["line"].to_list() == lines
    assert frames["rejected"]["rule"].to_list() == rules


@pytest.mark.parametrize("name", ["a.jsonl", "mqm_ende.tsv"])
def test_a_line_that_is_too_long_is_a_reject(written, read_file, monkeypatch, name):
    monkeypatch.setattr(decode, "MAX_RECORD_BYTES", 1000)
    monkeypatch.setattr(text_files, "text_blocks", partial(decode.text_blocks, block_bytes=300))
    if name == "a.jsonl":
        text = f'{GOOD}\n{{"question": "{"a" * 20_000}", "answer": "b"}}\n{GOOD}\n'
        frames = read_file("gsm8k", written(name, text), SYNTHETIC)
    else:
        header = ("system", "seg_id", "source", "target", "category", "severity")
        rows = (header, "s1abNN", "s2abNN", "s3abNN")
        text = "".join("\t".join(row) + "\n" for row in rows).replace("2", "2" * 20_000)
        frames = read_file("wmt_mqm", written(name, text.replace("N", "No-error")))
    assert frames["rejected"]["rule"].to_list() == ["too_long"]
    assert frames["examples"].height == 2


def test_damaged_parquet_is_refused_by_name(tmp_path, read_file):
    path = tmp_path / "a.parquet"
    texts = pa.StringArray.from_buffers(
        2, pa.py_buffer(b"\0\0\0\0\1\0\0\0\2\0\0\0"), pa.py_buffer(b"a\xff")
    )
    pq.write_table(pa.table({"question": texts, "answer": ["b", "c"]}), path)
    with pytest.raises(InputError, match=r"a\.parquet: is damaged .*UTF8"):
        read_file("gsm8k", path, SYNTHETIC)
    table = pa.table({"question": [f"What is {n}?" for n in range(999)], "answer": ["b"] * 999})
    pq.write_table(table, path, use_dictionary=False)
    data = bytearray(path.read_bytes())
    data[60:900] = b"\xff" * 840
    path.write_bytes(data)
    with pytest.raises(InputError, match=r"a\.parquet: (is damaged|can't be read)"):
        read_file("gsm8k", path, SYNTHETIC)


def test_a_column_may_have_any_name_but_no_two_the_same(written, tmp_path, read_file):
    path = written("train.csv", "line,question,,answer,\n7,a,x,b,y\n")
    assert read_file("gsm8k", path, SYNTHETIC)["examples"]["line"].to_list() == [2]
    described = described_source(
        "mine", "summarization", {"input_context": "line", "reference": "answer"}, "Shorten."
    )
    assert read_file(described, path, SYNTHETIC)["examples"]["input_context"].to_list() == ["7"]
    tsv = written("mqm_ende.tsv", "system\tsystem\na\tb\n")
    table = pa.Table.from_arrays([pa.array(["a"])] * 2, names=["question", "question"])
    pq.write_table(table, tmp_path / "a.parquet")
    for source, twice in (("wmt_mqm", tsv), ("gsm8k", tmp_path / "a.parquet")):
        with pytest.raises(InputError, match="names a column twice"):
            read_file(source, twice)


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
        ("totto", "a.json", '{"a":\n1}', "one JSON value"),
        ("totto", "a.json", "{", "is not JSON"),
        ("webnlg_2020", "a.xml", "<a>", "is not XML"),
        ("wmt_mqm", "mqm_ende.tsv", "a\tb\n1\t2\n", "is not a file of wmt_mqm"),
        ("fetaqa", "a.parquet", "x", "not a parquet file"),
        ("asqa", "a.json", '{"data":\n[1, 2]}', "is not a file of asqa .samples: not_an_object"),
        ("asqa", "a.json", '{"dev": {"a": {"x": 1},\n"a": {}}}', "asqa .a: duplicate_field"),
        ("asqa", "a.json", "3", "is not a file of asqa"),
        ("asqa", "a.xml", "<a/>", "is not a file of asqa"),
        ("webnlg_2020", "a.json", '{"entries": 3}', "is not a file of webnlg_2020 .entries"),
        ("webnlg_2020", "a.xml", '<?xml version="1.0" encoding="big5-x"?><a/>', "is not XML"),
        ("oasst1", "a.json", '"text"', "is not a file of oasst1"),
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
