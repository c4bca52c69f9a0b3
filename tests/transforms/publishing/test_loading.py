from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest

from transforms.publishing.loading import loading_failures
from transforms.publishing.manifest import Manifest

CARD = """---
configs:
- config_name: default
  data_files: [{split: train, path: "data/train-*.parquet"}]
- config_name: dead
  data_files: [{split: dead, path: "dead/dead-*.parquet"}]
---
"""


@pytest.fixture
def version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    for path, rows in (("data/train-0.parquet", 3), ("dead/dead-0.parquet", 1)):
        file = tmp_path / path
        file.parent.mkdir()
        pl.DataFrame({"a": range(rows)}).write_parquet(file)
    (tmp_path / "README.md").write_text(CARD)
    return tmp_path


def manifest(**splits: dict[str, int]) -> Manifest:
    configurations: dict[str, Any] = {name: {"splits": rows} for name, rows in splits.items()}
    return Manifest("any", 1, {}, {}, configurations, (), {}, {}, ())


def test_what_loads_in_full_is_no_failure(version: Path) -> None:
    published = manifest(default={"train": 3, "test": 0}, dead={"dead": 1}, waiting={"waiting": 0})
    assert loading_failures(str(version), published) == []


def test_other_rows_and_what_does_not_load_are_told(version: Path) -> None:
    failures = loading_failures(str(version), manifest(default={"train": 4}, lost={"lost": 1}))
    assert failures == [
        "default: datasets loads {'train': 3} rows, the manifest says {'train': 4}",
        "lost: datasets can't load it (ValueError)",
    ]
    (version / "dead/dead-0.parquet").write_bytes(b"PAR1 and no more")
    (failure,) = loading_failures(str(version), manifest(dead={"dead": 1}))
    assert failure.startswith("dead: datasets can't load it")
