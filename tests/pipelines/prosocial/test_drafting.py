"""A partition's frames to dialogues and back."""

from __future__ import annotations

import asyncio
import pickle
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from pipelines.prosocial import schema
from pipelines.prosocial.dialogue import CrowdResponse, CrowdSoFar, DraftSettings, Seed
from pipelines.prosocial.drafting import DraftDialogues, crowd_by_key
from transforms.llm.calls import Answer, CallClass
from transforms.llm.prompts import Prompt, load_prompts

PROMPT_FILES = Path(__file__).parents[3] / "pipelines" / "prosocial" / "prompts"


@pytest.fixture(scope="module")
def prompts() -> dict[str, Prompt]:
    return load_prompts(PROMPT_FILES)


def seeds(*rows: dict[str, Any]) -> pl.DataFrame:
    return pl.DataFrame(list(rows), schema=schema.SEEDS)


def responses(*rows: dict[str, Any]) -> pl.DataFrame:
    return pl.DataFrame(list(rows), schema=schema.RESPONSES)


def annotations(*rows: dict[str, Any]) -> pl.DataFrame:
    return pl.DataFrame(list(rows), schema=schema.ANNOTATIONS)


class AnswerAll:
    """Answers every prompt alike."""

    async def __call__(self, prompt: Prompt, variables: object, *, sample: int = 0) -> Answer:
        texts = {"text": "I took it because I was hungry.", "rots": ["You should share."] * 5}
        texts |= {"numbers": [1], "new_rot": "", "response": "You could ask before you take it."}
        texts |= {"reason": "A took it without asking.", "vote": schema.VOTE_CAUTION}
        data = {name: texts[name] for name in prompt.schema["required"]}
        return Answer(CallClass.OK, f"{prompt.id}-{sample}", data, model="tiny")

    async def samples(
        self, prompt: Prompt, variables: object, samples: Sequence[int]
    ) -> list[Answer]:
        return [await self(prompt, variables, sample=sample) for sample in samples]


answer_all = AnswerAll()


def test_items_join_the_crowd_by_key(prompts: dict[str, Prompt], key: Callable[[int], str]) -> None:
    work = DraftDialogues(prompts, DraftSettings())
    frames = {
        "seeds": seeds(
            {"key": key(1), "source": "sbic", "situation": "a post", "rots": ["You should x."]},
            {"key": key(2), "source": "ethics_amt", "situation": "I ate it.", "rots": None},
        ),
        "responses": responses(
            {"key": key(1), "turn": 1, "response": "Hello there.", "rots": ["You should x."]},
            {"key": key(1), "turn": 0, "context": "edited", "episode_done": False},
        ),
        "annotations": annotations(
            {"key": key(1), "turn": 0, "annotator": "a", "vote": "casual"},
            {"key": key(1), "turn": 0, "annotator": "b", "vote": "casual"},
            {"key": key(2), "turn": 1, "annotator": "a", "vote": "casual"},
        ),
    }
    assert work.items(frames) == [
        (
            Seed(key(1), "sbic", "a post", ("You should x.",)),
            CrowdSoFar(
                {
                    0: CrowdResponse("edited", None, False),
                    1: CrowdResponse(None, "Hello there.", None),
                },
                {0: 2},
            ),
        ),
        (Seed(key(2), "ethics_amt", "I ate it."), CrowdSoFar({}, {1: 1})),
    ]


def test_finish_gives_frames_of_the_schemas(
    prompts: dict[str, Prompt], key: Callable[[int], str]
) -> None:
    work = DraftDialogues(prompts, DraftSettings(model_as_crowd=True))
    frames = {
        "seeds": seeds(
            {"key": key(1), "source": "sbic", "situation": "a post", "rots": ["You should x."]},
            {"key": key(2), "source": "ethics_amt", "situation": "I ate it.", "rots": []},
        ),
        "responses": responses(),
        "annotations": annotations(),
    }
    items = work.items(frames)
    results = [asyncio.run(work.work(item, answer_all)) for item in items]
    made = work.finish(frames, results)
    assert {name: dict(frame.schema) for name, frame in made.items()} == {
        "drafts": schema.DRAFTS,
        "responses": schema.RESPONSES,
        "annotations": schema.ANNOTATIONS,
        "unfinished": schema.UNFINISHED,
    }
    assert made["drafts"]["key"].unique(maintain_order=True).to_list() == [key(1), key(2)]
    turns = made["drafts"].filter(pl.col("field") == "context").height
    assert made["annotations"].height == 3 * turns
    assert made["unfinished"].height == 0


def test_nothing_in_gives_empty_frames(prompts: dict[str, Prompt]) -> None:
    work = DraftDialogues(prompts, DraftSettings())
    frames = {"seeds": seeds(), "responses": responses(), "annotations": annotations()}
    assert work.items(frames) == []
    assert {frame.height for frame in work.finish(frames, []).values()} == {0}


def test_work_is_picklable(prompts: dict[str, Prompt]) -> None:
    work = DraftDialogues(prompts, DraftSettings())
    assert pickle.loads(pickle.dumps(work)) == work


def test_crowd_without_rows_is_empty() -> None:
    assert crowd_by_key(responses(), annotations()) == {}
