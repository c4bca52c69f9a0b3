"""Splits by the names that sources give them, in a column or in a file's name."""

from __future__ import annotations

import re
from pathlib import PurePosixPath

import polars as pl

#: What sources call their splits.
SPLIT_NAMES = {
    "train": "train",
    "training": "train",
    "trn": "train",
    "validation": "validation",
    "valid": "validation",
    "val": "validation",
    "dev": "validation",
    "test": "test",
    "tst": "test",
}

_WORD = re.compile(r"[a-z]+")


def split_of_file(path: str) -> str | None:
    """Return the split that a file's own name tells: ``SBIC.v2.trn.csv``, ``cm_test_hard.csv``.

    None where the name has no split's word in it, or words of several splits.
    """
    name = PurePosixPath(path.replace("\\", "/")).name.casefold()
    found = {SPLIT_NAMES[word] for word in _WORD.findall(name) if word in SPLIT_NAMES}
    return found.pop() if len(found) == 1 else None


def split_of_column(column: str) -> pl.Expr:
    """Return a column's split names as ours; null where it is blank or another name."""
    name = pl.col(column).fill_null("").str.strip_chars().str.to_lowercase()
    return name.replace_strict(SPLIT_NAMES, default=None, return_dtype=pl.String)
