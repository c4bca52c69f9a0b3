from __future__ import annotations

import dataclasses

import polars as pl
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.metricinstruct.errors.record import (
    ERROR_STRUCT,
    ERRORS,
    ERRORS_TYPE,
    PLACEMENTS,
    ErrorRecord,
    from_column,
    to_column,
)

_TEXT = st.text(st.characters(codec="utf-8"), max_size=20)
_OFFSET = st.none() | st.integers(0, 2**31 - 1)
RECORDS = st.builds(
    ErrorRecord,
    location=_TEXT,
    aspect=_TEXT,
    explanation=_TEXT,
    severity=_TEXT,
    score_reduction=st.floats(allow_nan=False),
    suggestion=st.none() | _TEXT,
    context=st.none() | _TEXT,
    quoted=st.none() | _TEXT,
    start=_OFFSET,
    end=_OFFSET,
    occurrence=_OFFSET,
    candidates=st.lists(st.integers(0, 2**31 - 1), max_size=3).map(tuple),
    placement=st.none() | st.sampled_from(PLACEMENTS),
)


def test_struct_has_the_fields_of_the_record_in_order() -> None:
    assert [field.name for field in ERROR_STRUCT] == [
        field.name for field in dataclasses.fields(ErrorRecord)
    ]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(RECORDS, max_size=3).map(tuple), max_size=3))
def test_structured_column_returns_the_records(analyses: list[tuple[ErrorRecord, ...]]) -> None:
    column = to_column(analyses)
    assert (column.name, column.dtype) == ("errors", ERRORS_TYPE)
    assert from_column(column) == analyses
    table = pl.DataFrame([column]).to_arrow().cast(pa.schema([pa.field("errors", ERRORS)]))
    assert from_column(pl.Series(table["errors"])) == analyses


def test_part_of_a_column_is_read_by_itself() -> None:
    errors = [ErrorRecord(text, "Accuracy", "Why.", "Major", 4.0) for text in "abc"]
    column = to_column([errors[:1], [], errors[1:]])
    assert from_column(column[1:]) == [(), tuple(errors[1:])]
    assert from_column(column.filter(pl.Series([True, False, False]))) == [(errors[0],)]
