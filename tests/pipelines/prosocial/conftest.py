"""Frames of dialogues for the tests of the stages after drafting."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import polars as pl
import pytest

from pipelines.prosocial import schema

CONTEXTS = (
    "I am going to read my sister's diary tonight.",
    "She reads my messages, so I guess it is only fair.",
    "Maybe, but I want to know what she says about me.",
)
RESPONSES = (
    "Why would you like to know what she writes about?",
    "Two wrongs don't make a right. Talking to her first would be kinder.",
    "Ask her openly then; she may tell you more than the diary does.",
)


def a_key(number: int) -> str:
    return f"{number:032x}"


@pytest.fixture(scope="session")
def key() -> Callable[[int], str]:
    """Return a function from a number to a key; keys sort like their numbers."""
    return a_key


@pytest.fixture(scope="session")
def make_turns() -> Callable[..., pl.DataFrame]:
    """Return a maker of one dialogue's turns; ``changes`` maps a turn to its changed columns."""

    def make(
        number: int = 1, rows: int = 3, changes: dict[int, dict[str, Any]] | None = None
    ) -> pl.DataFrame:
        turns = []
        for turn in range(rows):
            row = {
                "key": a_key(number),
                "turn": turn,
                "split": "train",
                "source": schema.SOCIAL_CHEMISTRY,
                "etc": "reddit/x",
                "context": CONTEXTS[turn],
                "response": RESPONSES[turn],
                "response_author": "drafted" if turn == 0 else "crowd",
                "rots": ["It's wrong to read someone's diary."],
                "safety_label": schema.CAUTION,
                "safety_annotations": [schema.VOTE_CAUTION] * 3,
                "safety_annotation_reasons": ["a", "b", "c"],
                "episode_done": turn == rows - 1,
                "input_rows": 2,
            }
            turns.append({**row, **(changes or {}).get(turn, {})})
        return pl.DataFrame(turns, schema=schema.TURNS)

    return make
