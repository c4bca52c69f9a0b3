from __future__ import annotations

import polars as pl
import pytest

from pipelines.metricinstruct import balance
from pipelines.metricinstruct.errors.record import ErrorRecord, to_column
from pipelines.metricinstruct.filter_settings import ErrorFreeShare, NearDuplicate

NEAR = NearDuplicate(level="error", similarity=0.8, characters=5)
SHARE = ErrorFreeShare(level="error", most=0.2)
LONG = "The council met on Tuesday evening to talk about the new bridge over the river Ouse."


def _rows(*rows: tuple[str, str, str, str]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema=["id", "key", "input_context", "hypothesis"], orient="row")


def test_near_duplicates_need_both_texts_alike() -> None:
    other = "Rain is forecast for the whole of next week in the north of the country, and hail."
    rows = _rows(
        ("3", "k", "An input text.", LONG),
        ("1", "k", "An input text.", LONG.replace("Tuesday", "tuesday ")),
        ("2", "k", "An input text.", other),
        ("4", "m", "Quite another question, with no word in common.", LONG),
    )
    found = balance.near_duplicate_rows(rows, NEAR)
    assert found.rows() == [("3", "near_duplicate", "1.0 of 1", "hypothesis")]
    assert balance.near_duplicate_rows(rows.reverse(), NEAR).equals(found)


def test_near_duplicates_across_inputs_that_are_alike() -> None:
    rows = _rows(("1", "k", LONG, "A bridge."), ("2", "m", f"{LONG} Yes.", "a  BRIDGE."))
    assert balance.near_duplicate_rows(rows, NEAR)["id"].to_list() == ["2"]


def test_near_duplicates_of_nothing() -> None:
    found = balance.near_duplicate_rows(_rows(), NEAR)
    assert found.schema == pl.Schema(dict(balance.REJECTS))
    off = NEAR.model_copy(update={"level": "off"})
    same = _rows(("1", "k", "An input.", LONG), ("2", "k", "An input.", LONG))
    assert balance.near_duplicate_rows(same, off).height == 0


def _analyses(error_free: int, others: int) -> pl.DataFrame:
    error = ErrorRecord("x", "Accuracy", "Why.", "Major", 4.0)
    ids = pl.Series([f"{number:016x}" for number in range(error_free + others)], dtype=pl.String)
    return pl.DataFrame([ids.alias("id"), to_column([()] * error_free + [(error,)] * others)])


def test_share_of_error_free_rows_is_reached() -> None:
    analyses = _analyses(1000, 1000)
    fraction = balance.kept_fraction(balance.count_error_free(analyses), SHARE)
    assert fraction == pytest.approx(0.25)
    dropped = balance.surplus_rows(analyses, fraction)
    assert set(dropped["id"]) <= set(analyses["id"].head(1000))
    stay = 1000 - dropped.height
    # Within four standard deviations of a draw with probability 0.25.
    assert abs(stay - 250) < 4 * (1000 * 0.25 * 0.75) ** 0.5
    assert dropped.row(0) == (dropped["id"][0], "error_free_share", "0.250 stay", "errors")


def test_the_choice_rests_on_the_id_alone() -> None:
    analyses = _analyses(200, 10)
    dropped = set(balance.surplus_rows(analyses, 0.3)["id"])
    assert set(balance.surplus_rows(analyses.reverse(), 0.3)["id"]) == dropped
    part = set(balance.surplus_rows(analyses.head(50), 0.3)["id"])
    assert part == dropped & set(analyses["id"].head(50))
    assert set(balance.surplus_rows(analyses, 0.6)["id"]) < dropped


def test_nothing_goes_where_the_share_is_not_reached() -> None:
    for analyses in (_analyses(10, 100), _analyses(0, 3), _analyses(0, 0)):
        fraction = balance.kept_fraction(balance.count_error_free(analyses), SHARE)
        assert fraction == 1.0
        assert balance.surplus_rows(analyses, fraction).schema == pl.Schema(dict(balance.REJECTS))
        assert balance.surplus_rows(analyses, fraction).height == 0


def test_bounds_of_the_share() -> None:
    counts = balance.count_error_free(_analyses(10, 10))
    assert balance.kept_fraction(counts, SHARE.model_copy(update={"most": 1.0})) == 1.0
    assert balance.kept_fraction(counts, SHARE.model_copy(update={"most": 0.0})) == 0.0
    assert balance.kept_fraction(counts, SHARE.model_copy(update={"level": "warning"})) == 1.0


def test_partitions_add_up() -> None:
    parts = [balance.count_error_free(_analyses(3, 2)), balance.count_error_free(_analyses(1, 0))]
    assert balance.sum_error_free(parts).rows() == [(False, 2), (True, 4)]
