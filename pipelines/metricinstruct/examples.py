"""One chosen example on its way through the calls, and what they made of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import polars as pl

from pipelines.metricinstruct.errors.answers import Analysis
from pipelines.metricinstruct.lengths import Lengths
from pipelines.metricinstruct.task_prompts import lines
from transforms.tokens import cut

#: Kinds of outputs: a system's; a reference with errors worked in; a reference as it is; one in
#: other words; an answer that the model wrote with errors of aspects it named itself.
REAL_OUTPUT = "real"
CORRUPTED = "corrupted"
REFERENCE = "reference"
PARAPHRASE = "paraphrase"
FREE_FORM = "free_form"
KINDS = (REAL_OUTPUT, CORRUPTED, REFERENCE, PARAPHRASE, FREE_FORM)

STRUCTURED = "structured"
LABELLED = "labelled"
EDITS = "edits"


class Item(NamedTuple):
    """A chosen example as the model sees it.

    Fields are those of ``CHOSEN``, with the first reference alone, None where there is none;
    ``truncated`` names the texts that were cut.
    """

    id: str
    key: str
    channel: str
    task: str
    source: str
    instruction: str
    input_context: str
    reference: str | None
    hypothesis: str | None
    truncated: tuple[str, ...] = ()

    def variables(self) -> dict[str, Any]:
        """Return what the prompts may show of it."""
        return {
            "instruction": self.instruction,
            "input": lines(self.input_context),
            "reference": lines(self.reference),
            "output": lines(self.hypothesis),
            "cut": bool(self.truncated),
        }


@dataclass(frozen=True, slots=True)
class Made:
    """What a channel made of an item.

    Attributes:
        kind: one of ``KINDS``.
        hypothesis: the output that the analysis is about; None where the answer holds none.
        analysis: its errors, placed in it.
        aspects: those that an error may have.
        form: of the answer that gave the errors: structured, labelled or edits; None: no answer.
        asked: the aspects that errors were asked of; None where none were.
        text: the free-text analysis of the first of two steps.
        own_answer: what the model answered itself before it judged.
    """

    kind: str
    hypothesis: str | None
    analysis: Analysis
    aspects: tuple[str, ...]
    form: str | None = None
    asked: tuple[str, ...] | None = None
    text: str | None = None
    own_answer: str | None = None


def items_of(chosen: pl.DataFrame, lengths: Lengths) -> list[Item]:
    """Return the items of a frame of ``CHOSEN``, in its order, texts cut to ``lengths``."""
    names = (
        *("id", "key", "channel", "task", "source", "instruction", "input_context"),
        *("references", "hypothesis"),
    )
    columns = [chosen[name].to_list() for name in names]
    return [_item(row, lengths) for row in zip(*columns, strict=True)]


def _item(row: Sequence[Any], lengths: Lengths) -> Item:
    id_, key, channel, task, source, instruction, input_context, references, hypothesis = row
    truncated: list[str] = []

    def shown(name: str, text: str, tokens: int) -> str:
        seen = cut(text, tokens)
        if seen is not text:
            truncated.append(name)
        return seen

    return Item(
        id=id_,
        key=key,
        channel=channel,
        task=task,
        source=source,
        instruction=shown("instruction", instruction, lengths.of_input(task)),
        input_context=shown("input_context", input_context or "", lengths.of_input(task)),
        reference=shown("reference", references[0], lengths.reference) if references else None,
        hypothesis=shown("hypothesis", hypothesis, lengths.output) if hypothesis else None,
        truncated=tuple(truncated),
    )
