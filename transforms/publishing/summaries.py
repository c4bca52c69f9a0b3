"""Summing up counts: shares of a whole, and tables as a card shows them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import polars as pl


def ratio(part: float, whole: int) -> float | None:
    """Return ``part`` of ``whole``; None where there is no whole."""
    return part / whole if whole else None


def shares(
    counts: pl.DataFrame, values: Iterable[str], column: str = "value"
) -> list[dict[str, Any]]:
    """Return for each value of ``column`` its ``value``, number ``n`` and ``share`` of all.

    Args:
        counts: with numbers in a column ``n``.
        values: those that are named even where there is none, in their order; others come after.
        column: the column whose values are counted.
    """
    whole = int(counts["n"].sum())
    summed = counts.group_by(column).agg(pl.col("n").sum()).sort(column)
    by_value = dict(summed.select(column, "n").iter_rows())
    return [
        {"value": name, "n": by_value.get(name, 0), "share": ratio(by_value.get(name, 0), whole)}
        for name in dict.fromkeys([*values, *by_value])
    ]


def spoken(name: str) -> str:
    """Return a column's name in words."""
    return name.replace("_", " ")


def markdown_table(head: tuple[str, ...], rows: Iterable[tuple[Any, ...]]) -> str:
    """Return a table in Markdown; None is written as undefined, floats with three digits."""
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join(f"| {' | '.join(map(_cell, line))} |" for line in lines) + "\n"


def parts(rows: Iterable[Mapping[str, Any]]) -> str:
    """Return rows of ``shares`` in one line: each value with its number."""
    return ", ".join(f"{row['value']} {row['n']:,}" for row in rows) or "none"


def _cell(value: Any) -> str:
    if value is None:
        return "undefined"
    if isinstance(value, float):
        return f"{value:.3f}"
    if isinstance(value, int):
        return f"{value:,}"
    # Names of systems and people come from data: what parts cells and rows must not.
    return " ".join(str(value).splitlines()).replace("|", "\\|")
