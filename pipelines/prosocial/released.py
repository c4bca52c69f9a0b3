"""Released ProsocialDialog: its rows read from every form they go about in, and checked again.

Forms: JSON Lines of the eleven columns (the hub's files); one JSON object of columns (the viewer's
form); a list of dialogues, each a list of ``{"text", "labels": [response], ...}`` without ids (the
older tarball); DialogStudio's ``{"Prosocial--train--1": {"log": [...]}}``.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import polars as pl

from pipelines.prosocial import schema
from pipelines.prosocial.labels import label_of
from transforms.errors import InputError
from transforms.frames import polars_schema
from transforms.reading.files import open_bytes, reading

RELEASED = polars_schema(schema.RELEASED)
_DIALOGSTUDIO_SIDE = "original user side information"


def read_released(path: str | Path, split: str) -> pl.DataFrame:
    """Return the rows of a file of released data, in its order.

    Args:
        path: the file, compressed or not.
        split: the split it holds; no form names it in its rows.

    Returns:
        The eleven columns of ``schema.RELEASED`` and ``split``. Rules-of-thumb that say nothing
        (None, ``[]``, ``[""]``, ``[null]``) are null; a null ``etc`` stays null. Ids that the form
        lacks are counted from 0.

    Raises:
        InputError: the file is missing, or has none of the four forms.
    """
    name = str(path)
    with reading(name), open_bytes(name) as file:
        content = file.read()
    try:
        rows = list(_rows(content.decode("utf-8-sig")))
        if not rows:
            raise ValueError("no rows")
        frame = pl.DataFrame(rows, schema=dict(RELEASED), orient="row")
    except (
        *(ValueError, RecursionError, KeyError, TypeError, AttributeError),
        pl.exceptions.PolarsError,
    ) as error:
        raise InputError(
            f"{name}: not released ProsocialDialog ({type(error).__name__}); it has to be JSON "
            "Lines or columns of the eleven fields, nested dialogues, or DialogStudio's layout"
        ) from error
    said = pl.col("rots").list.eval(pl.element().filter(pl.element().str.strip_chars() != ""))
    return frame.with_columns(
        pl.when(said.list.len() > 0).then(said).alias("rots"), pl.lit(split).alias("split")
    )


def _rows(text: str) -> Iterator[tuple[Any, ...]]:
    try:
        data = json.loads(text)
    except json.JSONDecodeError:
        data = [json.loads(line) for line in text.split("\n") if line.strip()]
    if isinstance(data, Mapping):
        if "context" not in data:
            return _dialogstudio(data)
        if isinstance(data["context"], str):  # a single line of JSON Lines
            return _row_wise([data])
        return _row_wise(
            dict(zip(data, values, strict=True)) for values in zip(*data.values(), strict=True)
        )
    if data and isinstance(data[0], list):
        return _nested(data)
    return _row_wise(data)


def _row_wise(rows: Iterable[Mapping[str, Any]]) -> Iterator[tuple[Any, ...]]:
    for row in rows:
        yield tuple(row[name] for name in RELEASED)


def _nested(dialogues: Iterable[list[Mapping[str, Any]]]) -> Iterator[tuple[Any, ...]]:
    for dialogue_id, dialogue in enumerate(dialogues):
        for response_id, turn in enumerate(dialogue):
            ids = {"dialogue_id": dialogue_id, "response_id": response_id}
            texts = {"context": turn["text"], "response": turn["labels"][0]}
            row = {"etc": None, "rots": None, **turn, **texts, **ids}
            yield tuple(row[name] for name in RELEASED)


def _dialogstudio(dialogues: Mapping[str, Any]) -> Iterator[tuple[Any, ...]]:
    for dialogue in dialogues.values():
        for turn in dialogue["log"]:
            texts = {"context": turn["user utterance"], "response": turn["system response"]}
            row = {**turn[_DIALOGSTUDIO_SIDE], **texts}
            yield tuple(row[name] for name in RELEASED)


def turns_of(released: pl.DataFrame) -> pl.DataFrame:
    """Return released rows as turns (schema ``TURNS``), for the filters and the writer of shards.

    The seeds are not part of the release, so a dialogue's key is its split and id in hexadecimal
    digits: sorted by key, dialogues stand in the order of their ids. Responses of the first row are
    drafted questions, later ones a worker's, as the paper tells.
    """
    splits = pl.col("split").replace_strict(
        list(schema.SPLITS), [f"{index:08x}" for index in range(len(schema.SPLITS))]
    )
    digits = pl.Series(
        "digits", [f"{number:024x}" for number in released["dialogue_id"]], dtype=pl.String
    )
    return (
        released.with_columns(digits)
        .select(
            pl.concat_str(splits, "digits").alias("key"),
            pl.col("response_id").cast(pl.Int32).alias("turn"),
            "split",
            "source",
            "etc",
            "context",
            "response",
            pl.when(pl.col("response_id") == 0)
            .then(pl.lit("drafted"))
            .otherwise(pl.lit("crowd"))
            .alias("response_author"),
            "rots",
            "safety_label",
            "safety_annotations",
            "safety_annotation_reasons",
            "episode_done",
            pl.lit(1, dtype=pl.Int64).alias("input_rows"),
        )
        .sort("key", "turn")
    )


def revalidate(released: pl.DataFrame) -> pl.DataFrame:
    """Return what contradicts the facts of the release: ``dialogue_id``, ``response_id``, ``rule``.

    Rules: ``label`` (not what the votes make it), ``votes`` (not three known votes with three
    reasons), ``rots`` (none on a row that isn't casual), ``source`` (unknown, or several in a
    dialogue), ``response_id`` (not 0, 1, ... in a dialogue of two or three rows) and
    ``episode_done`` (not on the last row alone). Rows of several splits may be given at once.
    """
    dialogue = ["split", "dialogue_id"]
    label = label_of(pl.col("safety_annotations"))
    length = pl.len().over(dialogue)
    rules = {
        "label": pl.col("safety_label") != label,
        "votes": label.is_null()
        | (pl.col("safety_annotation_reasons").list.len() != schema.VOTES_PER_TURN),
        "rots": pl.col("rots").is_null() & (pl.col("safety_label") != schema.CASUAL),
        "source": ~pl.col("source").is_in(schema.SOURCES)
        | (pl.col("source").n_unique().over(dialogue) > 1),
        "response_id": ~length.is_between(schema.MIN_TURNS, schema.MAX_TURNS)
        | (pl.col("response_id") != pl.int_range(pl.len()).over(dialogue)),
        "episode_done": pl.col("episode_done")
        != (pl.col("response_id") == pl.col("response_id").max().over(dialogue)),
    }
    judged = released.sort(*dialogue, "response_id").with_columns(
        broken.fill_null(True).alias(f"broken_{rule}") for rule, broken in rules.items()
    )
    return pl.concat(
        [
            judged.filter(f"broken_{rule}").select(*dialogue, "response_id", rule=pl.lit(rule))
            for rule in rules
        ]
    )
