from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from transforms.errors import LedgerError
from transforms.ledger import (
    COUNTS,
    build_ledger,
    close_ledger,
    count_in,
    count_out,
    ledger_table,
    render_funnel,
    sum_counts,
)


def counts(*rows: tuple[str, str, str, str, int]) -> pl.DataFrame:
    return pl.DataFrame(list(rows), schema=dict(COUNTS), orient="row")


FIRST = counts(
    ("seeds", "in", "", "", 5),
    ("seeds", "out", "published", "", 2),
    ("seeds", "out", "rejected", "blank", 1),
    ("seeds", "out", "rejected", "echo", 2),
)
SECOND = counts(
    ("seeds", "in", "", "", 2),
    ("seeds", "out", "rejected", "echo", 1),
    ("seeds", "out", "waiting", "response", 1),
    ("rows", "in", "", "", 1),
    ("rows", "out", "usable", "", 1),
)


def test_partitions_add_up_and_a_ledger_closes():
    ledger = build_ledger(sum_counts([FIRST, SECOND]), ["rows", "seeds"])

    assert ledger == {
        "stages": {
            "rows": {"in": 1, "out": {"usable": 1}, "reasons": {}, "closes": True},
            "seeds": {
                "in": 7,
                "out": {"published": 2, "rejected": 4, "waiting": 1},
                "reasons": {"rejected": {"blank": 1, "echo": 3}, "waiting": {"response": 1}},
                "closes": True,
            },
        },
        "closes": True,
    }
    close_ledger(ledger)


@given(st.permutations([FIRST, SECOND, FIRST]))
def test_the_order_of_partitions_does_not_matter(frames):
    assert sum_counts(frames).equals(sum_counts([FIRST, FIRST, SECOND]))


@pytest.mark.parametrize(
    ("rows", "difference"),
    [
        ([("seeds", "in", "", "", 1)], "seeds: 8 in, 7 out, difference -1"),
        ([("seeds", "out", "dead", "timeout", 2)], "seeds: 7 in, 9 out, difference +2"),
        ([("turns", "out", "published", "", 3)], "turns: 0 in, 3 out, difference +3"),
    ],
)
def test_a_lost_or_doubled_row_keeps_the_ledger_open(rows, difference):
    ledger = build_ledger(sum_counts([FIRST, SECOND, counts(*rows)]), ["rows", "seeds"])

    assert not ledger["closes"]
    with pytest.raises(LedgerError) as error:
        close_ledger(ledger)
    assert difference in str(error.value)
    assert "rows:" not in str(error.value)
    assert "DOES NOT CLOSE" in render_funnel(ledger)


def test_a_negative_count_cannot_hide_a_lost_row():
    ledger = build_ledger(
        counts(
            ("seeds", "in", "", "", 1),
            ("seeds", "out", "dead", "", -1),
            ("seeds", "out", "published", "", 2),
        ),
        ["seeds"],
    )

    with pytest.raises(LedgerError, match="negative"):
        close_ledger(ledger)


def test_a_stage_that_nobody_counted_stands_there_with_zeros():
    ledger = build_ledger(counts(), ["seeds"])

    assert ledger["stages"]["seeds"] == {"in": 0, "out": {}, "reasons": {}, "closes": True}


def test_null_reasons_are_no_reasons():
    frame = FIRST.with_columns(reason=pl.lit(None, pl.String))

    assert build_ledger(frame, ["seeds"])["stages"]["seeds"]["reasons"] == {}


def test_the_funnel_lists_reasons_by_their_number():
    lines = render_funnel(build_ledger(sum_counts([FIRST, SECOND]), ["seeds"])).splitlines()

    assert [line.split()[0] for line in lines] == [
        "seeds", "published", "rejected", "echo", "blank", "waiting", "response", "rows", "usable",
    ]  # fmt: skip
    assert lines[2].split() == ["rejected", "4", "57.1%"]


def test_the_table_has_what_came_out():
    table = ledger_table(build_ledger(FIRST, ["seeds"]))

    assert table.rows() == [("seeds", "published", 2), ("seeds", "rejected", 3)]


def test_rows_are_counted_out_by_outcome_and_reason():
    rows = pl.DataFrame({"rule": ["a", None, "a"], "n": [2, 3, 4]})
    counts = count_out("stage", "rejected", pl.col("rule"), rows, pl.col("n").sum())
    assert dict(counts.schema) == dict(pl.DataFrame(schema=COUNTS).schema)
    assert sorted(counts.iter_rows()) == [
        ("stage", "out", "rejected", "", 3),
        ("stage", "out", "rejected", "a", 6),
    ]
    by_row = count_out("stage", pl.col("rule").fill_null("b"), pl.lit(""), rows, pl.len())
    assert sorted(row[2:] for row in by_row.iter_rows()) == [("a", "", 2), ("b", "", 1)]


def test_no_rows_count_out_nothing():
    rows = pl.DataFrame(schema={"n": pl.Int64})
    assert count_out("stage", "published", pl.lit(""), rows, pl.col("n").sum()).is_empty()
    assert count_in("stage", 0).rows() == [("stage", "in", "", "", 0)]
