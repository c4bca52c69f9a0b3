"""Content keys: what one seed is known by, the partition it falls into, and salted choices.

Everything that is "random" in a dataset (a split where the source has none, how many turns a
dialogue has, which seeds a limited run takes) is drawn from the key, never from a generator's
state: the same inputs give the same dataset on every runner and machine.
"""

from __future__ import annotations

import hashlib
import unicodedata

import polars as pl

KEY_LENGTH = 32


def normalise_text(text: str) -> str:
    """Return ``text`` as keys see it: NFKC, case-folded, white space runs as one blank."""
    # Case folding can undo the normal form, so it is restored: normalising twice changes nothing.
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    return " ".join(folded.split())


def content_key(text: str) -> str:
    """Return the key of a seed text: 32 hex digits of the SHA-256 of its normalised form."""
    return hashlib.sha256(normalise_text(text).encode("utf-8", "surrogatepass")).hexdigest()[
        :KEY_LENGTH
    ]


def partition_of(key: str, partitions: int) -> int:
    """Return the partition of ``key``: its last eight hex digits modulo ``partitions``."""
    return int(key[-8:], 16) % partitions


def partition_expression(partitions: int, column: str = "key") -> pl.Expr:
    """Return ``partition_of`` as an expression on a column of keys (Int64)."""
    digits = pl.col(column).str.slice(KEY_LENGTH - 8, 8)
    return (digits.str.to_integer(base=16, dtype=pl.Int64) % partitions).alias("partition")


def fraction_of(key: str, salt: str) -> float:
    """Return a number in [0, 1) drawn from ``key`` for the purpose named by ``salt``."""
    digest = hashlib.sha256(f"{salt}\x00{key}".encode()).digest()
    return int.from_bytes(digest[:8], "big") / 2**64
