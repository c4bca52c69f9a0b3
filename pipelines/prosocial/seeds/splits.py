"""Splits of seeds: the source's own, by column or file name, else a salted hash of the key."""

from __future__ import annotations

import re
from pathlib import PurePosixPath

import polars as pl

from pipelines.prosocial.schema import SPLITS
from transforms.keys import fraction_of

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

#: Dialogues per split in the release, in the order of SPLITS: what hashed splits aim at.
RELEASED_DIALOGUES = (42_304, 7_132, 8_701)

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


def split_of_key(key: str, salt: str) -> str:
    """Return the split of a seed whose source has none: drawn from its key in released shares."""
    drawn = fraction_of(key, f"split:{salt}") * sum(RELEASED_DIALOGUES)
    for split, dialogues in zip(SPLITS, RELEASED_DIALOGUES, strict=True):
        if drawn < dialogues:
            return split
        drawn -= dialogues
    return SPLITS[-1]
