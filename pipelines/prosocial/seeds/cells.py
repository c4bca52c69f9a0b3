"""Cells of seed files: texts, numbers and lists of texts as the sources write them."""

from __future__ import annotations

import ast
import json

import polars as pl


def stripped(column: str) -> pl.Expr:
    """Return the column's text without white space around it; blank and null become ''."""
    return pl.col(column).fill_null("").str.strip_chars()


def number(column: str) -> pl.Expr:
    """Return the column as a number: ``-2``, ``-2.0``; null where it is blank or no number."""
    return stripped(column).cast(pl.Float64, strict=False).fill_nan(None)


def cell_texts(cell: str | None) -> list[str]:
    """Return the texts of a cell: none, one, or those of a list (JSON or as Python prints it).

    A text that only looks like a list stays one text.
    """
    text = (cell or "").strip()
    if not text.startswith("["):
        return [text] if text else []
    for parse in (json.loads, ast.literal_eval):
        try:
            items = parse(text)
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            continue
        if isinstance(items, list):
            return [str(item).strip() for item in items if item is not None and str(item).strip()]
    return [text]
