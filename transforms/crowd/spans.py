"""Agreement of annotators who mark error spans: characters, segment scores, any error at all.

A model is an annotator like any other here. For each pair of annotators the partitions' numbers are
sums (``Tallies``), so they add up to exactly what one pass over everything would give.

- Character F1: characters that both mark, against what each marks, over all segments that both
  judged. Where an annotator marks a character twice its worse severity counts. With severity a
  character counts for half where both mark it and disagree how bad it is (the rule of the error
  span task of WMT's quality estimation, 2023).
- Spearman's rho and Kendall's tau-b of the two scores of each segment.
- Any error: the share of segments on which both or neither mark an error, and Cohen's kappa of it.

A figure that is not defined (nobody marked anything, all scores of one side are equal, kappa where
chance explains everything) is null, never 0.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from transforms.frames import Schema, concat

#: One row per segment (one output of one system) and annotator who judged it.
JUDGEMENTS: Schema = {
    "segment": pl.String,
    "annotator": pl.String,
    "score": pl.Float64,  # null: none given; the direction is the same for all annotators
}

#: One row per span that an annotator marked in a segment that stands in ``JUDGEMENTS``.
SPANS: Schema = {
    "segment": pl.String,
    "annotator": pl.String,
    "start": pl.Int64,  # null: an error without a place, such as an omission
    "end": pl.Int64,
    "severity": pl.String,
}

_PAIR = ("first", "second")

#: Sums per pair of annotators, ``first`` < ``second`` by name.
COUNTS: Schema = {
    "first": pl.String,
    "second": pl.String,
    "segments": pl.Int64,
    "characters_first": pl.Int64,
    "characters_second": pl.Int64,
    "characters_both": pl.Int64,
    "characters_same": pl.Int64,  # of them, with the same severity
    "errors_first": pl.Int64,  # segments in which the first one marks an error
    "errors_second": pl.Int64,
    "errors_both": pl.Int64,
}

#: How often a pair of annotators gave a pair of scores.
SCORES: Schema = {
    "first": pl.String,
    "second": pl.String,
    "score_first": pl.Float64,
    "score_second": pl.Float64,
    "n": pl.Int64,
}

#: Agreement per pair of annotators.
AGREEMENT: Schema = {
    "first": pl.String,
    "second": pl.String,
    "segments": pl.Int64,
    "character_f1": pl.Float64,
    "character_f1_severity": pl.Float64,
    "spearman": pl.Float64,
    "kendall": pl.Float64,
    "any_error": pl.Float64,
    "any_error_kappa": pl.Float64,
}

_MISMATCH_CREDIT = 0.5


@dataclass(frozen=True)
class Tallies:
    """What is summed over partitions: schemas ``COUNTS`` and ``SCORES``."""

    counts: pl.DataFrame
    scores: pl.DataFrame


def tally(judgements: pl.DataFrame, spans: pl.DataFrame, severities: Sequence[str]) -> Tallies:
    """Return the sums for all pairs of annotators who judged a segment in common.

    Args:
        judgements: schema ``JUDGEMENTS``, each segment and annotator once.
        spans: schema ``SPANS``; spans of a segment that its annotator did not judge count nowhere.
        severities: all severities, the worst first; any other, and null, is the mildest of all.

    Raises:
        ValueError: an annotator judged a segment twice.
    """
    if judgements.select(pl.struct("segment", "annotator").is_duplicated().any()).item():
        raise ValueError("an annotator judges a segment once; merge repeated judgements first")
    errors = spans.group_by("segment", "annotator").agg(pl.lit(True).alias("error"))
    characters = _characters(spans, severities)
    sizes = characters.group_by("segment", "annotator").agg(pl.len().cast(pl.Int64).alias("size"))
    judged = (
        judgements.select(list(JUDGEMENTS))
        .join(errors, on=["segment", "annotator"], how="left")
        .join(sizes, on=["segment", "annotator"], how="left")
        .with_columns(pl.col("error").fill_null(False), pl.col("size").fill_null(0))
    )
    pairs = _pairs(judged, ["segment"])
    both = (
        _pairs(characters, ["segment", "character"])
        .group_by("segment", *_PAIR)
        .agg(
            pl.len().cast(pl.Int64).alias("both"),
            (pl.col("rank") == pl.col("rank_other")).sum().cast(pl.Int64).alias("same"),
        )
    )
    counts = (
        pairs.join(both, on=["segment", *_PAIR], how="left")
        .group_by(*_PAIR)
        .agg(
            pl.len().cast(pl.Int64).alias("segments"),
            pl.col("size").sum().alias("characters_first"),
            pl.col("size_other").sum().alias("characters_second"),
            pl.col("both").sum().alias("characters_both"),
            pl.col("same").sum().alias("characters_same"),
            pl.col("error").sum().cast(pl.Int64).alias("errors_first"),
            pl.col("error_other").sum().cast(pl.Int64).alias("errors_second"),
            (pl.col("error") & pl.col("error_other")).sum().cast(pl.Int64).alias("errors_both"),
        )
    )
    scores = (
        pairs.drop_nulls(["score", "score_other"])
        .group_by(
            *_PAIR,
            pl.col("score").alias("score_first"),
            pl.col("score_other").alias("score_second"),
        )
        .agg(pl.len().cast(pl.Int64).alias("n"))
    )
    return sum_tallies([Tallies(counts, scores)])


def sum_tallies(tallies: Iterable[Tallies]) -> Tallies:
    """Return the sums of several partitions added up, sorted."""
    parts = list(tallies)
    counts = concat((part.counts for part in parts), COUNTS)
    scores = concat((part.scores for part in parts), SCORES)
    pair_of_scores = [*_PAIR, "score_first", "score_second"]
    return Tallies(
        counts.group_by(_PAIR).agg(pl.exclude(_PAIR).sum()).select(list(COUNTS)).sort(_PAIR),
        scores.group_by(pair_of_scores).agg(pl.col("n").sum()).sort(pair_of_scores),
    )


def pool(tallies: Tallies, groups: Mapping[str, str]) -> Tallies:
    """Return the sums over groups of annotators: each pair counts for the pair of their groups.

    A segment that several annotators of a group judged counts once for each of them. Pairs within
    a group become the pair of the group with itself.

    Args:
        tallies: of the annotators.
        groups: the group of each annotator; one without stands for itself.
    """
    return sum_tallies([Tallies(_pooled(tallies.counts, groups), _pooled(tallies.scores, groups))])


def _pooled(sums: pl.DataFrame, groups: Mapping[str, str]) -> pl.DataFrame:
    """Return the rows under the names of groups, sides exchanged where the names' order asks it."""
    named = sums.with_columns(pl.col(_PAIR).replace(list(groups), list(groups.values())))
    exchanged = {
        name: name.replace("first", "second")
        if "first" in name
        else name.replace("second", "first")
        for name in named.columns
    }
    swap = pl.col("first") > pl.col("second")
    return pl.concat(
        [named.filter(~swap), named.filter(swap).rename(exchanged).select(named.columns)]
    )


def agreement(tallies: Tallies) -> pl.DataFrame:
    """Return the agreement of each pair of annotators, schema ``AGREEMENT``, sorted."""
    marked = pl.col("characters_first") + pl.col("characters_second")
    half = (1 - _MISMATCH_CREDIT) * pl.col("characters_same")
    credit = half + _MISMATCH_CREDIT * pl.col("characters_both")
    n = pl.col("segments")
    ours, theirs = pl.col("errors_first") / n, pl.col("errors_second") / n
    neither = n - pl.col("errors_first") - pl.col("errors_second") + pl.col("errors_both")
    observed = (pl.col("errors_both") + neither) / n
    chance = ours * theirs + (1 - ours) * (1 - theirs)
    correlations = pl.DataFrame(
        [
            (*pair, *_correlations(frame))
            for pair, frame in tallies.scores.group_by(_PAIR, maintain_order=True)
        ],
        schema={name: AGREEMENT[name] for name in (*_PAIR, "spearman", "kendall")},
        orient="row",
    )
    return (
        tallies.counts.with_columns(
            pl.when(marked > 0).then(2 * pl.col("characters_both") / marked).alias("character_f1"),
            pl.when(marked > 0).then(2 * credit / marked).alias("character_f1_severity"),
            observed.alias("any_error"),
            pl.when(chance < 1).then((observed - chance) / (1 - chance)).alias("any_error_kappa"),
        )
        .join(correlations, on=_PAIR, how="left")
        .select(list(AGREEMENT))
        .sort(_PAIR)
    )


def _characters(spans: pl.DataFrame, severities: Sequence[str]) -> pl.DataFrame:
    """Return each marked character once per annotator, with the rank of its worst severity."""
    rank = pl.col("severity").replace_strict(
        list(severities),
        list(range(len(severities))),
        default=len(severities),
        return_dtype=pl.Int32,
    )
    return (
        spans.filter(pl.col("start") < pl.col("end"))
        .select(
            "segment",
            "annotator",
            rank.fill_null(len(severities)).alias("rank"),
            pl.int_ranges("start", "end").alias("character"),
        )
        .explode("character")
        .group_by("segment", "annotator", "character")
        .agg(pl.col("rank").min())
    )


def _pairs(frame: pl.DataFrame, on: list[str]) -> pl.DataFrame:
    """Return the rows of two annotators that meet in ``on``; the second's get ``_other``."""
    return (
        frame.join(frame, on=on, suffix="_other")
        .filter(pl.col("annotator") < pl.col("annotator_other"))
        .rename({"annotator": "first", "annotator_other": "second"})
    )


def _correlations(scores: pl.DataFrame) -> tuple[float | None, float | None]:
    """Return Spearman's rho and Kendall's tau-b; None where either side is constant."""
    from scipy import stats  # type: ignore[import-untyped]

    each = scores.select(pl.col("score_first", "score_second").repeat_by("n").explode())
    first, second = each["score_first"].to_numpy(), each["score_second"].to_numpy()
    if scores["score_first"].n_unique() < 2 or scores["score_second"].n_unique() < 2:
        return None, None
    figures = (stats.spearmanr(first, second).statistic, stats.kendalltau(first, second).statistic)
    rho, tau = (None if math.isnan(figure) else float(figure) for figure in figures)
    return rho, tau
