"""Waiting dialogues: what each one lacks, and all that a crowd worker needs to go on with it."""

from __future__ import annotations

import polars as pl

from pipelines.prosocial import schema
from transforms.frames import polars_schema

#: What a draft's ``field`` says of a rule-of-thumb that a worker is to be shown.
CANDIDATE = "rot"

_TURN = ["key", "turn"]
_WAITING = polars_schema(schema.WAITING)


def lacking_of(seeds: pl.DataFrame, grid: pl.DataFrame, unfinished: pl.DataFrame) -> pl.DataFrame:
    """Return what each of ``seeds`` waits for: key, turn, waits_for, have.

    Drafting says what it stopped at; where it says nothing, the first missing text does, then the
    first turn that lacks votes (which come last, on the final text).

    Args:
        seeds: schema ``SEEDS``, without those of dead dialogues.
        grid: one row per drafted turn: ``key``, ``turn``, ``response`` and ``have`` (votes).
        unfinished: schema ``UNFINISHED``.
    """
    stopped = unfinished.filter(pl.col("outcome") == "waiting").select("key", "turn", "waits_for")
    step = (
        pl.when(pl.col("response").is_null())
        .then(pl.lit("response"))
        .when(pl.col("have") < schema.VOTES_PER_TURN)
        .then(pl.lit("annotations"))
    )
    missing = (
        grid.select(*_TURN, step.alias("waits_for"))
        .filter(pl.col("waits_for").is_not_null())
        .sort("key", pl.col("waits_for") == "annotations", "turn")
        .unique("key", keep="first", maintain_order=True)
    )
    drafted = grid.group_by("key").len("drafted")
    # A dialogue of fewer turns than the shortest one waits for the calls of the next turn.
    short = (
        seeds.select("key")
        .join(drafted, on="key", how="left")
        .filter(pl.col("drafted").fill_null(0) < schema.MIN_TURNS)
        .select(
            "key",
            pl.col("drafted").fill_null(0).cast(pl.Int32).alias("turn"),
            pl.lit("call").alias("waits_for"),
        )
    )
    return (
        pl.concat([stopped, missing, short])
        .unique("key", keep="first", maintain_order=True)
        .join(seeds.select("key"), on="key", how="semi")
        .join(grid.select(*_TURN, "have"), on=_TURN, how="left")
        .with_columns(pl.col("have").fill_null(0))
    )


def waiting_dialogues(
    lacking: pl.DataFrame,
    seeds: pl.DataFrame,
    grid: pl.DataFrame,
    drafts: pl.DataFrame,
    responses: pl.DataFrame,
) -> pl.DataFrame:
    """Return what ``lacking`` lists as the waiting configuration publishes it, sorted by key.

    The candidates shown are the seed's own rules-of-thumb, else those the model drafted, else those
    an earlier worker was shown.

    Args:
        lacking: what ``lacking_of`` returned.
        seeds: schema ``SEEDS``.
        grid: one row per drafted turn with ``context`` and ``response``, sorted by key and turn.
        drafts: schema ``DRAFTS``.
        responses: schema ``RESPONSES``.
    """
    told = (
        grid.join(lacking, on="key", how="semi", maintain_order="left")
        .select("key", pl.concat_list("context", "response").alias("utterances"))
        .explode("utterances")
        .drop_nulls("utterances")
        .group_by("key", maintain_order=True)
        .agg("utterances")
    )
    made = (
        drafts.filter(pl.col("field") == CANDIDATE)
        .group_by("key", maintain_order=True)
        .agg(pl.col("text").alias("made"))
    )
    shown = (
        responses.join(lacking, on="key", how="semi")
        .filter(pl.col("candidates").list.len() > 0)
        .sort(_TURN)
        .unique("key", keep="last", maintain_order=True)
        .select("key", "candidates")
    )
    own = pl.when(pl.col("rots").list.len() > 0).then("rots")
    empty = pl.lit([], dtype=pl.List(pl.String))
    votes = pl.col("waits_for") == "annotations"
    return (
        lacking.join(seeds, on="key")
        .join(told, on="key", how="left")
        .join(made, on="key", how="left")
        .join(shown, on="key", how="left")
        .with_columns(
            pl.when(votes).then("have").otherwise(0).cast(pl.Int32).alias("have"),
            pl.when(votes).then(schema.VOTES_PER_TURN).otherwise(1).cast(pl.Int32).alias("need"),
            pl.coalesce("utterances", empty).alias("utterances"),
            pl.coalesce(own, "made", "candidates", empty).alias("rots"),
        )
        .select(list(_WAITING))
        .sort("key")
    )
