"""Filters: named rules over rows, each with the value that failed, and what a run says of them.

A filter is an expression over one of several tables (utterances, turns, ...) that share the columns
``key``, ``turn``, ``field`` and ``text``. All filters see all rows: the first failing one in the
order given is a row's recorded reason, the others are counted as well.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import polars as pl

from transforms.frames import Schema, concat

Level = Literal["error", "warning", "off"]

#: One row per filter and row that fails it; ``position`` is the filter's place in the order.
VERDICTS: Schema = {
    "key": pl.String,
    "turn": pl.Int32,
    "field": pl.String,
    "rule": pl.String,
    "level": pl.String,
    "value": pl.String,
    "text": pl.String,
    "position": pl.Int32,
}

#: What the filters did, per filter; partitions' funnels are added up by ``sum_funnels``.
FUNNEL: Schema = {
    "position": pl.Int32,
    "rule": pl.String,
    "level": pl.String,
    "turns": pl.Int64,  # that fail it
    "first": pl.Int64,  # of which no earlier filter of the same level fails
}


@dataclass(frozen=True)
class Filter:
    """A named rule.

    Attributes:
        name: the rule's name in configuration, rejects and funnel.
        table: the table it looks at.
        fails: Boolean expression, true where a row breaks the rule; null counts as passing.
        value: String expression, what broke it; evaluated on the failing rows alone.
        level: ``error`` rejects, ``warning`` only counts, ``off`` does nothing.
        field: the field at fault; by default the table's own column ``field``.
    """

    name: str
    table: str
    fails: pl.Expr
    value: pl.Expr
    level: Level = "error"
    field: pl.Expr = field(default_factory=lambda: pl.col("field"))


def apply(filters: Sequence[Filter], tables: Mapping[str, pl.DataFrame]) -> pl.DataFrame:
    """Return the verdicts of all ``filters``, schema ``VERDICTS``.

    Sorted by key, turn, position of the filter, and field.
    """
    frames = []
    for name, table in tables.items():
        mine = [
            (position, rule)
            for position, rule in enumerate(filters)
            if rule.table == name and rule.level != "off"
        ]
        masks = table.select(rule.fails.alias(rule.name) for _, rule in mine)
        for position, rule in mine:
            mask = masks[rule.name]
            if mask.any():
                frames.append(_verdict(table.filter(mask), position, rule))
    return concat(frames, VERDICTS).sort("key", "turn", "position", "field", "value")


def _verdict(failing: pl.DataFrame, position: int, rule: Filter) -> pl.DataFrame:
    return failing.select(
        "key",
        "turn",
        rule.field.alias("field"),
        pl.lit(rule.name).alias("rule"),
        pl.lit(rule.level).alias("level"),
        rule.value.cast(pl.String).alias("value"),
        "text",
        pl.lit(position, dtype=pl.Int32).alias("position"),
    )


def funnel(filters: Sequence[Filter], verdicts: pl.DataFrame) -> pl.DataFrame:
    """Return per filter how many turns fail it, and how many fail it first; schema ``FUNNEL``."""
    first = pl.col("position") == pl.col("position").min().over("key", "turn", "level")
    counted = (
        verdicts.unique(["key", "turn", "rule"], keep="first", maintain_order=True)
        .with_columns(first.alias("first"))
        .group_by("rule")
        .agg(pl.len().cast(pl.Int64).alias("turns"), pl.col("first").sum().cast(pl.Int64))
    )
    named = pl.DataFrame(
        [(position, rule.name, rule.level) for position, rule in enumerate(filters)],
        schema={name: FUNNEL[name] for name in ("position", "rule", "level")},
        orient="row",
    )
    return (
        named.join(counted, on="rule", how="left")
        .with_columns(pl.col("turns", "first").fill_null(0))
        .select(list(FUNNEL))
        .sort("position")
    )


def sum_funnels(frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """Return the funnels of several partitions added up."""
    return (
        concat(frames, FUNNEL)
        .group_by("position", "rule", "level")
        .agg(pl.col("turns", "first").sum())
        .select(list(FUNNEL))
        .sort("position")
    )
