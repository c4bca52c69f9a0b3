"""Both channels with the real embedded model, the real prompts and the real engine."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipelines.metricinstruct.corruption import CorruptionSettings
from pipelines.metricinstruct.drafting import DraftAnalyses, DraftSettings
from pipelines.metricinstruct.lengths import EMBEDDED_LENGTHS
from pipelines.metricinstruct.schema import ASPECTS, SYNTHETIC, TRANSLATION
from pipelines.metricinstruct.task_prompts import load_task_prompts
from tests.embedded import finished_by_the_model
from tests.pipelines.metricinstruct.scripted_caller import OUTPUT, chosen_rows


@pytest.mark.model
@pytest.mark.timeout(900)
def test_the_model_analyses_an_output_and_corrupts_a_reference(tmp_path: Path) -> None:
    frames = {"chosen": chosen_rows({}, {"channel": SYNTHETIC})}
    corruption = CorruptionSettings("edits", reference_share=0, paraphrase_share=0)
    settings = DraftSettings("own_answer_first", corruption, "off", EMBEDDED_LENGTHS)
    work = DraftAnalyses(load_task_prompts(), settings)
    made = finished_by_the_model(work, frames, tmp_path / "cache")
    assert made["unfinished"].height == 0
    # A model so small may give the reference back as it was.
    assert set(made["rejected"]["rule"]) <= {"unchanged_output"}
    real = made["analyses"].row(0, named=True)
    assert (real["kind"], real["hypothesis"]) == ("real", OUTPUT)
    assert real["own_answer"]
    assert made["analyses"]["faults"].explode(empty_as_null=False).len() == 0
    aspects = {error["aspect"] for errors in made["analyses"]["errors"] for error in errors}
    assert aspects <= set(ASPECTS[TRANSLATION])
