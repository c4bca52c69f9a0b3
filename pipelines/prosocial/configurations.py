"""What a partition publishes: its internal frames as the rows of each configuration."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import polars as pl

from pipelines.prosocial import schema
from transforms.llm.prompts import Prompt
from transforms.partitions import Frames

#: Dialogues of one partition and split: ``(partition, split, dialogues)``.
DialogueCount = tuple[int, str, int]

#: The field of crowd files, and the column, that holds an annotator's id.
ANNOTATOR = "annotator"
CROWD_UNITS = ("response", "annotation")
_HASH_LENGTH = 16


@dataclass(frozen=True)
class Authorship:
    """What provenance says beside the rows.

    ``extra_bodies`` are what each model's endpoint is told beside a prompt's own sampling
    parameters (JSON, see ``EngineSettings``); ``annotator_salt`` is what annotators' ids are hashed
    with.
    """

    prompts: Mapping[str, Prompt]
    annotator_salt: str
    extra_bodies: Mapping[str, str]


def dialogue_counts(partition: int, turns: pl.DataFrame) -> list[DialogueCount]:
    """Return how many dialogues ``turns`` (schema ``TURNS``) has in each split."""
    counted = turns.filter(pl.col("turn") == 0).group_by("split").len().sort("split")
    return [(partition, split, n) for split, n in counted.iter_rows()]


def offsets_of(partition: int, counts: Iterable[DialogueCount]) -> dict[str, int]:
    """Return each split's first dialogue id in ``partition``: ids run on from one to the next."""
    offsets = dict.fromkeys(schema.SPLITS, 0)
    for other, split, n in counts:
        if other < partition:
            offsets[split] += n
    return offsets


def with_dialogue_ids(turns: pl.DataFrame, offsets: Mapping[str, int]) -> pl.DataFrame:
    """Return ``turns`` with ``dialogue_id``, sorted by it and by turn; keys decide the order."""
    rank = pl.col("key").rank("dense").over("split").cast(pl.Int64) - 1
    first = pl.col("split").replace_strict(dict(offsets), return_dtype=pl.Int64)
    return turns.with_columns((first + rank).alias("dialogue_id")).sort(
        "split", "dialogue_id", "turn"
    )


def configurations(turns: pl.DataFrame, frames: Frames, authorship: Authorship) -> Frames:
    """Return the rows of every configuration, those with splits still with their ``split``.

    Args:
        turns: schema ``TURNS`` and ``dialogue_id``.
        frames: ``utterances`` and ``votes`` of these turns, ``rejected``, ``dead``, ``waiting``.
        authorship: of model-made texts, and the salt of annotators' hashes.
    """
    place = turns.select(
        "key", "turn", "split", "dialogue_id", pl.col("turn").cast(pl.Int64).alias("response_id")
    )
    return {
        "default": turns.with_columns(pl.col("turn").cast(pl.Int64).alias("response_id")),
        "provenance": _provenance(frames["utterances"], place, authorship),
        "annotations": _annotations(frames["votes"], place, authorship),
        "rejected": _rejected(frames["rejected"], authorship.annotator_salt),
        "dead": frames["dead"].sort(list(schema.DEAD.names)),
        "waiting": frames["waiting"].sort("key", "turn"),
    }


def _provenance(
    utterances: pl.DataFrame, place: pl.DataFrame, authorship: Authorship
) -> pl.DataFrame:
    prompts = pl.DataFrame(
        [
            (prompt.id, model, prompt.hash, prompt.sampled_with(extra_body))
            for prompt in authorship.prompts.values()
            for model, extra_body in authorship.extra_bodies.items()
        ],
        schema=dict.fromkeys(("prompt", "model", "prompt_hash", "sampling"), pl.String),
        orient="row",
    )
    return (
        _placed(utterances, place)
        .join(prompts, on=["prompt", "model"], how="left", maintain_order="left")
        .join(
            _hashed(utterances, authorship.annotator_salt),
            on="annotator",
            how="left",
            maintain_order="left",
        )
        .with_columns(
            pl.col("hashed").alias("annotator"),
            pl.col("prompt").alias("prompt_id"),
            pl.col("request").alias("request_hash"),
        )
        .sort("split", "dialogue_id", "response_id", "field")
    )


def _annotations(votes: pl.DataFrame, place: pl.DataFrame, authorship: Authorship) -> pl.DataFrame:
    return (
        _placed(votes, place)
        .join(
            _hashed(votes, authorship.annotator_salt),
            on="annotator",
            how="left",
            maintain_order="left",
        )
        .with_columns(
            pl.col("hashed").alias("annotator"),
            pl.col("prompt").alias("prompt_id"),
            pl.col("request").alias("request_hash"),
        )
    )


def _rejected(rejected: pl.DataFrame, salt: str) -> pl.DataFrame:
    """Return what was dropped; where an annotator's id is the value, its hash."""
    is_id = (pl.col("field") == ANNOTATOR) & pl.col("unit").is_in(CROWD_UNITS)
    ids = rejected.filter(is_id).select(pl.col("value").alias(ANNOTATOR))
    return (
        rejected.join(_hashed(ids, salt), left_on="value", right_on=ANNOTATOR, how="left")
        .with_columns(pl.when(is_id).then("hashed").otherwise("value").alias("value"))
        .select(schema.REJECTED.names)
        .sort(schema.REJECTED.names)
    )


def _placed(rows: pl.DataFrame, place: pl.DataFrame) -> pl.DataFrame:
    """Return ``rows`` of published turns in the order of dialogues and turns, votes as listed."""
    return place.join(rows, on=["key", "turn"], how="inner", maintain_order="left_right")


def _hashed(rows: pl.DataFrame, salt: str) -> pl.DataFrame:
    """Return each annotator's hash: the first digits of SHA-256 over salt and id."""
    annotators = rows["annotator"].drop_nulls().unique().sort().to_list()
    return pl.DataFrame(
        {
            "annotator": annotators,
            "hashed": [
                hashlib.sha256(f"{salt}\x00{annotator}".encode()).hexdigest()[:_HASH_LENGTH]
                for annotator in annotators
            ],
        },
        schema={"annotator": pl.String, "hashed": pl.String},
    )
