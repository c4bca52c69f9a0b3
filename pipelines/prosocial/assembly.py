"""Assembly: drafts, responses and votes of a partition become the turns of its dialogues.

Each key ends as exactly one of three things: *complete* (every turn has both its texts and three
votes), *waiting* (something may still arrive) or *dead* (a call failed for good). A turn's context
is the crowd's edit, else the draft; turn 0's response is the crowd's, else the drafted question;
its rules-of-thumb are its own, else those of turn 1, which answer the same speaker. A dialogue has
as many turns as drafting gave it contexts.
"""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from pipelines.prosocial import schema
from pipelines.prosocial.labels import label_of
from pipelines.prosocial.waiting import lacking_of, waiting_dialogues
from transforms.frames import Schema, concat, polars_schema
from transforms.ledger import COUNTS
from transforms.llm.calls import CallClass

CONTEXT = "context"
RESPONSE = "response"
DRAFTED = "drafted"
CROWD = "crowd"
MODEL_ANNOTATOR = "model as annotator"

#: One row per utterance of a complete dialogue: what the provenance configuration publishes.
UTTERANCES: Schema = {
    "key": pl.String,
    "turn": pl.Int32,
    "field": pl.String,
    "author": pl.String,  # seed | model | crowd | model as annotator: the last hand
    "annotator": pl.String,  # not hashed yet; null for seed and model drafts
    "prompt": pl.String,  # of the draft, else of the model as annotator
    "request": pl.String,
    "model": pl.String,
    "raw_text": pl.String,  # as drafted; null where nobody drafted it
    "text": pl.String,
    "edited": pl.Boolean,
}

#: One row per vote of a complete dialogue, in the order in which its turn lists them.
VOTES: Schema = {
    "key": pl.String,
    "turn": pl.Int32,
    "annotator": pl.String,  # not hashed yet
    "author": pl.String,
    "vote": pl.String,
    "reason": pl.String,
    "prompt": pl.String,
    "request": pl.String,
    "model": pl.String,
}

_REJECTED = polars_schema(schema.REJECTED)
_DEAD = polars_schema(schema.DEAD)
_TURN = ["key", "turn"]
_TRANSIENT = [each.value for each in CallClass if each.transient]


@dataclass(frozen=True)
class Assembly:
    """What a partition's dialogues came to.

    Attributes:
        turns: complete dialogues, schema ``TURNS``, sorted by key and turn.
        utterances: their utterances, schema ``UTTERANCES``, sorted likewise, context first.
        votes: their votes, schema ``VOTES``.
        dead: schema ``DEAD``; ``input_rows`` is 0 where only the third row was lost.
        waiting: schema ``WAITING``, one row per key.
        rejected: crowd rows on turns after a complete dialogue's end (rule ``turn_after_end``).
        counts: stage ``assembly``, in seeds, out complete, waiting and dead.
    """

    turns: pl.DataFrame
    utterances: pl.DataFrame
    votes: pl.DataFrame
    dead: pl.DataFrame
    waiting: pl.DataFrame
    rejected: pl.DataFrame
    counts: pl.DataFrame


def assemble(
    seeds: pl.DataFrame,
    drafts: pl.DataFrame,
    responses: pl.DataFrame,
    annotations: pl.DataFrame,
    unfinished: pl.DataFrame,
) -> Assembly:
    """Assemble the dialogues of ``seeds``.

    Args:
        seeds: the seeds to account for, schema ``SEEDS``.
        drafts: schema ``DRAFTS``.
        responses: crowd and model responses, schema ``RESPONSES``, one per key and turn.
        annotations: crowd and model votes, schema ``ANNOTATIONS``, at most three per key and turn.
        unfinished: schema ``UNFINISHED``, at most one row per key.
    """
    votes = _in_order(annotations)
    grid = _grid(drafts, responses, votes)
    died = unfinished.filter(pl.col("outcome") == "dead").join(seeds, on="key")
    dead = _dead(died, drafts)
    dead_keys = dead.filter("ends_dialogue").select("key")
    lacking = lacking_of(seeds.join(dead_keys, on="key", how="anti"), grid, unfinished)
    complete = (
        seeds.select("key", "split", "source", "etc", "input_rows")
        .join(dead_keys, on="key", how="anti")
        .join(lacking, on="key", how="anti")
    )
    turns = _turns(complete, grid)
    kept = grid.join(turns.select("key").unique(), on="key", how="semi")
    waiting = waiting_dialogues(lacking, seeds, grid, drafts, responses)
    return Assembly(
        turns=turns,
        utterances=_utterances(kept),
        votes=votes.join(kept, on=_TURN, how="semi").select(list(VOTES)),
        dead=dead,
        waiting=waiting,
        rejected=_after_end(complete, kept, responses, annotations),
        counts=_counts(seeds, complete, dead, waiting),
    )


def _in_order(annotations: pl.DataFrame) -> pl.DataFrame:
    # By annotator, so that one annotator's votes stand at one index along a dialogue, and the
    # order does not depend on how votes are spread over files.
    return annotations.sort("key", "turn", "author", "annotator", "file", "line")


def _grid(drafts: pl.DataFrame, responses: pl.DataFrame, votes: pl.DataFrame) -> pl.DataFrame:
    """Return one row per drafted turn with all that is known of it, sorted by key and turn."""
    by_turn = votes.group_by(_TURN, maintain_order=True).agg(
        pl.col("vote").alias("safety_annotations"),
        pl.col("reason").alias("safety_annotation_reasons"),
    )
    given = responses.select(
        *_TURN,
        pl.col(CONTEXT).alias("context_edit"),
        pl.col(RESPONSE).alias("response_given"),
        "rots",
        "annotator",
        "author",
        "prompt",
        "request",
        "model",
    )
    return (
        _drafted(drafts, CONTEXT)
        .join(_drafted(drafts, RESPONSE), on=_TURN, how="left")
        .join(given, on=_TURN, how="left")
        .join(by_turn, on=_TURN, how="left")
        .with_columns(
            pl.coalesce("context_edit", "context_draft").alias(CONTEXT),
            pl.coalesce("response_given", "response_draft").alias(RESPONSE),
            pl.when(pl.col("rots").list.len() > 0).then("rots").alias("rots"),
            pl.col("safety_annotations").list.len().fill_null(0).cast(pl.Int32).alias("have"),
        )
        .sort(_TURN)
    )


def _drafted(drafts: pl.DataFrame, field: str) -> pl.DataFrame:
    return drafts.filter(pl.col("field") == field).select(
        *_TURN,
        pl.col("text").alias(f"{field}_draft"),
        pl.col("author").alias(f"{field}_author"),
        pl.col("prompt").alias(f"{field}_prompt"),
        pl.col("request").alias(f"{field}_request"),
        pl.col("model").alias(f"{field}_model"),
    )


def _turns(complete: pl.DataFrame, grid: pl.DataFrame) -> pl.DataFrame:
    last = pl.col("turn") == pl.col("turn").max().over("key")
    own_words = pl.col(RESPONSE).eq_missing(pl.col("response_draft"))
    next_rots = pl.col("rots").shift(-1).over("key")
    return (
        grid.join(complete, on="key", how="inner", maintain_order="left")
        .with_columns(
            pl.when(pl.col("turn") == 0)
            .then(pl.coalesce("rots", next_rots))
            .otherwise("rots")
            .alias("rots"),
            pl.when(own_words)
            .then(pl.lit(DRAFTED))
            .otherwise(pl.col("author"))
            .alias("response_author"),
            label_of(pl.col("safety_annotations")).alias("safety_label"),
            last.alias("episode_done"),
        )
        .select(list(schema.TURNS))
    )


def _utterances(kept: pl.DataFrame) -> pl.DataFrame:
    """Return who wrote what; ``kept`` are the grid's rows of the complete dialogues."""
    last_hand = (
        pl.when(pl.col("author") == CROWD).then(pl.lit(CROWD)).otherwise(pl.lit(MODEL_ANNOTATOR))
    )
    frames = []
    for field in (CONTEXT, RESPONSE):
        drafted = pl.col(f"{field}_draft").is_not_null()
        edited = drafted & (pl.col(field) != pl.col(f"{field}_draft"))
        worked = edited | ~drafted
        frames.append(
            kept.select(
                *_TURN,
                pl.lit(field).alias("field"),
                pl.when(worked).then(last_hand).otherwise(f"{field}_author").alias("author"),
                pl.when(worked).then("annotator").alias("annotator"),
                pl.when(drafted).then(f"{field}_prompt").otherwise("prompt").alias("prompt"),
                pl.when(drafted).then(f"{field}_request").otherwise("request").alias("request"),
                pl.when(drafted).then(f"{field}_model").otherwise("model").alias("model"),
                pl.col(f"{field}_draft").alias("raw_text"),
                pl.col(field).alias("text"),
                edited.alias("edited"),
            )
        )
    return concat(frames, UTTERANCES).sort("key", "turn", "field")


def _dead(died: pl.DataFrame, drafts: pl.DataFrame) -> pl.DataFrame:
    # A dialogue that was cut keeps the drafts of its first two turns; a dead one has none.
    cut = pl.col("key").is_in(drafts["key"].unique().implode())
    return (
        died.with_columns(
            pl.col("request").alias("request_hash"),
            (~cut).alias("ends_dialogue"),
            pl.when(cut).then(0).otherwise("input_rows").cast(pl.Int64).alias("input_rows"),
            # An unusable answer is cached: how it once came must not change what a run publishes.
            pl.when(pl.col("error_class").is_in(_TRANSIENT)).then("attempts").alias("attempts"),
        )
        .select(list(_DEAD))
        .sort("key")
    )


def _after_end(
    complete: pl.DataFrame, kept: pl.DataFrame, responses: pl.DataFrame, annotations: pl.DataFrame
) -> pl.DataFrame:
    """Reject the crowd's rows on turns that complete dialogues do not have."""
    frames = []
    for unit, rows, text in (
        ("response", responses, RESPONSE),
        ("annotation", annotations, "reason"),
    ):
        beyond = (
            rows.join(kept, on=_TURN, how="anti")  # hardly any row is left
            .filter(pl.col("author") == CROWD)
            .join(complete, on="key")
        )
        frames.append(
            beyond.select(
                pl.lit(unit).alias("unit"),
                pl.lit("turn_after_end").alias("rule"),
                pl.col("turn").cast(pl.String).alias("value"),
                pl.lit("rejected").alias("outcome"),
                *_TURN,
                pl.lit("turn").alias("field"),
                "source",
                "split",
                "file",
                "line",
                pl.col(text).alias("text"),
                pl.lit(0, dtype=pl.Int64).alias("input_rows"),
            )
        )
    return concat(frames, _REJECTED).sort("file", "line", "unit")


def _counts(
    seeds: pl.DataFrame, complete: pl.DataFrame, dead: pl.DataFrame, waiting: pl.DataFrame
) -> pl.DataFrame:
    ended = dead.filter("ends_dialogue").group_by(reason="error_class").len("n")
    awaited = waiting.group_by(reason="waits_for").len("n")
    rows = [("in", "", "", seeds.height), ("out", "complete", "", complete.height)]
    rows += [("out", "dead", reason, n) for reason, n in ended.sort("reason").rows()]
    rows += [("out", "waiting", reason, n) for reason, n in awaited.sort("reason").rows()]
    return pl.DataFrame(
        [("assembly", *row) for row in rows if row[-1]], schema=dict(COUNTS), orient="row"
    )
