"""What a partition publishes: its finished frames as the rows of each configuration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import polars as pl

from pipelines.metricinstruct.errors.record import from_column
from pipelines.metricinstruct.errors.released import errors_text, total
from pipelines.metricinstruct.finetuning import fine_tuning
from pipelines.metricinstruct.human_marks import marks_within
from pipelines.metricinstruct.schema import CONFIGURATIONS, HUMAN, PROVENANCE, REAL
from transforms.frames import polars_schema
from transforms.llm.prompts import Prompt
from transforms.partitions import Frames

#: The order of rows in every configuration that has a row per published row.
_ORDER = ("key", "id")
#: The same of human annotations; what is left to choose is decided by all other columns.
_HUMAN_ORDER = (*_ORDER, "system", "item", "annotator", "file", "line", "start")


@dataclass(frozen=True)
class Authorship:
    """What provenance says beside the rows: of the prompts by their ids.

    ``extra_bodies`` are what each model's endpoint is told beside a prompt's own sampling
    parameters (JSON, see ``EngineSettings``).
    """

    prompts: Mapping[str, Prompt]
    extra_bodies: Mapping[str, str]


def released(rows: pl.DataFrame) -> pl.DataFrame:
    """Return the published rows, sorted, with the columns of ``RELEASED`` and ``STRUCTURED``.

    Both configurations have a column ``errors``: here ``errors`` is the records, ``errors_text``
    the released text.

    Args:
        rows: the frame ``rows`` of a finished partition.
    """
    rows = rows.sort(*_ORDER)
    errors = from_column(rows["errors"])
    return rows.with_columns(
        pl.col("hypothesis").alias("hypo_output"),
        pl.Series("errors_text", [errors_text(one) for one in errors], dtype=pl.String),
        pl.Series("error_count", [len(one) for one in errors], dtype=pl.Int32),
        pl.Series("score_reduction", [total(one) for one in errors], dtype=pl.Float64),
    )


def configurations(rows: pl.DataFrame, frames: Frames, authorship: Authorship) -> Frames:
    """Return the rows of every configuration, those with splits still with their ``split``.

    Args:
        rows: as ``released`` returns them.
        frames: ``verdicts``, ``removed`` and ``human_errors`` of these rows; ``rejected``,
            ``dead``, ``waiting``.
        authorship: the models and their prompts.
    """
    default = rows.with_columns(pl.col("errors_text").alias("errors"))
    return {
        "default": default,
        "structured": rows,
        "sft": default.select("split").hstack(fine_tuning(default)),
        "provenance": _provenance(rows, frames, authorship),
        "human": _human(rows, frames["human_errors"]),
        **{
            name: frames[name].sort(CONFIGURATIONS[name].names)
            for name in ("rejected", "dead", "waiting")
        },
    }


def _provenance(rows: pl.DataFrame, frames: Frames, authorship: Authorship) -> pl.DataFrame:
    verdicts = (
        frames["verdicts"]
        .sort("id", "check", "error")
        .group_by("id", maintain_order=True)
        .agg(
            pl.struct(
                "check",
                "error",
                "outcome",
                "swapped",
                "reason",
                pl.col("prompt").alias("prompt_id"),
                pl.col("request").alias("request_hash"),
                "model",
            ).alias("verdicts")
        )
    )
    removed = frames["removed"].group_by("id").agg(pl.len().alias("errors_removed"))
    prompts = authorship.prompts.values()
    hashes = {prompt.id: prompt.hash for prompt in prompts}
    sampling = {
        (prompt.id, model): prompt.sampled_with(extra_body)
        for prompt in prompts
        for model, extra_body in authorship.extra_bodies.items()
    }
    calls = zip(rows["prompts"].to_list(), rows["models"].to_list(), strict=True)
    sampled = [[sampling[call] for call in zip(*each, strict=True)] for each in calls]
    kinds = polars_schema(PROVENANCE)
    return (
        rows.join(verdicts, on="id", how="left", maintain_order="left")
        .join(removed, on="id", how="left", maintain_order="left")
        .with_columns(
            pl.col("verdicts").fill_null([]),
            pl.col("errors_removed").fill_null(0),
            pl.col("prompts").alias("prompt_ids"),
            pl.col("prompts")
            .list.eval(pl.element().replace_strict(hashes, return_dtype=pl.String))
            .alias("prompt_hashes"),
            pl.Series("sampling", sampled, dtype=pl.List(pl.String)),
            pl.col("requests").alias("request_hashes"),
        )
        .select("split", *(pl.col(name).cast(kind) for name, kind in kinds.items()))
    )


def _human(rows: pl.DataFrame, human: pl.DataFrame) -> pl.DataFrame:
    """Return the human annotations of the published rows, under the ids of these rows."""
    real = rows.filter(pl.col("channel") == REAL).select(
        "split", "id", "example_id", "input_context", "hypothesis"
    )
    placed = human.rename({"id": "example_id"}).join(real, on="example_id", how="inner")
    return marks_within(placed).sort(*dict.fromkeys([*_HUMAN_ORDER, *HUMAN.names]), nulls_last=True)
