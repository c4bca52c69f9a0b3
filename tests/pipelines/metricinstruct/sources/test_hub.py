"""Datasets in the Hub's form, loaded by ``datasets`` itself: a folder stands for the Hub."""

from __future__ import annotations

import hashlib
import json
import os

import datasets
import pytest

from pipelines.metricinstruct.schema import SYNTHETIC
from pipelines.metricinstruct.sources.hub import hub_fingerprint, hub_rows
from pipelines.metricinstruct.sources.registry import described_source
from transforms.errors import InputError

ROWS = [
    {"doc": "A text.", "ref": ["Short."], "n": 1},
    {"doc": "Ein Text – ja.", "ref": ["Kurz."], "n": 2},
]
CARD = """---
configs:
- config_name: default
  data_files: [{split: train, path: train.jsonl}, {split: test, path: test.jsonl}]
- config_name: small
  data_files: [{split: test, path: test.jsonl}]
---
"""


@pytest.fixture
def hub(written, tmp_path, monkeypatch):
    """Return a function that writes a dataset ``owner/name`` where the client finds it."""
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", tmp_path / "cache")
    monkeypatch.setattr("datasets.config.HF_HUB_OFFLINE", True)
    monkeypatch.chdir(tmp_path)

    def write(rows=ROWS, name="owner/name"):
        written(f"{name}/README.md", CARD)
        written(f"{name}/train.jsonl", json.dumps(rows[0]) + "\n")
        return written(f"{name}/test.jsonl", "".join(json.dumps(row) + "\n" for row in rows))

    return write


@pytest.mark.parametrize(
    ("path", "rows"),
    [
        ("hub:owner/name", ROWS[:1]),
        ("hub:owner/name::test", ROWS),
        ("hub:owner/name:small:test", ROWS),
    ],
)
def test_configuration_and_split_are_those_that_are_named(hub, path, rows):
    hub()
    assert list(hub_rows(path)) == rows


def test_a_dataset_is_read_by_its_map(hub, read_file):
    hub()
    fields = {"input_context": "doc", "reference": "ref", "id": "n"}
    source = described_source("mine", "summarization", fields, "Shorten.")
    frames = read_file(source, "hub:owner/name::test", SYNTHETIC)
    assert frames["examples"].select("input_context", "references", "item", "line").rows() == [
        ("A text.", ["Short."], "1", 1),
        ("Ein Text – ja.", ["Kurz."], "2", 2),
    ]
    assert set(frames["examples"]["file"]) == {"hub:owner/name::test"}


def test_a_fingerprint_is_that_of_the_rows_alone(hub):
    hub(name="owner/name")
    found = hub_fingerprint("hub:owner/name::test")
    text = "".join(json.dumps(row, sort_keys=True, ensure_ascii=False) + "\n" for row in ROWS)
    data = text.encode()
    assert found == {
        "path": "hub:owner/name::test",
        "bytes": len(data),
        "sha256": hashlib.sha256(data).hexdigest(),
    }
    moved = hub(name="another/place")
    os.utime(moved, (1, 1))
    same = hub_fingerprint("hub:another/place::test")
    assert (same["bytes"], same["sha256"]) == (found["bytes"], found["sha256"])
    hub([ROWS[0], {**ROWS[1], "doc": "Ein Text - ja."}], name="third/one")
    assert hub_fingerprint("hub:third/one::test")["sha256"] != found["sha256"]


def test_a_revision_is_handed_on(monkeypatch):
    asked = []

    def load(name, configuration, *, split, revision):
        asked.append((name, configuration, split, revision))
        return datasets.Dataset.from_list(ROWS)

    monkeypatch.setattr(datasets, "load_dataset", load)
    for path in ("hub:owner/name@1a2b:small:test", "hub:owner/name@v1", "hub:owner/name"):
        assert list(hub_rows(path)) == ROWS
    assert asked == [
        ("owner/name", "small", "test", "1a2b"),
        ("owner/name", None, "train", "v1"),
        ("owner/name", None, "train", None),
    ]


@pytest.mark.parametrize("path", ["hub:owner/other", "hub:owner/name:large", "hub:owner/name::dev"])
def test_a_dataset_that_cannot_be_loaded_is_refused(hub, read_file, path):
    hub()
    with pytest.raises(InputError, match=rf"{path}.*download its files"):
        read_file("gsm8k", path, SYNTHETIC)
