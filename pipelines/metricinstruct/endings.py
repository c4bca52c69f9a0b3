"""How rows of files, examples and analyses end, in the frames that are written and counted."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import polars as pl

from pipelines.metricinstruct import schema
from pipelines.metricinstruct.sources.beside import STAGE
from pipelines.metricinstruct.stage_frames import SCHEMAS
from transforms.frames import Schema
from transforms.ledger import count_out
from transforms.llm.calls import CallClass

_AWAITED = [each.value for each in CallClass if each.awaited]


def columns_beside(known: Schema) -> list[str]:
    """Return the columns of a chosen example that ``known`` lacks and that an end is told with."""
    wanted = dict.fromkeys([*schema.DEAD.names, *schema.WAITING.names])
    return [name for name in wanted if name in schema.CHOSEN and name not in known]


def ended(name: str, unfinished: pl.DataFrame) -> pl.DataFrame:
    """Return the rows of the frame ``name`` (dead or waiting) for examples whose call failed.

    Args:
        name: of the frame.
        unfinished: schema ``UNFINISHED``, with the columns that ``columns_beside`` names.
    """
    error = pl.col("error_class")
    awaited = pl.when(error.is_in(_AWAITED)).then(error).otherwise(pl.lit("call"))
    named_otherwise = {"request_hash": pl.col("request"), "waits_for": awaited}
    return unfinished.select(
        named_otherwise.get(column, pl.col(column)).cast(kind).alias(column)
        for column, kind in SCHEMAS[name].items()
    )


def with_example(analyses: pl.DataFrame, chosen: pl.DataFrame) -> pl.DataFrame:
    """Return the analyses with the columns of their example that they lack."""
    beside = [name for name in schema.CHOSEN if name not in analyses.columns]
    return analyses.join(
        chosen.select("channel", pl.col("id").alias("example_id"), *beside),
        on=["channel", "example_id"],
        how="left",
        maintain_order="left",
    )


@dataclass(frozen=True)
class Parted:
    """Analyses that stay, rejects (``REJECTED``) of the others, and the counts of their errors."""

    kept: pl.DataFrame
    rejected: pl.DataFrame
    counts: pl.DataFrame


def parted_analyses(analyses: pl.DataFrame, dropped: pl.DataFrame, chosen: pl.DataFrame) -> Parted:
    """Part the analyses from those that are ``dropped`` (columns id, rule, value, field)."""
    rows = dropped.join(with_example(analyses, chosen), on="id", how="left", maintain_order="left")
    alike = pl.col("rule") == "near_duplicate"
    columns = {
        "unit": pl.lit("analysis"),
        "outcome": pl.when(alike).then(pl.lit("duplicate")).otherwise(pl.lit("rejected")),
        "text": pl.col("hypothesis"),
    }
    refused = rows.select(
        columns.get(name, pl.col(name)).cast(kind).alias(name)
        for name, kind in SCHEMAS["rejected"].items()
    )
    errors = pl.col("errors").list.len().sum()
    return Parted(
        analyses.join(dropped, on="id", how="anti", maintain_order="left"),
        refused,
        count_out("errors", "rejected", pl.col("rule"), rows, errors),
    )


def outcomes(
    rows: pl.DataFrame, rejected: pl.DataFrame, dead: pl.DataFrame, waiting: pl.DataFrame
) -> Iterator[pl.DataFrame]:
    """Yield how rows of files, examples and analyses ended, from what is written."""
    of_files, number = pl.col("input_rows").sum(), pl.len()
    outcome, rule, nothing = pl.col("outcome"), pl.col("rule"), pl.lit("")
    beside = rejected.filter(pl.col("unit").is_in([schema.ANNOTATION, schema.OUTPUT]))
    yield count_out(STAGE, outcome, rule, beside, number)
    examples = rejected.filter(pl.col("unit").is_in(["example", "analysis"]))
    analyses = rejected.filter(pl.col("unit") == "analysis")
    held = waiting.filter(pl.col("waits_for") != "limit")
    for stage, refused, later, n in (
        ("input_rows", rejected, waiting, of_files),
        ("examples", examples, waiting, number),
        ("analyses", analyses, held, number),
    ):
        yield count_out(stage, "published", nothing, rows, n)
        yield count_out(stage, outcome, rule, refused, n)
        yield count_out(stage, "dead", pl.col("error_class"), dead, n)
        yield count_out(stage, "waiting", pl.col("waits_for"), later, n)
