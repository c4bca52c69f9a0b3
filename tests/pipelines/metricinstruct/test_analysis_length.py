from __future__ import annotations

import polars as pl
import pytest

from pipelines.metricinstruct.analysis_length import error_tokens, shorten
from pipelines.metricinstruct.errors.record import ErrorRecord, from_column, to_column
from pipelines.metricinstruct.errors.released import errors_text
from pipelines.metricinstruct.filter_settings import AnalysisLength

RULE = AnalysisLength(level="error", tokens=120)


def _error(location: str, points: float, length: int = 50) -> ErrorRecord:
    return ErrorRecord(location, "Accuracy", "y" * length, "Major", points)


def _analyses(*rows: list[ErrorRecord]) -> pl.DataFrame:
    ids = [f"row {number}" for number in range(len(rows))]
    return pl.DataFrame([pl.Series("id", ids), to_column(rows)])


def _locations(analyses: pl.DataFrame) -> list[list[str]]:
    return [[error.location for error in row] for row in from_column(analyses["errors"])]


def test_smallest_errors_go_first_and_of_equal_ones_the_last() -> None:
    row = [_error("a", 1), _error("b", 4), _error("c", 1), _error("d", 4)]
    shortened, removed = shorten(_analyses(row, [], row[:1]), RULE)
    assert _locations(shortened) == [["b", "d"], [], ["a"]]
    assert removed.select("id", "number", "location").rows() == [
        ("row 0", 1, "a"),
        ("row 0", 3, "c"),
    ]
    wider = RULE.model_copy(update={"tokens": 160})
    assert _locations(shorten(_analyses(row), wider)[0]) == [["a", "b", "d"]]


@pytest.mark.parametrize("tokens", [60, 100, 150, 200, 300])
def test_what_stays_fits_as_written(tokens: int) -> None:
    rule = RULE.model_copy(update={"tokens": tokens})
    row = [_error("a", 1, 10), _error("b", 0.5, 80), _error("c", 4, 30), _error("d", 5, 20)]
    shortened, removed = shorten(_analyses(row), rule)
    (kept,) = from_column(shortened["errors"])
    assert len(errors_text(kept)) <= tokens * 4
    assert len(kept) + removed.height == len(row)
    longer = [error for error in row if error in kept or error.location == removed["location"][-1]]
    if removed.height == 1:
        assert len(errors_text(longer)) > tokens * 4 - 4


def test_the_largest_error_stays_even_if_it_is_too_long() -> None:
    shortened, _ = shorten(_analyses([_error("a", 1), _error("b", 4, 2000)]), RULE)
    assert _locations(shortened) == [["b"]]


def test_nothing_goes_where_the_rule_only_warns() -> None:
    analyses = _analyses([_error("a", 1, 2000), _error("b", 4, 2000)])
    shortened, removed = shorten(analyses, RULE.model_copy(update={"level": "warning"}))
    assert shortened.equals(analyses)
    assert removed.height == 0


@pytest.mark.parametrize("place", ["a place", "место", "一个地方"])
def test_tokens_are_those_of_the_released_text(place: str) -> None:
    error = _error(place, 2.5)
    errors = _analyses([error]).explode("errors").unnest("errors")
    frame = errors.select(error_tokens())
    one, none = errors_text([error]), errors_text([])
    # Of the header only the total grows with an error.
    assert abs(4 * frame.item() - (len(one.encode()) - len(none))) <= 3
