"""One dialogue made by the real embedded model, with the real prompts and the real engine."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from pipelines.prosocial import schema
from pipelines.prosocial.dialogue import DraftSettings
from pipelines.prosocial.drafting import DraftDialogues
from tests.embedded import finished_by_the_model
from transforms.keys import content_key
from transforms.llm.prompts import load_prompts

PROMPT_FILES = Path(__file__).parents[3] / "pipelines" / "prosocial" / "prompts"
SITUATION = "taking the last slice of pizza without asking my roommates"


@pytest.mark.model
@pytest.mark.timeout(900)
def test_the_model_makes_a_whole_dialogue(tmp_path: Path) -> None:
    seed = {
        "key": content_key(SITUATION),
        "source": schema.SOCIAL_CHEMISTRY,
        "situation": SITUATION,
        "rots": ["It's rude to take the last piece without asking.", "You should share food."],
    }
    done = {"key": seed["key"], "turn": 1, "response": "They may have been hungry, too. Asking "}
    done["response"] += "first is kind."
    frames = {
        "seeds": pl.DataFrame([seed], schema=schema.SEEDS),
        "responses": pl.DataFrame([{**done, "episode_done": False}], schema=schema.RESPONSES),
        "annotations": pl.DataFrame(schema=schema.ANNOTATIONS),
    }
    prompts = load_prompts(PROMPT_FILES)
    made = finished_by_the_model(
        DraftDialogues(prompts, DraftSettings(model_as_crowd=True)),
        frames,
        tmp_path / "cache",
    )
    assert made["unfinished"].height == 0
    assert made["drafts"].select("turn", "field").rows() == [
        (0, "context"),
        (0, "response"),
        (1, "context"),
        (2, "context"),
    ]
    assert made["drafts"]["text"].str.len_chars().min() >= 10
    assert made["responses"]["turn"].to_list() == [2]
    assert made["responses"]["response"].str.len_chars().min() > 30
    assert made["annotations"].group_by("turn").len().sort("turn").rows() == [
        (0, 3),
        (1, 3),
        (2, 3),
    ]
    assert made["annotations"]["vote"].is_in(schema.VOTES).all()
    assert made["annotations"].select("turn", "annotator").is_unique().all()
