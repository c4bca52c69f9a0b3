"""The work of ``remint metricinstruct`` as a plain Polars script: what the pipeline stands beside.

    python -m benchmarks.metricinstruct.plain_polars INPUTS BASE_URL OUTPUT

Reads the same source files and cached answers, chooses outputs, places errors, filters, drops
near-duplicates and the surplus of rows without errors, and writes the same rows to as many zstd
parquet files. It holds everything in memory at once, knows the files' forms and trusts its input:
no ledger, statistics, suites or manifest, no bad rows but those of the rules. What is a rule is the
project's own, as it is part of the work: filters and what they look at, near-duplicates, the metric
of the ranking, how loosely a location may fit, what is drawn from a key, content keys, and the keys
under which answers are cached.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

import polars as pl

from benchmarks.inputs import Inputs
from benchmarks.metricinstruct.plain_analyses import analyse
from benchmarks.metricinstruct.plain_choice import choose
from benchmarks.metricinstruct.plain_inputs import read_answers, read_examples
from benchmarks.replies import MODEL
from benchmarks.shards import write_shards
from pipelines.metricinstruct import schema
from pipelines.metricinstruct.analysis_filters import analysis_filters, rejects
from pipelines.metricinstruct.analysis_length import shorten
from pipelines.metricinstruct.analysis_tables import tables
from pipelines.metricinstruct.balance import (
    REJECTS,
    count_error_free,
    kept_fraction,
    near_duplicate_rows,
    surplus_rows,
)
from pipelines.metricinstruct.filter_settings import load_filters
from pipelines.metricinstruct.finetuning import fine_tuning
from pipelines.metricinstruct.profiles import count_profiles
from pipelines.metricinstruct.publication import DATASET
from pipelines.metricinstruct.task_prompts import by_id, load_task_prompts
from transforms.filters import apply
from transforms.frames import polars_schema
from transforms.keys import partition_expression
from transforms.llm.prompts import Prompt


def main() -> None:
    """Make the dataset."""
    inputs, base_url, output = Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3])
    partitions = Inputs(DATASET, inputs, base_url).partitions
    prompts = load_task_prompts()
    chosen, not_chosen = choose(read_examples(inputs))
    answers = read_answers(str(inputs / "output/metricinstruct/cache/*/*.jsonl"))
    analyses, unchanged, dead = analyse(chosen, answers, prompts, base_url)
    analyses = analyses.with_columns(partition_expression(partitions))
    rows, dropped, removed = filtered(analyses)
    rows = released(with_example(rows, chosen))
    rejected = pl.concat(
        [
            not_chosen,
            rejects_of(dropped.join(with_example(analyses, chosen), on="id"), "hypothesis"),
            rejects_of(unchanged, "made"),
        ]
    )
    default = rows.with_columns(pl.col("errors_text").alias("errors"))
    write(output, "default", default, partitions)
    write(output, "structured", rows, partitions)
    tuning = rows.select("split", "partition").hstack(fine_tuning(default))
    write(output, "sft", tuning, partitions)
    write(output, "provenance", provenance(rows, removed, by_id(prompts)), partitions)
    write(output, "rejected", rejected, partitions)
    write(output, "dead", dead, partitions)


def filtered(analyses: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]:
    """Return the analyses that stay, what is said of the others (``REJECTS``), and lost errors."""
    settings = load_filters(None)
    verdicts = apply(analysis_filters(settings), tables(analyses, count_profiles(analyses)))
    failed = rejects(verdicts)
    passed = analyses.join(failed, on="id", how="anti", maintain_order="left")
    passed, removed = shorten(passed, settings.analysis_length)
    alike = [
        near_duplicate_rows(part, settings.near_duplicate)
        for part in passed.partition_by("partition")
    ]
    nearly = pl.concat([pl.DataFrame(schema=dict(REJECTS)), *alike])
    passed = passed.join(nearly, on="id", how="anti", maintain_order="left")
    fraction = kept_fraction(count_error_free(passed), settings.error_free_share)
    surplus = surplus_rows(passed, fraction)
    passed = passed.join(surplus, on="id", how="anti", maintain_order="left")
    return passed, pl.concat([failed, nearly, surplus]), removed


def with_example(analyses: pl.DataFrame, chosen: pl.DataFrame) -> pl.DataFrame:
    """Return the analyses with the columns of their example that they lack."""
    beside = [name for name in chosen.columns if name not in analyses.columns]
    return analyses.join(
        chosen.select("channel", pl.col("id").alias("example_id"), *beside),
        on=["channel", "example_id"],
    )


def released(rows: pl.DataFrame) -> pl.DataFrame:
    """Return the rows in their order, with the released text, number and sum of their errors."""
    rows = rows.sort("key", "id")
    errors = (
        rows.select("id", "errors")
        .explode("errors", empty_as_null=False)
        .unnest("errors")
        .with_columns((pl.int_range(pl.len()).over("id") + 1).alias("n"))
    )
    lines = pl.format(
        "Error location {}: {}\nError aspect {}: {}\nExplanation {}: {}\nSeverity {}: {}\n"
        "Score reduction {}: {}",
        *("n", pl.col("location").str.strip_chars()),
        *("n", "aspect"),
        *("n", pl.col("explanation").str.strip_chars()),
        *("n", "severity"),
        *("n", _number(pl.col("score_reduction"))),
    )
    texts = errors.group_by("id", maintain_order=True).agg(
        lines.str.join("\n").alias("lines"), pl.col("score_reduction").sum()
    )
    header = pl.format(
        "The model-generated output contains {} errors, with a total score reduction of {}.",
        "error_count",
        _number(pl.col("score_reduction")),
    )
    return rows.join(texts, on="id", how="left", maintain_order="left").with_columns(
        pl.col("hypothesis").alias("hypo_output"),
        pl.col("errors").list.len().cast(pl.Int32).alias("error_count"),
        pl.col("score_reduction").fill_null(0.0),
    ).with_columns(
        pl.concat_str(header, "lines", separator="\n", ignore_nulls=True).alias("errors_text")
    )  # fmt: skip


def _number(value: pl.Expr) -> pl.Expr:
    return value.cast(pl.String).str.replace(r"\.0$", "")


def provenance(
    rows: pl.DataFrame, removed: pl.DataFrame, prompts: Mapping[str, Prompt]
) -> pl.DataFrame:
    """Return one row per published row: its origin, the choice, prompts and requests."""
    lost = removed.group_by("id").agg(pl.len().alias("errors_removed"))
    hashes = {name: prompt.hash for name, prompt in prompts.items()}
    sampling = {name: prompt.sampled_with("{}") for name, prompt in prompts.items()}
    return rows.join(lost, on="id", how="left", maintain_order="left").with_columns(
        pl.col("errors_removed").fill_null(0),
        pl.col("prompts").list.eval(pl.element().str.replace(r"(?s)^.*$", MODEL)).alias("models"),
        pl.col("prompts").alias("prompt_ids"),
        pl.col("prompts").list.eval(pl.element().replace(hashes)).alias("prompt_hashes"),
        pl.col("prompts").list.eval(pl.element().replace(sampling)).alias("sampling"),
        pl.col("requests").alias("request_hashes"),
        pl.lit(None, dtype=pl.String).alias("own_answer"),
        pl.lit([], dtype=polars_schema(schema.PROVENANCE)["verdicts"]).alias("verdicts"),
    )


def rejects_of(rows: pl.DataFrame, text: str) -> pl.DataFrame:
    """Return analyses with rule, value and field in the columns of the rejected ones."""
    alike = pl.col("rule") == "near_duplicate"
    return rows.with_columns(
        pl.lit("analysis").alias("unit"),
        pl.when(alike).then(pl.lit("duplicate")).otherwise(pl.lit("rejected")).alias("outcome"),
        pl.col(text).alias("text"),
    ).select(schema.REJECTED.names)


def write(output: Path, configuration: str, rows: pl.DataFrame, partitions: int) -> None:
    """Write the rows of a configuration, those with splits in their order already."""
    published = polars_schema(schema.CONFIGURATIONS[configuration])
    if configuration not in schema.SPLIT_CONFIGURATIONS:
        rows = rows.sort(list(published)).with_columns(
            partition_expression(partitions), pl.lit(configuration).alias("written split")
        )
    else:
        rows = rows.with_columns(pl.col("split").alias("written split"))
    typed = rows.with_columns(pl.col(name).cast(kind) for name, kind in published.items())
    directory = "data" if configuration == "default" else configuration
    write_shards(output / directory, typed, list(published), partitions, split="written split")


if __name__ == "__main__":
    main()
