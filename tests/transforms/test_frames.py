"""Frames made of rows."""

from __future__ import annotations

import polars as pl
import pytest

from transforms.frames import NamedFrames, from_rows

SCHEMA = {
    "name": pl.String,
    "number": pl.Int32,
    "texts": pl.List(pl.String),
    "places": pl.List(pl.Struct({"start": pl.Int32, "of": pl.String})),
}


def test_rows_become_columns_of_the_schema():
    rows = [
        ("a", 1, ["x", None], [{"start": 1, "of": "x"}]),
        (None, None, None, None),
        ("c", 3, (), []),
    ]
    frame = from_rows(iter(rows), SCHEMA)
    assert dict(frame.schema) == SCHEMA
    assert frame.rows() == [*rows[:2], ("c", 3, [], [])]


def test_no_rows_keep_the_schema():
    assert dict(from_rows([], SCHEMA).schema) == SCHEMA


def test_columns_of_nothing_keep_their_types():
    assert dict(from_rows([(None,) * 4], SCHEMA).schema) == SCHEMA


def test_a_row_of_another_length_is_refused():
    with pytest.raises(ValueError, match="shorter"):
        from_rows([("a", 1, [], []), ("a", 1)], SCHEMA)
    with pytest.raises(ValueError, match="shorter"):
        from_rows([("a", 1)], SCHEMA)


def test_named_frames_have_their_schema_even_where_there_is_none():
    frames = NamedFrames({"rows": {"name": pl.String, "number": pl.Int32}})
    there = pl.DataFrame(
        {"name": ["a"], "number": [1]}, schema={"name": pl.String, "number": pl.Int32}
    )
    assert frames.named({"rows": there}, "rows") is there
    assert frames.named({}, "rows").schema == there.schema
    assert frames.together("rows", there, there).height == 2
    assert frames.together("rows").schema == there.schema
