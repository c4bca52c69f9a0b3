"""What goes of the analyses that pass the filters: near-duplicates, a surplus without errors.

Both choices rest on the rows' ids alone, so that they are the same in every run. Near-duplicates
are looked for within a partition. That finds all of one input, for its outputs meet there; of two
inputs that are nearly the same only those that chance brings together (exact copies always meet).
The share of error-free rows is one of the whole dataset, so their numbers are summed first.
"""

from __future__ import annotations

from collections.abc import Iterable

import polars as pl

from pipelines.metricinstruct.filter_settings import ErrorFreeShare, FilterSettings, NearDuplicate
from transforms.filters import FUNNEL
from transforms.frames import Schema, concat, from_rows
from transforms.keys import fraction_of
from transforms.near_duplicates import near_duplicates

#: Why a row was dropped; the same columns as ``analysis_filters.rejects`` returns.
REJECTS: Schema = {
    "id": pl.String,
    "rule": pl.String,
    "value": pl.String,
    "field": pl.String,
}

#: How many analyses have errors and how many have none; summed by ``sum_error_free``.
ERROR_FREE: Schema = {"error_free": pl.Boolean, "n": pl.Int64}

_SALT = "error_free_share"


def near_duplicate_rows(analyses: pl.DataFrame, rule: NearDuplicate) -> pl.DataFrame:
    """Return the rows whose input and output are nearly those of another row.

    Of such rows the one with the smallest id stays.

    Args:
        analyses: columns id, key, input_context and hypothesis; one partition.
        rule: its similarity is asked of the inputs and of the outputs, each by itself.

    Returns:
        Schema ``REJECTS``, sorted by id.
    """
    rows = analyses.select("id", "key", "input_context", "hypothesis").sort("id")
    if rule.level == "off" or rows.height == 0:
        return pl.DataFrame(schema=dict(REJECTS))
    inputs = rows.unique("key", keep="first", maintain_order=True).sort("key")
    alike = near_duplicates(
        inputs["input_context"],
        pl.Series(["all"]).new_from_index(0, inputs.height),
        rule.similarity,
        rule.characters,
    )
    original = pl.int_range(pl.len()).replace(alike["row"], alike["original"])
    groups = rows.join(
        inputs.select("key", original.alias("group")), on="key", maintain_order="left"
    )
    found = near_duplicates(rows["hypothesis"], groups["group"], rule.similarity, rule.characters)
    return found.select(
        rows["id"].gather(found["row"]).alias("id"),
        pl.lit("near_duplicate").alias("rule"),
        pl.format(
            "{} of {}", pl.col("similarity").round(3), rows["id"].gather(found["original"])
        ).alias("value"),
        pl.lit("hypothesis").alias("field"),
    ).sort("id")


def near_duplicate_funnel(
    found: pl.DataFrame, verdicts: pl.DataFrame, rule: NearDuplicate
) -> pl.DataFrame:
    """Return what the filter saw, schema ``transforms.filters.FUNNEL``, behind all others.

    Args:
        found: what ``near_duplicate_rows`` returned.
        verdicts: of the other filters, schema ``transforms.filters.VERDICTS``.
        rule: tells the level.
    """
    earlier = verdicts.filter(pl.col("level") == rule.level).select(id="key")
    first = found.join(earlier, on="id", how="anti").height
    place = list(FilterSettings.model_fields).index("near_duplicate")
    return from_rows([(place, "near_duplicate", rule.level, found.height, first)], FUNNEL)


def count_error_free(analyses: pl.DataFrame) -> pl.DataFrame:
    """Return how many analyses (column errors) have none, and how many some; ``ERROR_FREE``."""
    return sum_error_free(
        [
            analyses.select(
                (pl.col("errors").list.len() == 0).alias("error_free"),
                pl.lit(1, dtype=pl.Int64).alias("n"),
            )
        ]
    )


def sum_error_free(frames: Iterable[pl.DataFrame]) -> pl.DataFrame:
    """Return the numbers of several partitions added up."""
    return (
        concat(frames, ERROR_FREE).group_by("error_free").agg(pl.col("n").sum()).sort("error_free")
    )


def kept_fraction(counts: pl.DataFrame, rule: ErrorFreeShare) -> float:
    """Return which fraction of the error-free analyses may stay, 0 to 1.

    Args:
        counts: schema ``ERROR_FREE``, summed over the dataset.
        rule: the most that they may be of all analyses that stay.
    """
    numbers = dict(counts.iter_rows())
    without, with_errors = numbers.get(True, 0), numbers.get(False, 0)
    if rule.level != "error" or rule.most == 1 or without == 0:
        return 1.0
    return min(1.0, float(rule.most / (1 - rule.most) * with_errors / without))


def surplus_rows(analyses: pl.DataFrame, fraction: float) -> pl.DataFrame:
    """Return the error-free rows that are dropped so that about ``fraction`` of them stay.

    Args:
        analyses: columns id and errors.
        fraction: see ``kept_fraction``. A row that stays at one fraction stays at any larger one.

    Returns:
        Schema ``REJECTS``, sorted by id.
    """
    ids = analyses.filter(pl.col("errors").list.len() == 0)["id"].sort().to_list()
    dropped = [row for row in ids if fraction_of(row, _SALT) >= fraction]
    return pl.DataFrame({"id": dropped}, schema={"id": pl.String}).with_columns(
        pl.lit("error_free_share").alias("rule"),
        pl.lit(f"{fraction:.3f} stay").alias("value"),
        pl.lit("errors").alias("field"),
    )
