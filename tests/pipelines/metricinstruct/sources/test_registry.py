from __future__ import annotations

import json

import pytest

from pipelines.metricinstruct.schema import REAL, SYNTHETIC
from pipelines.metricinstruct.sources.registry import described_source, source_named
from transforms.errors import OptionError

FIELDS = {"input_context": "doc", "reference": "ref", "hypothesis": "out", "system": "model"}


def test_a_described_source_reads_what_its_map_names(written, read_file):
    row = {"doc": "A text.", "ref": ["One.", "Two."], "out": "Out.", "model": "m", "n": 7, "q": 0.5}
    source = described_source(
        "mine", "summarization", {**FIELDS, "id": "n", "quality": "q"}, "Shorten the text."
    )
    frames = read_file(source, written("a.jsonl", json.dumps(row) + "\n"), REAL)
    (example,) = frames["examples"].rows(named=True)
    assert example["instruction"] == "Shorten the text."
    assert (example["input_context"], example["hypothesis"]) == ("A text.", "Out.")
    assert (example["item"], example["system"], example["quality"]) == ("7", "m", 0.5)
    assert example["references"] == ["One.", "Two."]


def test_a_described_source_may_have_instructions_of_its_own(written, read_file):
    source = described_source(
        "mine", "instruction-following", {"instruction": "ask", "reference": "say"}
    )
    frames = read_file(source, written("a.csv", "ask,say\nAdd 2 and 3.,5\n,6\n"), SYNTHETIC)
    assert frames["examples"].select("instruction", "input_context").rows() == [
        ("Add 2 and 3.", "")
    ]
    assert frames["rejected"].select("rule", "field").rows() == [("missing", "ask")]


@pytest.mark.parametrize(
    ("name", "task", "fields", "instruction", "message"),
    [
        ("mine", "poetry", FIELDS, "Do.", "no task poetry"),
        ("mine", "mathQA", {"answer": "a"}, "Do.", "can't map answer"),
        ("gsm8k", "mathQA", FIELDS, "Do.", "source of that name already"),
        ("mine", "mathQA", FIELDS, None, "either an instruction or the field"),
        ("mine", "mathQA", {**FIELDS, "instruction": "i"}, "Do.", "either an instruction or"),
        ("mine", "mathQA", {"reference": "r"}, "Do.", "map input_context"),
        ("mine", "mathQA", FIELDS, " \n", "instruction is blank"),
        ("mine", "mathQA", FIELDS, "Do \udcff.", "instruction is not text"),
    ],
)
def test_a_map_that_cannot_be_used_is_refused(name, task, fields, instruction, message):
    with pytest.raises(OptionError, match=message):
        described_source(name, task, fields, instruction)


def test_a_source_that_is_unknown_or_does_not_serve_the_channel_is_refused():
    with pytest.raises(OptionError, match=r"no source gsm9k; known are .*gsm8k"):
        source_named("gsm9k", REAL)
    with pytest.raises(OptionError, match="dart doesn't serve the real channel"):
        source_named("dart", REAL)
