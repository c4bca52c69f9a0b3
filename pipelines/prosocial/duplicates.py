"""Exact duplicates across the whole set: rows whose context and response another row has too.

Partitions give hashes of their rows; these meet by hash in buckets, where the smallest key's row
stands; the partitions then take the others out. Nothing but hashes and places moves. A row that
loses to one whose dialogue is itself dropped stays dropped: the verdict must not depend on a chain
of others.
"""

from __future__ import annotations

import hashlib

import polars as pl

from pipelines.prosocial.faults import FAULTS, Sifted, sift
from pipelines.prosocial.schema import MIN_TURNS
from transforms.frames import Schema
from transforms.keys import KEY_LENGTH

RULE = "duplicate"

#: One row per turn: ``hash`` is that of its two texts.
HASHES: Schema = {"hash": pl.String, "key": pl.String, "turn": pl.Int32}

#: One row per turn that another one, of the key ``winner``, makes superfluous.
LOSERS: Schema = {"key": pl.String, "turn": pl.Int32, "winner": pl.String}


def hash_turns(turns: pl.DataFrame) -> pl.DataFrame:
    """Return the hash of each turn's context and response, schema ``HASHES``.

    Texts are compared as they will be published, case and blanks included.
    """
    hashes = [
        hashlib.sha256(f"{len(context)}:{context}{response}".encode()).hexdigest()[:KEY_LENGTH]
        for context, response in zip(
            turns["context"].to_list(), turns["response"].to_list(), strict=True
        )
    ]
    return turns.select(
        pl.Series("hash", hashes, dtype=pl.String), "key", pl.col("turn").cast(pl.Int32)
    )


def find_losers(hashes: pl.DataFrame) -> pl.DataFrame:
    """Return the turns of a bucket that don't stand, schema ``LOSERS``, sorted by key and turn.

    Args:
        hashes: schema ``HASHES``: every row of the set that has one of the bucket's hashes.
    """
    ordered = hashes.sort("key", "turn")
    return (
        ordered.with_columns(pl.col("key").first().over("hash").alias("winner"))
        .filter(~pl.col("hash").is_first_distinct())
        .select(list(LOSERS))
    )


def standing(places: pl.DataFrame, losers: pl.DataFrame) -> pl.DataFrame:
    """Return those of ``places`` that ``drop_duplicates`` leaves, which needs the turns themselves.

    Args:
        places: ``key``, ``turn`` and whatever else, one row per turn.
        losers: schema ``LOSERS``.
    """
    early = losers.filter(pl.col("turn") < MIN_TURNS)
    return places.join(early, on="key", how="anti", maintain_order="left").join(
        losers, on=["key", "turn"], how="anti", maintain_order="left"
    )


def drop_duplicates(turns: pl.DataFrame, losers: pl.DataFrame) -> Sifted:
    """Take the losing turns out: a third row is cut, an earlier one drops its dialogue.

    Args:
        turns: schema ``TURNS``.
        losers: schema ``LOSERS``; those of other partitions are left alone.

    Returns:
        The turns that stand; rejects with the rule and outcome ``duplicate`` and the winner's key
        as value; counts of the stages ``duplicates.dialogues`` and ``duplicates.turns``.
    """
    faults = losers.join(turns, on=["key", "turn"]).select(
        "key",
        "turn",
        pl.lit("context").alias("field"),
        pl.lit(RULE).alias("rule"),
        pl.col("winner").alias("value"),
        pl.col("context").alias("text"),
        pl.lit(0, dtype=pl.Int32).alias("position"),
    )
    return sift(turns, faults.select(list(FAULTS)), "duplicates", "duplicate")
