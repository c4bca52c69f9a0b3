"""What the plain Polars script reads: seeds, crowd files, and cached answers of the model."""

from __future__ import annotations

import json
from collections.abc import Mapping
from glob import glob
from pathlib import Path

import polars as pl

from benchmarks.replies import MODEL
from pipelines.prosocial import schema
from transforms.frames import Schema
from transforms.keys import content_key
from transforms.llm.prompts import Prompt
from transforms.llm.quoting import quote
from transforms.llm.request import RequestForm
from transforms.llm.settings import EngineSettings

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


def read_lines(pattern: str, columns: Schema) -> pl.DataFrame:
    """Return the objects of the files of ``pattern``, one file after the other."""
    return pl.concat([pl.read_ndjson(path, schema=dict(columns)) for path in sorted(glob(pattern))])


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
