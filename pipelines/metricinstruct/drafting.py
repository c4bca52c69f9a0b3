"""Drafting a partition: from chosen examples to outputs with analyses, by both channels.

Everything between the frames is tuples and lists: on a warm cache an example costs microseconds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from pipelines.metricinstruct import verification
from pipelines.metricinstruct.analysis import TWO_STEP, VARIANTS, analyse
from pipelines.metricinstruct.corruption import CorruptionSettings, synthesise
from pipelines.metricinstruct.errors.answers import ANALYSES, to_columns
from pipelines.metricinstruct.examples import CORRUPTED, Item, Made, items_of
from pipelines.metricinstruct.lengths import Lengths
from pipelines.metricinstruct.schema import REAL, REJECTED
from pipelines.metricinstruct.sources.source import output_id
from pipelines.metricinstruct.steps import CallFailed, Steps
from pipelines.metricinstruct.task_prompts import TaskPrompts
from pipelines.metricinstruct.verification import Verdict
from transforms.errors import OptionError
from transforms.frames import Schema, from_rows, polars_schema
from transforms.llm.calls import Caller

OFF, RECORD, DROP = "off", "record", "drop"
VERIFICATIONS = (OFF, RECORD, DROP)

#: One row per example that got an output and an analysis. ``id`` is of input and output and is
#: unique in a partition; input and output are as the model saw them, perhaps cut.
ANALYSED: Schema = {
    **ANALYSES,
    "example_id": pl.String,  # ``CHOSEN``'s id: with the channel it leads back to the example
    "instruction": pl.String,
    "kind": pl.String,  # real | corrupted | reference | paraphrase | free_form
    "form": pl.String,  # structured | labelled | edits, null where no answer gave the errors
    "aspects_asked": pl.List(pl.String),  # null where none were asked for
    "aspects_missing": pl.List(pl.String),  # asked for, and no error has them
    "aspects_unasked": pl.List(pl.String),  # that errors have, though others were asked for
    "truncated": pl.List(pl.String),  # names of texts that were cut, see ``Lengths``
    "analysis_text": pl.String,  # the free text of the first of two steps
    "own_answer": pl.String,  # what the model answered itself before it judged
    "prompts": pl.List(pl.String),  # ids, in the order of the calls
    "requests": pl.List(pl.String),  # hashes of their requests
    "models": pl.List(pl.String),  # that answered them
}

#: One row per check of the verification, see there.
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


@dataclass(frozen=True)
class DraftSettings:
    """How examples are worked on.

    Attributes:
        analysis: of the real-world channel, one of ``analysis.VARIANTS``. Small models do best
            with own_answer_first.
        corruption: of the synthetic channel.
        verification: off; record: verdicts are kept beside the rows; drop: a row with a fix that
            is not better, or with an analysis that is not confirmed, is rejected.
        lengths: at which texts are cut.

    Raises:
        OptionError: the variant or the verification is unknown.
    """

    analysis: str = TWO_STEP
    corruption: CorruptionSettings = field(default_factory=CorruptionSettings)
    verification: str = OFF
    lengths: Lengths = field(default_factory=Lengths)

    def __post_init__(self) -> None:
        for name, value, known in (
            ("analysis", self.analysis, VARIANTS),
            ("verification", self.verification, VERIFICATIONS),
        ):
            if value not in known:
                raise OptionError(f"there is no {name} {value}; known are {', '.join(known)}")


@dataclass(frozen=True, slots=True)
class Draft:
    """How one example ended: made, rejected or dead.

    Attributes:
        item: the example.
        made: its output and analysis.
        id: of input and output; None where there is no output.
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


@dataclass(frozen=True)
class DraftAnalyses:
    """The work of one partition, as the streaming DoFn of ``transforms.llm`` takes it.

    ``items`` reads the frame "chosen" (CHOSEN, both channels), ``work`` analyses an output or
    makes one, ``finish`` returns the frames "analyses" (ANALYSED), "verdicts" (VERDICTS),
    "unfinished" (UNFINISHED) and "rejected" (REJECTED). Each example is one row of "analyses",
    "unfinished" or "rejected".
    """

    prompts: TaskPrompts
    settings: DraftSettings

    def items(self, frames: Mapping[str, pl.DataFrame]) -> list[Item]:
        """Return the chosen examples in their order."""
        return items_of(frames["chosen"], self.settings.lengths)

    def key(self, item: Item) -> str:
        """Return the key of the example's input."""
        return item.key

    async def work(self, item: Item, call: Caller) -> Draft:
        """Work on one example; never raises for data."""
        if item.channel != REAL and not item.reference:
            return Draft(item, rejected=("no_reference", None))
        steps = Steps(call, self.prompts[item.task])
        try:
            return await self._draft(item, steps)
        except CallFailed as failure:
            answer = failure.answer
            error_class = answer.call_class
            row = (failure.prompt.id, error_class.value, error_class.transient)
            return Draft(item, unfinished=(*row, answer.detail, answer.request, answer.attempts))

    async def _draft(self, item: Item, steps: Steps) -> Draft:
        if item.channel == REAL:
            made = await analyse(item, steps, self.settings.analysis, self.settings.lengths)
        else:
            made = await synthesise(item, steps, self.settings.corruption)
        taken = (steps.prompts, steps.requests, steps.models)
        if made.hypothesis is None:
            return Draft(item, made, steps=taken, rejected=("no_output", None))
        id_ = output_id(item.instruction, item.input_context, made.hypothesis)
        if made.kind == CORRUPTED and made.hypothesis == (item.reference or "").strip():
            return Draft(item, made, id_, steps=taken, rejected=("unchanged_output", None))
        if self.settings.verification == OFF:
            return Draft(item, made, id_, steps=taken)
        verdicts = await verification.verify(item, made, steps)
        fault = verification.failed(verdicts) if self.settings.verification == DROP else None
        return Draft(item, made, id_, verdicts, taken, fault)

    def finish(
        self, frames: Mapping[str, pl.DataFrame], results: Sequence[Draft]
    ) -> dict[str, pl.DataFrame]:
        """Return the partition's frames, rows in the order of its examples."""
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
                    for draft in results
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
            "rejected": _rejected(frames["chosen"], rejected),
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
        *(item.input_context, made.hypothesis, made.aspects, item.id, item.instruction),
        *(made.kind, made.form, asked, missing, unasked, item.truncated),
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
