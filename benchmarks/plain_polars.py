"""The work of ``remint prosocial`` as a plain Polars script: what the pipeline is measured beside.

    python benchmarks/plain_polars.py INPUTS BASE_URL OUTPUT

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
from glob import glob
from pathlib import Path

import polars as pl

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from pipelines.prosocial import schema
from pipelines.prosocial.filter_settings import load_filters
from pipelines.prosocial.filters import prosocial_filters, tables
from transforms.filters import apply
from transforms.keys import content_key, partition_expression
from transforms.llm.prompts import Prompt, load_prompts
from transforms.llm.quoting import quote
from transforms.llm.request import RequestForm
from transforms.llm.settings import EngineSettings

MODEL = "fake"
PARTITIONS = 16
ANNOTATOR_SALT = "remint"
SPLITS = {"train": "train", "dev": "validation", "test": "test"}
TURN = ["key", "turn"]
#: Stands for a text in a template: a character that quoting leaves alone.
MARK = "\ue000"
_REPLY = pl.Struct(
    {
        "choices": pl.List(
            pl.Struct({"message": pl.Struct({"content": pl.String}), "finish_reason": pl.String})
        )
    }
)


def main() -> None:
    """Make the dataset."""
    inputs, base_url, output = Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3])
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
    turns = with_ids(turns)
    write(output, "data", turns, list(schema.RELEASED.names))
    write(output, "provenance", provenance(grid, turns, prompts), list(schema.PROVENANCE.names))
    write(
        output, "annotations", annotations(votes, turns), list(schema.PUBLISHED_ANNOTATIONS.names)
    )
    rejected = pl.concat([refused, by_filter, by_duplicate]).sort(schema.REJECTED.names)
    rejected = rejected.with_columns(
        partition_expression(PARTITIONS), pl.lit("rejected").alias("published_split")
    )
    write(output, "rejected", rejected, list(schema.REJECTED.names), split="published_split")


def read_seeds(path: Path) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the selected seeds, one row per key, and the rejects of the others."""
    rows = pl.read_csv(
        path,
        separator="\t",
        infer_schema=False,
        columns=[
            "split", "rot-agree", "rot-char-targeting", "rot-bad", "action-pressure", "situation",
            "situation-short-id",
        ],
    ).with_row_index("line", 2)  # fmt: skip
    texts = rows["situation"].unique()
    keys = pl.DataFrame({"situation": texts, "key": [content_key(text) for text in texts]})
    pressure = pl.col("action-pressure").cast(pl.Float64, strict=False)
    rule = (
        pl.when(~pl.col("split").is_in(list(SPLITS)))
        .then(pl.lit("split"))
        .when(pl.col("rot-bad").cast(pl.Float64, strict=False) != 0)
        .then(pl.lit("rot_bad"))
        .when(pl.col("rot-char-targeting").str.strip_chars() != "char-0")
        .then(pl.lit("rot_char_targeting"))
        .when(~((pressure < 0) | (pressure == 2)).fill_null(value=False))
        .then(pl.lit("action_pressure"))
    )
    priority = pl.col("split").replace_strict(
        list(schema.SPLIT_PRIORITY), list(range(3)), return_dtype=pl.Int8
    )
    copies = (
        rows.with_columns(
            pl.col("situation").str.strip_chars(),
            pl.col("split").replace(SPLITS),
            rule.alias("rule"),
            pl.lit(str(path)).alias("file"),
        )
        .join(keys, on="situation")
        .sort(pl.col("rot-agree").cast(pl.Float64, strict=False), -pl.col("line").cast(pl.Int64))
        .reverse()
        .group_by("key", "split", maintain_order=True)
        .agg(
            pl.col("situation", "file", "line").first(),
            pl.col("situation-short-id").first().alias("etc"),
            pl.col("rule").first(),
            pl.col("action-pressure").first().alias("value"),
            pl.len().cast(pl.Int64).alias("input_rows"),
            pl.col("rule").is_null().any().alias("qualifies"),
        )
        .with_columns(pl.lit(schema.SOCIAL_CHEMISTRY).alias("source"))
    )
    seeds = copies.filter("qualifies").sort("key", priority).unique("key", keep="first")
    refused = copies.filter(~pl.col("qualifies"))
    return seeds, rejects(refused, "seed", "rejected", pl.col("situation"), field="situation")


def read_responses(pattern: str) -> pl.DataFrame:
    """Return the first response of each turn, texts stripped."""
    rows = read_lines(
        pattern,
        {
            "key": pl.String, "turn": pl.Int32, "annotator": pl.String, "context": pl.String,
            "response": pl.String, "rots": pl.List(pl.String), "episode_done": pl.Boolean,
        },
    )  # fmt: skip
    stripped = [pl.col(name).str.strip_chars() for name in ("context", "response")]
    rots = pl.col("rots").list.eval(pl.element().str.strip_chars())
    return (
        rows.filter(pl.col("turn").is_between(0, 2))
        .with_columns(
            *(pl.when(text != "").then(text).name.keep() for text in stripped),
            rots.list.eval(pl.element().filter(pl.element() != "")).list.unique(
                maintain_order=True
            ),
        )
        .unique(TURN, keep="first", maintain_order=True)
    )


def read_votes(pattern: str) -> pl.DataFrame:
    """Return the first three votes of each turn by different annotators, in their order."""
    rows = read_lines(
        pattern,
        {
            "key": pl.String, "turn": pl.Int32, "annotator": pl.String, "vote": pl.String,
            "reason": pl.String,
        },
    )  # fmt: skip
    label = pl.col("vote").str.to_lowercase().str.replace_all(r"[\s_\-]+", " ").str.strip_chars()
    return (
        rows.with_columns(label.alias("vote"), pl.col("reason").str.strip_chars())
        .filter(pl.col("turn").is_between(0, 2) & pl.col("vote").is_in(schema.VOTES))
        .unique([*TURN, "annotator"], keep="first", maintain_order=True)
        .filter(pl.int_range(pl.len()).over(TURN) < schema.VOTES_PER_TURN)
        .sort(*TURN, "annotator")
    )


def read_lines(pattern: str, columns: Mapping[str, pl.DataType]) -> pl.DataFrame:
    """Return the objects of the files of ``pattern``, one file after the other."""
    return pl.concat([pl.read_ndjson(path, schema=columns) for path in sorted(glob(pattern))])


def read_answers(pattern: str) -> pl.DataFrame:
    """Return request and text of every cached answer that is whole."""
    columns = {"key": pl.String, "status": pl.Int64, "body": pl.String}
    choice = pl.col("body").str.json_decode(_REPLY).struct.field("choices").list.first()
    content = choice.struct.field("message").struct.field("content")
    whole = (pl.col("status") == 200) & (choice.struct.field("finish_reason") == "stop")
    answer = content.str.json_decode(pl.Struct({"text": pl.String})).struct.field("text")
    return (
        read_lines(pattern, columns)
        .filter(whole)
        .unique("key", keep="first")
        .select(pl.col("key").alias("request"), answer.str.strip_chars().alias("draft"))
    )


def replay(
    seeds: pl.DataFrame,
    responses: pl.DataFrame,
    answers: pl.DataFrame,
    prompts: Mapping[str, Prompt],
    base_url: str,
) -> pl.DataFrame:
    """Return what the model drafted, one row per turn, asking the answers level by level.

    A request's key depends on the dialogue so far, whose utterances the crowd may have edited.
    """
    settings = EngineSettings(base_url, MODEL, cache="")

    def ask(told: pl.DataFrame, name: str, variable: str, shown: list[str]) -> pl.DataFrame:
        """Return ``told`` with the answer to a prompt as ``draft``, and its ``request``."""
        prompt = prompts[name]
        marks = [MARK] * len(shown)
        template = prompt.question({variable: marks if variable == "utterances" else MARK})
        first, *others = template.split(MARK)
        parts = [pl.lit(first)]
        for column, text in zip(shown, others, strict=True):
            parts += [pl.col(column).map_batches(quoted, return_dtype=pl.String), pl.lit(text)]
        form = RequestForm(settings, prompt)
        questions = told.select(pl.concat_str(parts)).to_series().to_list()
        requests = [form.key(json.dumps(text).encode(), 0) for text in questions]
        answered = told.with_columns(pl.Series("request", requests)).join(
            answers, on="request", how="left", maintain_order="left"
        )
        if answered["draft"].null_count():
            raise RuntimeError(f"the cache lacks answers to {name}")
        return answered

    def crowd(told: pl.DataFrame, turn: int) -> pl.DataFrame:
        """Return ``told`` with what the crowd's response to a turn says."""
        own = responses.filter(pl.col("turn") == turn).drop("turn")
        return told.join(own, on="key", how="left", maintain_order="left")

    def turn_of(answered: pl.DataFrame, turn: int, prompt: str, *more: pl.Expr) -> pl.DataFrame:
        """Return a level's answers as the rows of a turn, context drafted by it."""
        return answered.select(
            "key",
            pl.lit(turn, dtype=pl.Int32).alias("turn"),
            pl.col("draft").alias("context_draft"),
            pl.col("request").alias("context_request"),
            pl.lit(prompts[prompt].id).alias("context_prompt"),
            *more,
        )

    def said(turn: int) -> list[pl.Expr]:
        """Return a later turn's two utterances, after the crowd."""
        return [
            pl.coalesce("context", "draft").alias(f"said_{2 * turn}"),
            pl.col("response").alias(f"said_{2 * turn + 1}"),
        ]

    told = seeds.select("key", "situation")
    uttered = crowd(ask(told, "utterance", "situation", ["situation"]), 0)
    first = uttered.select(
        "key", pl.coalesce("context", "draft").alias("said_0"), pl.col("response").alias("edit")
    )
    asked = ask(first, "question", "utterance", ["said_0"])
    questions = asked.select(
        "key",
        pl.col("draft").alias("response_draft"),
        pl.col("request").alias("response_request"),
        pl.lit(prompts["question"].id).alias("response_prompt"),
    )
    told = asked.select("key", "said_0", pl.coalesce("edit", "draft").alias("said_1"))
    second = crowd(ask(told, "continuation", "utterances", ["said_0", "said_1"]), 1)
    told = second.filter(~pl.col("episode_done")).select("key", "said_0", "said_1", *said(1))
    third = ask(told, "continuation", "utterances", [f"said_{n}" for n in range(4)])
    return pl.concat(
        [
            turn_of(uttered, 0, "utterance").join(questions, on="key", how="left"),
            turn_of(second, 1, "continuation"),
            turn_of(third, 2, "continuation"),
        ],
        how="diagonal",
    )


def quoted(texts: pl.Series) -> pl.Series:
    """Return ``texts`` as prompts quote them."""
    return pl.Series([quote(text) for text in texts.to_list()], dtype=pl.String)


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


def rejects(
    rows: pl.DataFrame, unit: str, outcome: str, text: pl.Expr, field: str | None = None
) -> pl.DataFrame:
    """Return ``rows`` in the columns of the rejected ones."""
    here = {"unit": unit, "outcome": outcome}
    if field is not None:
        here["field"] = field
        rows = rows.with_columns(pl.lit(None).alias("turn"))
    return rows.with_columns(
        *(pl.lit(value).alias(name) for name, value in here.items()),
        text.alias("text"),
        pl.col("turn").cast(pl.Int32),
        pl.col("line", "input_rows").cast(pl.Int64),
    ).select(schema.REJECTED.names)


def with_ids(turns: pl.DataFrame) -> pl.DataFrame:
    """Return ``turns`` with ids that run on within a split, by partition and key."""
    place = pl.struct("partition", "key").rank("dense").over("split").cast(pl.Int64) - 1
    return (
        turns.with_columns(partition_expression(PARTITIONS))
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


def annotations(votes: pl.DataFrame, turns: pl.DataFrame) -> pl.DataFrame:
    """Return one row per vote of a published turn."""
    place = turns.select(*TURN, "split", "partition", "dialogue_id", "response_id")
    absent = pl.lit(None, dtype=pl.String)
    return place.join(votes, on=TURN, maintain_order="left_right").with_columns(
        hashed("annotator", votes["annotator"]),
        pl.lit("crowd").alias("author"),
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


def write(
    output: Path, directory: str, rows: pl.DataFrame, columns: list[str], split: str = "split"
) -> None:
    """Write ``rows``, sorted already, as one file per split and partition."""
    (output / directory).mkdir(parents=True)
    parts = rows.partition_by(split, "partition", as_dict=True, maintain_order=True)
    for (name, number), part in parts.items():
        part.select(columns).write_parquet(
            output / directory / f"{name}-{number:05d}-of-{PARTITIONS:05d}.parquet",
            compression="zstd",
            compression_level=3,
            row_group_size=20_000,
        )


if __name__ == "__main__":
    main()
