"""Drafts: how the work on each example ended, and the frames that a partition's drafts make."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from pipelines.metricinstruct.errors.answers import ANALYSES, to_columns
from pipelines.metricinstruct.examples import Item, Made
from pipelines.metricinstruct.schema import REAL, REJECTED
from pipelines.metricinstruct.verification import Verdict
from transforms.frames import Schema, from_rows, polars_schema

#: One row per example that got an output and an analysis. ``id`` is of key, input and output
#: and unique; input and output are as the model saw them, perhaps cut.
ANALYSED: Schema = {
    **ANALYSES,
    "example_id": pl.String,  # ``CHOSEN``'s id: with the channel it leads back to the example
    "instruction": pl.String,
    "kind": pl.String,  # real | corrupted | reference | paraphrase | free_form
    "form": pl.String,  # structured | labelled | edits, null where no answer gave the errors
    "aspects_asked": pl.List(pl.String),  # null where none were asked for
    "truncated": pl.List(pl.String),  # names of texts that were cut, see ``Lengths``
    "analysis_text": pl.String,  # the free text of the first of two steps
    "own_answer": pl.String,  # what the model answered itself before it judged
    "prompts": pl.List(pl.String),  # ids, in the order of the calls
    "requests": pl.List(pl.String),  # hashes of their requests
    "models": pl.List(pl.String),  # that answered them
}

#: One row per check of an analysis by the verification, see there.
VERDICTS: Schema = {
    "id": pl.String,  # of the row, as in ``ANALYSED``
    "key": pl.String,
    "check": pl.String,  # fix | analysis
    "error": pl.Int32,  # number of the error, from 1; null for the analysis
    "outcome": pl.String,  # better | worse | same | no_fix, yes | no
    "swapped": pl.Boolean,  # the fixed output stood first
    "reason": pl.String,
    "prompt": pl.String,
    "request": pl.String,
    "model": pl.String,
}

#: One row per example that a call without a usable answer ended.
UNFINISHED: Schema = {
    "id": pl.String,  # ``CHOSEN``'s id
    "key": pl.String,
    "channel": pl.String,
    "task": pl.String,
    "source": pl.String,
    "step": pl.String,  # id of the prompt
    "error_class": pl.String,  # a CallClass value
    "transient": pl.Boolean,  # another run may do better
    "detail": pl.String,
    "request": pl.String,
    "attempts": pl.Int32,
}


@dataclass(frozen=True, slots=True)
class Draft:
    """How one example ended: made, rejected or dead.

    Attributes:
        item: the example.
        made: its output and analysis.
        id: of key, input and output; None where there is no output.
        verdicts: of the verification.
        steps: ids of the prompts answered, hashes of their requests, and the models.
        rejected: the rule that rejects it, and the value that breaks it.
        unfinished: what stands in ``UNFINISHED`` behind the example's own columns.
    """

    item: Item
    made: Made | None = None
    id: str | None = None
    verdicts: Sequence[Verdict] = ()
    steps: tuple[list[str], list[str], list[str]] = ([], [], [])
    rejected: tuple[str, str | None] | None = None
    unfinished: tuple[Any, ...] | None = None


def draft_frames(chosen: pl.DataFrame, results: Sequence[Draft]) -> dict[str, pl.DataFrame]:
    """Return the frames "analyses", "verdicts", "unfinished" and "rejected" of a partition.

    Each example is one row of "analyses", "unfinished" or "rejected", in the examples' order;
    verdicts are those of the analyses.

    Args:
        chosen: the examples, schema ``CHOSEN``.
        results: how each of them ended, in their order.
    """
    duplicates = _duplicates(results)
    kept, rejected = [], []
    for index, draft in enumerate(results):
        rule = draft.rejected or duplicates.get(index)
        if rule is not None:
            rejected.append((index, rule, draft))
        elif draft.made is not None:
            kept.append(draft)
    return {
        "analyses": _analyses(kept),
        "verdicts": from_rows(
            (
                (draft.id, draft.item.key, *verdict)
                for draft in kept  # another draft of the same id may have been rejected
                for verdict in draft.verdicts
            ),
            VERDICTS,
        ),
        "unfinished": from_rows(
            (
                (*draft.item[: len(UNFINISHED) - len(draft.unfinished)], *draft.unfinished)
                for draft in results
                if draft.unfinished is not None
            ),
            UNFINISHED,
        ),
        "rejected": _rejected(chosen, rejected),
    }


def _duplicates(results: Sequence[Draft]) -> dict[int, tuple[str, str | None]]:
    """Return the rule that rejects each result whose input and output another one has, too.

    A system's output stays before a made one, else the first stays.
    """
    first: dict[str | None, int] = {}
    found: dict[int, tuple[str, str | None]] = {}
    is_made = [draft.item.channel != REAL for draft in results]
    for index in sorted(range(len(results)), key=is_made.__getitem__):
        draft = results[index]
        if draft.made is None or draft.rejected is not None:
            continue
        if first.setdefault(draft.id, index) != index:
            found[index] = ("duplicate_id", draft.id)
    return found


def _analyses(drafts: Sequence[Draft]) -> pl.DataFrame:
    rows = from_rows(
        (_row(draft, draft.made) for draft in drafts if draft.made is not None), _OWN_COLUMNS
    )
    parsed = to_columns([draft.made.analysis for draft in drafts if draft.made is not None])
    return pl.concat([rows, parsed], how="horizontal").select(list(ANALYSED))


_PARSED = ("stated_total", "faults", "errors")
_OWN_COLUMNS: Schema = {name: kind for name, kind in ANALYSED.items() if name not in _PARSED}


def _row(draft: Draft, made: Made) -> tuple[Any, ...]:
    """Return a row of ``_OWN_COLUMNS``."""
    item, asked = draft.item, made.asked
    missing: list[str] = []
    unasked: list[str] = []
    if asked is not None:
        came = dict.fromkeys(error.aspect for error in made.analysis.errors)
        missing = [aspect for aspect in asked if aspect not in came]
        unasked = [aspect for aspect in came if aspect not in asked]
    return (
        *(draft.id, item.key, item.task, item.channel, item.source),
        *(item.input_context, made.hypothesis, made.aspects, missing, unasked),
        *(item.id, item.instruction, made.kind, made.form, asked, item.truncated),
        *(made.text, made.own_answer, *draft.steps),
    )


def _rejected(
    chosen: pl.DataFrame, rejected: Sequence[tuple[int, tuple[str, str | None], Draft]]
) -> pl.DataFrame:
    """Return ``REJECTED`` rows of the examples at the given places of ``chosen``."""
    rows = chosen[[index for index, _, _ in rejected]]
    found = pl.DataFrame(
        {
            "rule": [rule for _, (rule, _), _ in rejected],
            "value": [value for _, (_, value), _ in rejected],
            "text": [
                draft.made.hypothesis if draft.made else draft.item.hypothesis
                for _, _, draft in rejected
            ],
        },
        schema={"rule": pl.String, "value": pl.String, "text": pl.String},
    )
    is_duplicate = pl.col("rule") == "duplicate_id"
    columns = {
        "unit": pl.lit("analysis"),
        "outcome": pl.when(is_duplicate).then(pl.lit("duplicate")).otherwise(pl.lit("rejected")),
        "field": pl.lit(None),
    }
    return pl.concat([rows, found], how="horizontal").select(
        columns.get(name, pl.col(name)).cast(kind).alias(name)
        for name, kind in polars_schema(REJECTED).items()
    )
