"""Real rows of the release: our schema, our writer and our suite take them as they are."""

from __future__ import annotations

import json

import polars as pl
import pytest

from pipelines.prosocial import schema
from transforms.frames import polars_schema
from transforms.publishing.shards import parquet_bytes, read_table, to_table


@pytest.fixture(scope="module")
def released(shared_data) -> list[dict]:
    """Whole dialogues of the release, from the copy that keeps every field."""
    raw = json.loads(shared_data("prosocial_dialog_samples/converted_examples.json").read_text())
    rows = []
    for dialogue in raw.values():
        for turn in dialogue["log"]:
            kept = dict(turn["original user side information"])
            kept.update(context=turn["user utterance"], response=turn["system response"])
            rows.append({name: kept[name] for name in schema.RELEASED.names})
    return rows


def test_real_rows_come_back_cell_by_cell(released):
    frame = pl.DataFrame(released, schema=polars_schema(schema.RELEASED))

    table = read_table(parquet_bytes(to_table(frame, schema.RELEASED)))

    assert len(released) == 12
    assert table.to_pylist() == released


def test_real_rows_pass_the_suite(released, runner):
    frame = pl.DataFrame(released, schema=polars_schema(schema.RELEASED))

    verdict = runner.validate(frame, "prosocial_default")

    assert [check.describe() for check in verdict.failures + verdict.warnings] == []
