"""Drafting a partition: from its frames to dialogues, and from drafts back to frames.

Everything between the frames is tuples and lists: on a warm cache a dialogue costs microseconds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from pipelines.prosocial import schema
from pipelines.prosocial.dialogue import (
    CrowdResponse,
    CrowdSoFar,
    DialogueDraft,
    DraftSettings,
    Seed,
    draft,
)
from transforms.frames import from_rows
from transforms.llm.calls import Caller
from transforms.llm.prompts import Prompt

_NOTHING_YET = CrowdSoFar()


@dataclass(frozen=True)
class DraftDialogues:
    """The work of one partition, as the streaming DoFn of ``transforms.llm`` takes it.

    ``items`` reads the frames "seeds" (SEEDS), "responses" (RESPONSES: at most one row per key and
    turn) and "annotations" (ANNOTATIONS: an annotator's one vote each), ``work`` drafts one
    dialogue, ``finish`` returns the frames "drafts", "responses", "annotations" and "unfinished";
    its responses and annotations are the model-made ones alone.
    """

    prompts: Mapping[str, Prompt]
    settings: DraftSettings

    def items(self, frames: Mapping[str, pl.DataFrame]) -> list[tuple[Seed, CrowdSoFar]]:
        """Return each seed of the partition with what the crowd files hold for it."""
        crowd = crowd_by_key(frames["responses"], frames["annotations"])
        seeds = frames["seeds"]
        columns = (seeds[name].to_list() for name in ("key", "source", "situation", "rots"))
        return [
            (Seed(key, source, situation, tuple(rots or ())), crowd.get(key, _NOTHING_YET))
            for key, source, situation, rots in zip(*columns, strict=True)
        ]

    def key(self, item: tuple[Seed, CrowdSoFar]) -> str:
        """Return the seed's key."""
        return item[0].key

    async def work(self, item: tuple[Seed, CrowdSoFar], call: Caller) -> DialogueDraft:
        """Draft one dialogue."""
        seed, crowd = item
        return await draft(seed, crowd, call, self.prompts, self.settings)

    def finish(
        self, frames: Mapping[str, pl.DataFrame], results: Sequence[DialogueDraft]
    ) -> dict[str, pl.DataFrame]:
        """Return the partition's frames, rows in the order of its seeds."""
        del frames  # the crowd files' own rows are joined by the assembly
        return {
            "drafts": from_rows((row for one in results for row in one.drafts), schema.DRAFTS),
            "responses": from_rows(
                (row for one in results for row in one.responses), schema.RESPONSES
            ),
            "annotations": from_rows(
                (row for one in results for row in one.annotations), schema.ANNOTATIONS
            ),
            "unfinished": from_rows(
                (one.unfinished for one in results if one.unfinished is not None),
                schema.UNFINISHED,
            ),
        }


def crowd_by_key(responses: pl.DataFrame, annotations: pl.DataFrame) -> dict[str, CrowdSoFar]:
    """Return what crowd files hold, by key, from frames of RESPONSES and ANNOTATIONS."""
    by_key: dict[str, CrowdSoFar] = {}
    names = ("key", "turn", "context", "response", "episode_done")
    for key, turn, context, response, episode_done in zip(
        *(responses[name].to_list() for name in names), strict=True
    ):
        crowd = by_key.get(key)
        if crowd is None:
            crowd = by_key[key] = CrowdSoFar({}, {})
        crowd.responses[turn] = CrowdResponse(context, response, episode_done)
    counted = annotations.group_by("key", "turn").len()
    for key, turn, votes in zip(*(column.to_list() for column in counted), strict=True):
        crowd = by_key.get(key)
        if crowd is None:
            crowd = by_key[key] = CrowdSoFar({}, {})
        crowd.votes[turn] = votes
    return by_key
