"""The tables that the filters of analyses look at.

In all of them ``key`` is an analysis's id, ``turn`` is 0, and ``text`` is the output analysed.
"""

from __future__ import annotations

import polars as pl

from pipelines.metricinstruct.analysis_length import error_tokens
from pipelines.metricinstruct.errors.places import strip_marks
from pipelines.metricinstruct.errors.record import ErrorRecord
from pipelines.metricinstruct.errors.released import unwritable
from pipelines.metricinstruct.errors.suggestions import suggestion_in
from pipelines.metricinstruct.profiles import PROFILES, profile
from transforms.text import words


def tables(analyses: pl.DataFrame, profiles: pl.DataFrame | None = None) -> dict[str, pl.DataFrame]:
    """Return the tables that the filters look at: ``fault``, ``error``, ``pair``, ``analysis``.

    Args:
        analyses: schema ``ANALYSES`` or more columns.
        profiles: the profiles of the whole dataset, schema ``PROFILES``, summed; without it no
            analysis is found degenerate.
    """
    rows = analyses.with_columns(
        pl.col("id").alias("key"),
        pl.lit(0, dtype=pl.Int32).alias("turn"),
        pl.lit("errors").alias("field"),
        pl.col("hypothesis").alias("text"),
    )
    errors = _errors(rows)
    return {
        "fault": rows.select("key", "turn", "text", "faults")
        .explode("faults", empty_as_null=False)
        .unnest("faults"),
        "error": errors,
        "pair": _pairs(errors),
        "analysis": _analyses(rows, profiles),
    }


def _errors(rows: pl.DataFrame) -> pl.DataFrame:
    errors = (
        rows.select(
            "key",
            "turn",
            "text",
            "aspects",
            "errors",
            pl.int_ranges(1, pl.col("errors").list.len() + 1).alias("number"),
        )
        .explode("errors", "number", empty_as_null=False)
        .unnest("errors")
        # Polars 2.1 panics in set operations on one row that a filter left of several chunks.
        .rechunk()
    )
    records = [
        ErrorRecord(*row)
        for row in errors.select(
            "location", "aspect", "explanation", "severity", "score_reduction", "suggestion"
        ).iter_rows()
    ]
    explained, located = words(pl.col("explanation")), words(pl.col("location"))
    return errors.with_columns(
        pl.Series("suggestion_is_location", map(_says_location, records), dtype=pl.Boolean),
        pl.Series("unwritable", map(unwritable, records), dtype=pl.String),
        explained.list.set_difference(located).alias("new_words"),
        error_tokens().alias("tokens"),
        (
            pl.col("number")
            == pl.col("number")
            .sort_by("score_reduction", "number", descending=[True, False])
            .first()
            .over("key")
        ).alias("largest"),
    )


def _says_location(error: ErrorRecord) -> bool:
    bare, suggestion = strip_marks(error.location), error.suggestion
    if suggestion is None and bare in error.explanation:
        suggestion = suggestion_in(error.explanation)
    return bare != "" and suggestion is not None and strip_marks(suggestion) == bare


def _pairs(errors: pl.DataFrame) -> pl.DataFrame:
    """Return the pairs of errors of one analysis that have a character in common."""
    placed = errors.select("key", "turn", "text", "number", "location", "start", "end").drop_nulls(
        "start"
    )
    return placed.join(
        placed.select("key", "number", "start", "end"), on="key", suffix="_other"
    ).filter(
        (pl.col("number") < pl.col("number_other"))
        & (pl.col("start") < pl.col("end_other"))
        & (pl.col("start_other") < pl.col("end"))
    )


def _analyses(rows: pl.DataFrame, profiles: pl.DataFrame | None) -> pl.DataFrame:
    counted = pl.DataFrame(schema=dict(PROFILES)) if profiles is None else profiles
    shares = counted.with_columns(
        pl.col("n").sum().over("source", "channel").alias("source_analyses")
    ).with_columns((pl.col("n") / pl.col("source_analyses")).alias("profile_share"))
    reductions = pl.element().struct.field("score_reduction")
    return rows.with_columns(
        profile(pl.col("errors")).alias("profile"),
        pl.col("errors").list.eval(reductions).list.sum().alias("total"),
    ).join(
        shares.select("source", "channel", "profile", "source_analyses", "profile_share"),
        on=["source", "channel", "profile"],
        how="left",
        maintain_order="left",
    )
