"""The work of ``remint prosocial`` as a plain Polars script: what the pipeline is measured beside.

    python -m benchmarks.prosocial.plain_polars INPUTS BASE_URL OUTPUT

Reads the same seeds, crowd files and cached answers, joins, labels, filters, drops duplicates,
gives ids, and writes the same rows to as many zstd parquet files. It holds everything in memory at
once, knows one source's form, and trusts its input: no ledger, statistics, suites or manifest, no
bad rows but those of the filters, whose expressions are the project's own (the rules are part of
the work), as are the content keys and the keys under which answers are cached.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Mapping
from pathlib import Path

import polars as pl

from benchmarks.inputs import Inputs
from benchmarks.prosocial.plain_inputs import (
    TURN,
    read_answers,
    read_responses,
    read_seeds,
    read_votes,
    rejects,
    replay,
)
from benchmarks.replies import MODEL
from benchmarks.shards import write_shards
from pipelines.prosocial import schema
from pipelines.prosocial.filter_settings import load_filters
from pipelines.prosocial.filters import prosocial_filters, tables
from pipelines.prosocial.publication import DATASET
from transforms.filters import apply
from transforms.keys import partition_expression
from transforms.llm.prompts import Prompt, load_prompts

ANNOTATOR_SALT = "remint"


def main() -> None:
    """Make the dataset."""
    inputs, base_url, output = Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3])
    partitions = Inputs(DATASET, inputs, base_url).partitions
    prompts = load_prompts(Path(schema.__file__).with_name("prompts"))
    seeds, refused = read_seeds(inputs / "seeds.tsv")
    responses = read_responses(str(inputs / "responses-*.jsonl"))
    votes = read_votes(str(inputs / "annotations-*.jsonl"))
    answers = read_answers(str(inputs / "output/prosocial/cache/*/*.jsonl"))
    responses = responses.join(seeds, on="key", how="semi")
    votes = votes.join(seeds, on="key", how="semi")
    drafts = replay(seeds, responses, answers, prompts, base_url)
    grid = assemble(drafts, responses, votes)
    turns = dialogues(seeds, grid)
    turns, by_filter = drop(turns, faults_of(turns), "rejected")
    turns, by_duplicate = drop(turns, duplicates_of(turns), "duplicate")
    turns = with_ids(turns, partitions)
    write_shards(output / "data", turns, schema.RELEASED.names, partitions)
    written = provenance(grid, turns, prompts)
    write_shards(output / "provenance", written, schema.PROVENANCE.names, partitions)
    columns = schema.PUBLISHED_ANNOTATIONS.names
    write_shards(output / "annotations", vote_rows(votes, turns), columns, partitions)
    rejected = pl.concat([refused, by_filter, by_duplicate]).sort(schema.REJECTED.names)
    rejected = rejected.with_columns(
        partition_expression(partitions), pl.lit("rejected").alias("published_split")
    )
    columns = schema.REJECTED.names
    write_shards(output / "rejected", rejected, columns, partitions, split="published_split")


def assemble(drafts: pl.DataFrame, responses: pl.DataFrame, votes: pl.DataFrame) -> pl.DataFrame:
    """Return one row per turn of each complete dialogue, sorted by key and turn."""
    by_turn = votes.group_by(TURN, maintain_order=True).agg(
        pl.col("vote").alias("safety_annotations"),
        pl.col("reason").alias("safety_annotation_reasons"),
    )
    given = responses.rename({"context": "context_edit", "response": "response_edit"})
    grid = (
        drafts.join(given, on=TURN, how="left")
        .join(by_turn, on=TURN, how="left")
        .with_columns(
            pl.coalesce("context_edit", "context_draft").alias("context"),
            pl.coalesce("response_edit", "response_draft").alias("response"),
            pl.when(pl.col("rots").list.len() > 0).then("rots"),
        )
        .sort(TURN)
    )
    complete = pl.col("response").is_not_null() & (
        pl.col("safety_annotations").list.len() == schema.VOTES_PER_TURN
    )
    return grid.filter(complete.all().over("key"))


def dialogues(seeds: pl.DataFrame, grid: pl.DataFrame) -> pl.DataFrame:
    """Return the turns with labels and what their seeds say."""
    votes = pl.col("safety_annotations")
    label = (
        pl.when(votes.list.contains(schema.VOTE_INTERVENTION))
        .then(pl.lit(schema.INTERVENTION))
        .otherwise(
            votes.list.count_matches(schema.VOTE_CAUTION).replace_strict(
                list(range(4)), list(schema.LABELS[:4]), return_dtype=pl.String
            )
        )
    )
    own_words = pl.col("response").eq_missing(pl.col("response_draft"))
    later_rots = pl.col("rots").shift(-1).over("key")
    return (
        grid.join(
            seeds.select("key", "split", "source", "etc", "input_rows"),
            on="key",
            maintain_order="left",
        )
        .with_columns(
            label.alias("safety_label"),
            pl.when(own_words)
            .then(pl.lit("drafted"))
            .otherwise(pl.lit("crowd"))
            .alias("response_author"),
            pl.when(pl.col("turn") == 0).then(pl.coalesce("rots", later_rots)).otherwise("rots"),
            (pl.col("turn") == pl.col("turn").max().over("key")).alias("episode_done"),
        )
        .select(list(schema.TURNS))
    )


def faults_of(turns: pl.DataFrame) -> pl.DataFrame:
    """Return what the filters find: key, turn, field, rule, value, text, position."""
    settings = load_filters(None)
    return apply(prosocial_filters(settings), tables(turns, settings)).filter(
        pl.col("level") == "error"
    )


def duplicates_of(turns: pl.DataFrame) -> pl.DataFrame:
    """Return the turns whose context and response another turn has, of a smaller key or earlier."""
    both = ["context", "response"]
    return (
        turns.with_columns(pl.col("key").first().over(both).alias("value"))
        .filter(~pl.struct(both).is_first_distinct())
        .select(
            *TURN,
            pl.lit("context").alias("field"),
            pl.lit("duplicate").alias("rule"),
            "value",
            pl.col("context").alias("text"),
            pl.lit(0, dtype=pl.Int32).alias("position"),
        )
    )


def drop(
    turns: pl.DataFrame, faults: pl.DataFrame, outcome: str
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the turns that stand, and the rejects: a third row is cut, an earlier one ends all."""
    early = pl.col("turn") < schema.MIN_TURNS
    worst = faults.sort(~early, "position", "turn", "field", "value").unique(
        "key", keep="first", maintain_order=True
    )
    worst = worst.select("key", "field", "rule", "value", pl.col("turn").alias("at"), "text")
    judged = turns.join(worst, on="key", how="left", maintain_order="left")
    gone = pl.col("at").is_not_null() & (
        (pl.col("at") < schema.MIN_TURNS) | (pl.col("turn") == pl.col("at"))
    )
    here = pl.col("turn") == pl.col("at")
    lost = judged.filter(gone)
    rows = lost.with_columns(
        pl.when(here).then("field"), pl.when(here).then("value"), pl.lit(0).alias("input_rows")
    )
    both = pl.concat_str("context", "response", separator="\n")
    heads = lost.filter(here & early)
    kept = judged.filter(~gone).select(turns.columns)
    kept = kept.with_columns(
        (pl.col("turn") == pl.col("turn").max().over("key")).alias("episode_done")
    )
    none = [pl.lit(None, dtype=pl.String).alias("file"), pl.lit(None).alias("line")]
    refused = [
        rejects(rows.with_columns(none), "turn", outcome, both),
        rejects(heads.with_columns(none), "dialogue", outcome, pl.col("text")),
    ]
    return kept, pl.concat(refused)


def with_ids(turns: pl.DataFrame, partitions: int) -> pl.DataFrame:
    """Return ``turns`` with ids that run on within a split, by partition and key."""
    place = pl.struct("partition", "key").rank("dense").over("split").cast(pl.Int64) - 1
    return (
        turns.with_columns(partition_expression(partitions))
        .with_columns(
            place.alias("dialogue_id"), pl.col("turn").cast(pl.Int64).alias("response_id")
        )
        .sort("split", "dialogue_id", "turn")
    )


def provenance(
    grid: pl.DataFrame, turns: pl.DataFrame, prompts: Mapping[str, Prompt]
) -> pl.DataFrame:
    """Return one row per published utterance: who wrote it, by which prompt and request."""
    by_prompt = pl.DataFrame(
        [
            (prompt.id, prompt.hash, json.dumps(prompt.sampling.parameters(), sort_keys=True))
            for prompt in prompts.values()
        ],
        schema=["prompt_id", "prompt_hash", "sampling"],
        orient="row",
    )
    place = turns.select(*TURN, "split", "partition", "dialogue_id", "response_id")
    grid = place.join(grid, on=TURN, maintain_order="left").with_columns(
        hashed("annotator", grid["annotator"])
    )
    fields = []
    for field in ("context", "response"):
        drafted = pl.col(f"{field}_draft").is_not_null()
        edited = drafted & (pl.col(field) != pl.col(f"{field}_draft"))
        by_crowd = edited | ~drafted
        fields.append(
            grid.select(
                *place.columns,
                pl.lit(field).alias("field"),
                pl.when(by_crowd).then(pl.lit("crowd")).otherwise(pl.lit("model")).alias("author"),
                pl.when(by_crowd).then("annotator").alias("annotator"),
                pl.when(drafted).then(pl.lit(MODEL)).alias("model"),
                pl.col(f"{field}_prompt").alias("prompt_id"),
                pl.col(f"{field}_request").alias("request_hash"),
                pl.col(f"{field}_draft").alias("raw_text"),
                pl.col(field).alias("text"),
                edited.alias("edited"),
            )
        )
    return (
        pl.concat(fields)
        .join(by_prompt, on="prompt_id", how="left")
        .sort("split", "dialogue_id", "response_id", "field")
    )


def vote_rows(votes: pl.DataFrame, turns: pl.DataFrame) -> pl.DataFrame:
    """Return one row per vote of a published turn."""
    place = turns.select(*TURN, "split", "partition", "dialogue_id", "response_id")
    absent = pl.lit(None, dtype=pl.String)
    return place.join(votes, on=TURN, maintain_order="left_right").with_columns(
        hashed("annotator", votes["annotator"]),
        pl.lit("crowd").alias("author"),
        absent.alias("model"),
        absent.alias("prompt_id"),
        absent.alias("request_hash"),
    )


def hashed(column: str, annotators: pl.Series) -> pl.Expr:
    """Return an annotator's column, each id as the first digits of its salted SHA-256."""
    ids = annotators.drop_nulls().unique().to_list()
    digests = [
        hashlib.sha256(f"{ANNOTATOR_SALT}\x00{one}".encode()).hexdigest()[:16] for one in ids
    ]
    return pl.col(column).replace_strict(ids, digests, return_dtype=pl.String)


if __name__ == "__main__":
    main()
