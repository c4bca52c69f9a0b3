from __future__ import annotations

import bz2
import gzip
import json
import lzma
from functools import partial

import pytest
import zstandard

from pipelines.metricinstruct.sources import text_files
from pipelines.metricinstruct.sources.outputs import read_outputs
from transforms.errors import InputError
from transforms.reading import decode

XSUM = "".join(
    json.dumps({"document": f"Text {n}.", "summary": f"Short {n}.", "id": str(n)}) + "\n"
    for n in range(3)
)


def test_lines_go_by_row_and_their_file_names_the_system(written, read_file):
    texts = [
        written("bart-test-predictions.txt", "a\nb\n\n"),
        written("pegasus.txt", "a\nb\nc"),
    ]
    frames = read_file("xsum", written("test.jsonl", XSUM), outputs=tuple(texts))
    given = frames["examples"].sort("system", "line").select("system", "item", "hypothesis")
    assert given.rows() == [
        ("bart", "0", "a"),
        ("bart", "1", "b"),
        ("pegasus", "0", "a"),
        ("pegasus", "1", "b"),
        ("pegasus", "2", "c"),
    ]
    assert frames["rejected"].select("rule", "value", "item").rows() == [("blank", "bart", "2")]


@pytest.mark.parametrize(
    ("name", "system"),
    [
        ("alder-predictions.txt.gz", "alder"),
        ("alder.txt.zst", "alder"),
        ("birch/primary.en.XZ", "birch"),
        ("alder.out.bz2", "alder"),
    ],
)
def test_a_compression_is_no_part_of_a_systems_name(tmp_path, name, system):
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    openers = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open, ".zst": zstandard.open}
    with openers[path.suffix.lower()](path, "wb") as file:
        file.write(b"a\n")
    assert read_outputs([str(path)]).by_row == {system: ["a"]}


def test_lines_stay_with_their_rows_where_rows_cannot_be_read(written, read_file):
    """Of five rows the second has a stray quote, the fourth too few cells."""
    text = 'id,document,summary\n0,a,b\n1,"a"x,b\n2,a,b\n3,a\n4,a,b\n'
    outputs = written("sys.txt", "".join(f"output for row {n}\n" for n in range(5)))
    frames = read_file("xsum", written("test.csv", text), outputs=(outputs,))
    assert frames["examples"].select("item", "hypothesis").rows() == [
        (item, f"output for row {item}") for item in ("0", "2", "4")
    ]
    assert frames["rejected"].select("line", "rule").rows() == [
        (3, "stray_quote"),
        (5, "ragged_row"),
    ]


def test_an_output_too_long_for_a_line_is_not_taken_for_its_beginning(written, monkeypatch):
    monkeypatch.setattr(decode, "MAX_RECORD_BYTES", 1000)
    monkeypatch.setattr(text_files, "text_blocks", partial(decode.text_blocks, block_bytes=300))
    for name in ("sys.txt", "sys.jsonl"):
        with pytest.raises(InputError, match=r"sys\.\w+, line 1: is longer than"):
            read_outputs([str(written(name, "x" * 20_000 + "\n"))])


def test_objects_go_by_id(written, read_file):
    rows = [("1", "bart", "b"), ("0", "bart", "a"), ("1", "t5", "c"), ("9", "t5", "x")]
    text = "".join(
        json.dumps(dict(zip(("id", "system", "output"), r, strict=True))) + "\n" for r in rows
    )
    path = written("outputs.jsonl", text)
    frames = read_file("xsum", written("test.jsonl", XSUM), outputs=(path,))
    assert sorted(frames["examples"].select("item", "system", "hypothesis").rows()) == [
        ("0", "bart", "a"),
        ("1", "bart", "b"),
        ("1", "t5", "c"),
    ]
    assert frames["rejected"].select("rule", "item").rows() == [("no_output", "2")]
    told = frames["beside"].sort("line").select("unit", "line", "item", "used").rows()
    assert told == [
        ("output", 1, "1", True),
        ("output", 2, "0", True),
        ("output", 3, "1", True),
        ("output", 4, "9", False),
    ]


def test_a_report_goes_by_request(written, read_file):
    report = {
        "model_name": "pythia",
        "prompts": [
            {
                "prompt": "Name a tree. ",
                "results": [
                    {"sampling_config": "k50", "outputs": ["Elm.", "Oak."]},
                    {"sampling_config": "greedy", "outputs": ["Tree."]},
                ],
            }
        ],
    }
    tree = {"text": "Name a tree.", "role": "prompter", "replies": [{"text": "Ash."}]}
    frames = read_file(
        "oasst1",
        written("a.trees.jsonl", json.dumps(tree) + "\n"),
        outputs=(written("report.json", json.dumps(report)),),
    )
    assert frames["examples"].select("system", "hypothesis").rows() == [
        ("pythia k50", "Elm."),
        ("pythia k50 2", "Oak."),
        ("pythia greedy", "Tree."),
    ]


@pytest.mark.parametrize("text", ["a\nb\n", "a\nb\nc\nd\n"])
def test_lines_for_another_file_are_refused(written, read_file, text):
    with pytest.raises(InputError, match="has 3 rows, but bart has"):
        read_file("xsum", written("test.jsonl", XSUM), outputs=(written("bart.txt", text),))


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("o.jsonl", '{"id": 1}\n'),
        ("o.jsonl", "[]\n"),
        ("o.jsonl", "[" * 100_000 + "\n"),
        ("o.jsonl", '{"id": 1, "system": "s", "output": "a", "output": "b"}\n'),
        ("o.json", '{"model_name": "a", "model_name": "b", "prompts": []}'),
        (
            "o.json",
            '{"model_name": "a", "prompts": [{"prompt": "p", "results": [{"outputs": "ab"}]}]}',
        ),
        ("o.json", "[" * 100_000),
        ("o.json", '{"prompts": [{}]}'),
        ("o.json", "[]"),
        ("o.csv", "a,b\n"),
    ],
)
def test_outputs_of_no_known_form_are_refused(written, name, content):
    with pytest.raises(InputError, match=name):
        read_outputs([str(written(name, content))])


def test_two_files_of_one_system_are_refused(written):
    paths = [str(written(f"{folder}/bart.txt", "a\n")) for folder in "ab"]
    with pytest.raises(InputError, match="two files of outputs by bart"):
        read_outputs(paths)
