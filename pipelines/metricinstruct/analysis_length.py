"""The length of an analysis, and how one that is too long loses its smallest errors."""

from __future__ import annotations

import polars as pl

from pipelines.metricinstruct.errors.released import LABELS, header
from pipelines.metricinstruct.filter_settings import AnalysisLength
from transforms.tokens import BYTES_PER_TOKEN, tokens

# Each value stands behind a label, a number of one digit or two, a colon and a blank; a reduction
# has three characters.
_LABEL_TOKENS = (sum(len(f"{label} 1: \n") for label in LABELS) + 3) / BYTES_PER_TOKEN
_HEADER_TOKENS = len(header(())) / BYTES_PER_TOKEN


def error_tokens() -> pl.Expr:
    """Return about how many tokens an error takes in the released text.

    Of a frame with the fields of an error as columns.
    """
    texts = (tokens(pl.col(name)) for name in LABELS.values() if name != "score_reduction")
    return pl.sum_horizontal(*texts) + _LABEL_TOKENS


def fits(of_errors: pl.Expr, rule: AnalysisLength) -> pl.Expr:
    """Return whether a released text fits whose errors take so many tokens."""
    return of_errors + _HEADER_TOKENS <= rule.tokens


def shorten(analyses: pl.DataFrame, rule: AnalysisLength) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the analyses without the errors that make them too long, and those errors.

    The errors with the smallest reductions go first, of equal ones the last. Those that stay keep
    their order; an analysis whose largest error is too long by itself keeps that one, see the
    filter ``analysis_length``.

    Args:
        analyses: columns id and errors, and others; the order is kept.
        rule: the most tokens; with another level than ``error`` nothing is removed.

    Returns:
        The analyses, and a frame of what was removed: id, number (the error's, from 1), location,
        severity, score_reduction.
    """
    errors = (
        analyses.select(
            "id", "errors", pl.int_ranges(1, pl.col("errors").list.len() + 1).alias("number")
        )
        .explode("errors", "number", empty_as_null=False)
        .with_columns(pl.col("errors").struct.unnest())
        .with_columns(error_tokens().alias("tokens"))
    )
    length = pl.col("tokens").sum().over("id")
    suspects = errors.filter(~fits(length, rule)) if rule.level == "error" else errors.clear()
    judged = suspects.sort(
        ["id", "score_reduction", "number"], descending=[False, True, False], nulls_last=True
    ).with_columns(
        (
            fits(pl.col("tokens").cum_sum().over("id"), rule)
            | (pl.int_range(pl.len()).over("id") == 0)
        ).alias("stays")
    )
    kept = (
        judged.filter("stays")
        .sort("id", "number")
        .group_by("id", maintain_order=True)
        .agg(pl.col("errors").alias("kept"))
    )
    shortened = (
        analyses.join(kept, on="id", how="left", maintain_order="left")
        .with_columns(pl.coalesce("kept", "errors").alias("errors"))
        .drop("kept")
    )
    removed = judged.filter(~pl.col("stays")).sort("id", "number")
    return shortened, removed.select("id", "number", "location", "severity", "score_reduction")
