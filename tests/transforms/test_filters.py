from __future__ import annotations

import polars as pl

from transforms.filters import FUNNEL, VERDICTS, Filter, apply, funnel, sum_funnels

TABLE = pl.DataFrame(
    {
        "key": ["a", "a", "b", "b"],
        "turn": [0, 1, 0, 1],
        "field": ["context"] * 4,
        "text": ["one", "", "three and more", None],
    },
    schema_overrides={"turn": pl.Int32},
)
TEXT = pl.col("text")
BLANK = Filter("blank", "utterance", TEXT == "", pl.lit("nothing"))
SHORT = Filter("short", "utterance", TEXT.str.len_chars() < 5, TEXT.str.len_chars())
LONG = Filter("long", "utterance", TEXT.str.len_chars() > 5, TEXT, "warning", pl.lit("other"))
OFF = Filter("never", "utterance", pl.lit(True), TEXT, "off")
FILTERS = (BLANK, SHORT, LONG, OFF)


def test_every_filter_sees_every_row_and_null_passes() -> None:
    verdicts = apply(FILTERS, {"utterance": TABLE})
    assert dict(verdicts.schema) == dict(pl.DataFrame(schema=dict(VERDICTS)).schema)
    columns = ["key", "turn", "field", "rule", "level", "value", "position"]
    assert verdicts.select(columns).rows() == [
        ("a", 0, "context", "short", "error", "3", 1),
        ("a", 1, "context", "blank", "error", "nothing", 0),
        ("a", 1, "context", "short", "error", "0", 1),
        ("b", 0, "other", "long", "warning", "three and more", 2),
    ]


def test_the_funnel_counts_each_filter_and_the_first_of_each_row() -> None:
    counted = funnel(FILTERS, apply(FILTERS, {"utterance": TABLE}))
    assert counted.rows() == [
        (0, "blank", "error", 1, 1),
        (1, "short", "error", 2, 1),
        (2, "long", "warning", 1, 1),
        (3, "never", "off", 0, 0),
    ]


def test_a_turn_that_fails_twice_is_one_turn() -> None:
    twice = pl.concat([TABLE, TABLE.with_columns(pl.lit("response").alias("field"))])
    counted = funnel((BLANK,), apply((BLANK,), {"utterance": twice}))
    assert counted.rows() == [(0, "blank", "error", 1, 1)]


def test_funnels_of_partitions_add_up() -> None:
    whole = funnel(FILTERS, apply(FILTERS, {"utterance": TABLE}))
    parts = [
        funnel(FILTERS, apply(FILTERS, {"utterance": TABLE.filter(key=key)})) for key in ("a", "b")
    ]
    assert sum_funnels(parts).equals(whole)
    assert sum_funnels(parts[::-1]).equals(whole)
    assert dict(sum_funnels([]).schema) == dict(pl.DataFrame(schema=dict(FUNNEL)).schema)


def test_a_table_without_rows_has_no_verdicts() -> None:
    assert apply(FILTERS, {"utterance": TABLE.clear()}).is_empty()
    assert apply(FILTERS, {}).is_empty()
