"""Faults that tests put into good frames, to see that the expectation suites catch them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import polars as pl

from expectations.runner import Verdict

Fault = Callable[[pl.DataFrame], pl.DataFrame]
TablesFault = Callable[[Mapping[str, pl.DataFrame]], Mapping[str, pl.DataFrame]]

#: Faults that every configuration has.
COMMON: dict[str, Fault] = {
    "no rows": lambda frame: frame.clear(),
    "columns in another order": lambda frame: frame.select(reversed(frame.columns)),
    "a column too many": lambda frame: frame.with_columns(extra=pl.lit(1)),
    "all null": lambda frame: frame.clear(frame.height),
}


def first(column: str, value: object) -> Fault:
    """Put ``value`` into the first row's cell."""

    def fault(frame: pl.DataFrame) -> pl.DataFrame:
        cell = pl.lit(value, dtype=frame.schema[column], allow_object=False)
        if isinstance(value, list):
            cell = pl.lit(pl.Series([value], dtype=frame.schema[column])).first()
        return frame.with_columns(
            pl.when(pl.int_range(pl.len()) == 0).then(cell).otherwise(column).alias(column)
        )

    return fault


def every(column: str, value: object) -> Fault:
    """Put ``value`` into all cells of the column."""
    return lambda frame: frame.with_columns(pl.lit(value, dtype=frame.schema[column]).alias(column))


def where(condition: pl.Expr, column: str, value: object) -> Fault:
    """Put ``value`` into the column where the condition holds."""
    return lambda frame: frame.with_columns(
        pl.when(condition)
        .then(pl.lit(value, dtype=frame.schema[column]))
        .otherwise(column)
        .alias(column)
    )


def table(name: str, **changes: pl.Expr) -> TablesFault:
    """Change columns of one table."""
    return lambda tables: {**tables, name: tables[name].with_columns(**changes)}


def rows(name: str, condition: pl.Expr) -> TablesFault:
    """Keep the rows of one table for which the condition holds."""
    return lambda tables: {**tables, name: tables[name].filter(condition)}


def failed(verdict: Verdict) -> set[int]:
    """Return the places of the expectations that failed."""
    return {index for index, check in enumerate(verdict.checks) if not check.success}
