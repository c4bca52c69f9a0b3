"""Drafting a partition: from chosen examples to outputs with analyses, by both channels.

Everything between the frames is tuples and lists: on a warm cache an example costs microseconds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import polars as pl

from pipelines.metricinstruct import verification
from pipelines.metricinstruct.analysis import TWO_STEP, VARIANTS, analyse
from pipelines.metricinstruct.corruption import CorruptionSettings, synthesise
from pipelines.metricinstruct.drafts import Draft, draft_frames
from pipelines.metricinstruct.examples import CORRUPTED, Item, items_of
from pipelines.metricinstruct.lengths import Lengths
from pipelines.metricinstruct.schema import REAL
from pipelines.metricinstruct.sources.source import output_id
from pipelines.metricinstruct.steps import CallFailed, Steps
from pipelines.metricinstruct.task_prompts import TaskPrompts
from transforms.errors import OptionError
from transforms.llm.calls import Caller

OFF, RECORD, DROP = "off", "record", "drop"
VERIFICATIONS = (OFF, RECORD, DROP)


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
        id_ = output_id(item.key, item.input_context, made.hypothesis)
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
        return draft_frames(frames["chosen"], results)
