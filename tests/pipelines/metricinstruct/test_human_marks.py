from __future__ import annotations

from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.metricinstruct.human_marks import BEYOND, marks_within
from pipelines.metricinstruct.schema import HUMAN_ERRORS

WHOLE = {"output": "The red door stands open.", "source": "Die rote Tür steht offen."}


def placed(side: str | None, start: int | None, end: int | None, kept: int) -> dict[str, Any]:
    """Return a mark in the whole texts, as it is where ``kept`` characters of them are left."""
    row = dict.fromkeys(HUMAN_ERRORS) | {"side": side, "start": start, "end": end}
    row |= {"text": WHOLE[side][start:end] if side else None, "category": "Accuracy"}
    shown = {"hypothesis": WHOLE["output"][:kept], "input_context": WHOLE["source"][:kept]}
    schema = {**HUMAN_ERRORS, "hypothesis": pl.String, "input_context": pl.String}
    (one,) = marks_within(pl.DataFrame([row | shown], schema=schema)).rows(named=True)
    return one


@pytest.mark.parametrize(
    ("mark", "expected"),
    [
        (("output", 4, 12), ("output", 4, 12, "red door")),
        (("output", 4, 19), ("output", 4, 12, "red door")),
        (("output", 12, 19), ("beyond output", 12, 19, " stands")),
        (("output", 12, 12), ("output", 12, 12, "")),
        (("output", 13, 13), ("beyond output", 13, 13, "")),
        (("source", 9, 18), ("source", 9, 12, "Tür")),
        (("source", 19, 24), ("beyond source", 19, 24, "offen")),
        ((None, None, None), (None, None, None, None)),
    ],
)
def test_marks_end_where_the_text_ends(
    mark: tuple[Any, Any, Any], expected: tuple[Any, ...]
) -> None:
    row = placed(*mark, kept=12)
    assert tuple(row[name] for name in ("side", "start", "end", "text")) == expected


@given(st.sampled_from(sorted(WHOLE)), st.integers(0, 25), st.integers(0, 25), st.integers(0, 25))
def test_marks_hold_their_text_or_stand_beyond_the_end(
    side: str, start: int, length: int, kept: int
) -> None:
    end = min(start + length, 25)
    row = placed(side, start, end, kept)
    if row["side"] == side:
        assert row["end"] <= kept
        assert row["text"] == WHOLE[side][:kept][row["start"] : row["end"]]
    else:
        assert row["side"] == BEYOND[side]
        assert start >= kept
        assert (row["start"], row["end"]) == (start, end)
