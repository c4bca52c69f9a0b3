"""Statistics of published rows: counted per partition, added up, and summed up for card and suites.

A partition's statistics are one small frame of counts (``STATISTICS``). Frames merge in any order:
counts are added, bounds widened. ``summarise`` turns the merged frame into tables, which are what
``statistics.json`` holds and what the version's suites look at.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import polars as pl

from pipelines.prosocial import schema
from transforms.crowd.agreement import alpha_of_counts
from transforms.frames import concat
from transforms.publishing.summaries import ratio, shares

#: ``low`` and ``high`` are the bounds of dialogue ids, null elsewhere.
STATISTICS: dict[str, pl.DataType | type[pl.DataType]] = {
    "statistic": pl.String,
    "split": pl.String,
    "turn": pl.Int32,
    "value": pl.String,
    "n": pl.Int64,
    "low": pl.Int64,
    "high": pl.Int64,
}
_GROUP = ("statistic", "split", "turn", "value")

Tables = dict[str, list[dict[str, Any]]]


def partition_statistics(
    turns: pl.DataFrame, responses: pl.DataFrame, votes: pl.DataFrame
) -> pl.DataFrame:
    """Return the statistics of one partition's published turns.

    Args:
        turns: columns of ``schema.TURNS`` and ``dialogue_id``; what is published, nothing else.
        responses: columns of ``schema.RESPONSES``, for the candidates that were shown.
        votes: ``key``, ``turn`` and ``author`` of one row per vote; those of other turns are left
            out.
    """
    first = turns.filter(pl.col("turn") == 0)
    lengths = turns.group_by("split", "dialogue_id").len("turns")
    texts = pl.concat([turns.select("split", text=name) for name in ("context", "response")])
    rots = turns.select("key", "turn", "split", rot="rots").explode("rot").drop_nulls("rot")
    published_votes = votes.join(turns.select("key", "turn", "split"), on=["key", "turn"])
    frames = [
        _counted("dialogues", first, value="source"),
        _counted("dialogue_turns", lengths, value="turns"),
        _counted("labels", turns, value="safety_label", turn=True),
        _counted("response_authors", turns, value="response_author"),
        _counted("vote_authors", published_votes, value="author"),
        _counted("votes", turns.with_columns(votes=_vote_multiset()), value="votes"),
        _counted("rot_origins", _with_origin(rots, responses), value="origin"),
        _counted("distinct_rots", rots.with_columns(hash=pl.col("rot").hash()), value="hash"),
        _words("utterance_words", texts, "text"),
        _words("rot_words", rots, "rot"),
        _dialogue_ids(first),
    ]
    return merge_statistics(frames)


def merge_statistics(frames: Iterable[pl.DataFrame]) -> pl.DataFrame:
    """Return the statistics of all ``frames`` together, sorted."""
    return (
        concat(frames, STATISTICS)
        .group_by(_GROUP)
        .agg(pl.col("n").sum(), pl.col("low").min(), pl.col("high").max())
        .sort(_GROUP)
    )


def _counted(statistic: str, rows: pl.DataFrame, value: str, turn: bool = False) -> pl.DataFrame:
    return _frame(
        rows.group_by(
            pl.lit(statistic).alias("statistic"),
            pl.col("split"),
            (pl.col("turn") if turn else pl.lit(None)).cast(pl.Int32).alias("turn"),
            pl.col(value).cast(pl.String).alias("value"),
        ).len("n")
    )


def _frame(counts: pl.DataFrame) -> pl.DataFrame:
    bounds = [pl.lit(None).alias(name) for name in STATISTICS if name not in counts.columns]
    return counts.with_columns(bounds).select(
        pl.col(name).cast(kind) for name, kind in STATISTICS.items()
    )


def _vote_multiset() -> pl.Expr:
    return pl.col("safety_annotations").list.sort().list.join("|")


def _with_origin(rots: pl.DataFrame, responses: pl.DataFrame) -> pl.DataFrame:
    """Return ``rots`` with ``origin``: whether one was among the candidates of its dialogue."""
    shown = (
        responses.select("key", rot="candidates")
        .explode("rot")
        .drop_nulls("rot")
        .unique()
        .with_columns(origin=pl.lit("selected"))
    )
    return rots.join(shown, on=["key", "rot"], how="left").with_columns(
        pl.col("origin").fill_null("new")
    )


def _words(statistic: str, rows: pl.DataFrame, column: str) -> pl.DataFrame:
    return _frame(
        rows.group_by(pl.lit(statistic).alias("statistic"), "split").agg(
            pl.col(column).str.count_matches(r"\S+").sum().alias("n")
        )
    )


def _dialogue_ids(first: pl.DataFrame) -> pl.DataFrame:
    """Return the range of ids per split; its lower bound names it, so that ranges stay apart."""
    ids = pl.col("dialogue_id")
    return _frame(
        first.group_by(pl.lit("dialogue_ids").alias("statistic"), "split").agg(
            ids.min().cast(pl.String).alias("value"),
            pl.len().alias("n"),
            ids.min().alias("low"),
            ids.max().alias("high"),
        )
    )


def summarise(statistics: pl.DataFrame) -> Tables:
    """Return the tables that sum up ``statistics``, those of all partitions, merged or not.

    Returns:
        ``version`` (one row: totals, means, shares, alpha), ``splits``, ``labels``,
        ``turn_labels``, ``sources``, ``response_authors`` and ``vote_authors``. A mean or a share
        of nothing is None, and so is alpha where nobody overlaps.
    """
    labels = _of(statistics, "labels")
    rows = _sum(labels)
    dialogues = _of(statistics, "dialogues")
    lengths = _of(statistics, "dialogue_turns")
    rots = _of(statistics, "rot_origins")
    distinct = _of(statistics, "distinct_rots")["value"].n_unique()
    version = {
        "dialogues": _sum(dialogues),
        "rows": rows,
        "utterances": 2 * rows,
        "annotations": _sum(_of(statistics, "vote_authors")),
        "rots": _sum(rots),
        "distinct_rots": distinct,
        "distinct_rot_share": ratio(distinct, _sum(rots)),
        "new_rot_share": ratio(_sum(rots.filter(pl.col("value") == "new")), _sum(rots)),
        "two_turn_share": ratio(
            _sum(lengths.filter(pl.col("value") == str(schema.MIN_TURNS))), _sum(dialogues)
        ),
        "words_per_utterance": ratio(_sum(_of(statistics, "utterance_words")), 2 * rows),
        "words_per_rot": ratio(_sum(_of(statistics, "rot_words")), _sum(rots)),
        "alpha": _alpha(_of(statistics, "votes")),
    }
    return {
        "version": [version],
        "splits": [_split(statistics, split) for split in schema.SPLITS],
        "labels": shares(labels, schema.LABELS),
        "turn_labels": [
            {"response_id": turn, **share}
            for turn in range(schema.MAX_TURNS)
            for share in shares(labels.filter(pl.col("turn") == turn), schema.LABELS)
        ],
        "sources": shares(dialogues, ()),
        "response_authors": shares(_of(statistics, "response_authors"), ()),
        "vote_authors": shares(_of(statistics, "vote_authors"), ()),
    }


def _of(statistics: pl.DataFrame, statistic: str) -> pl.DataFrame:
    return statistics.filter(pl.col("statistic") == statistic)


def _sum(counts: pl.DataFrame) -> int:
    return int(counts["n"].sum())


def _split(statistics: pl.DataFrame, split: str) -> dict[str, Any]:
    own = statistics.filter(pl.col("split") == split)
    ranges = _of(own, "dialogue_ids").sort("low", "high")
    follows = ranges["high"].shift(1).fill_null(-1) + 1
    broken = (ranges["low"] != follows) | (ranges["high"] - ranges["low"] + 1 != ranges["n"])
    return {
        "split": split,
        "dialogues": _sum(_of(own, "dialogues")),
        "rows": _sum(_of(own, "labels")),
        "id_breaks": int(broken.sum()),
    }


def _alpha(votes: pl.DataFrame) -> float | None:
    counts = votes.group_by("value").agg(pl.col("n").sum()).sort("value")
    return alpha_of_counts(
        {tuple(value.split("|")): n for value, n in counts.iter_rows()}, schema.VOTES
    )
