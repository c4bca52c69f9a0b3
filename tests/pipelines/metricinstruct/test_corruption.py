"""The synthetic channel: what is drawn from the row's id, and what the answers become."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from pipelines.metricinstruct.corruption import (
    CorruptionSettings,
    aspects_asked,
    kind_of,
    synthesise,
)
from pipelines.metricinstruct.errors.answers import NO_HEADER
from pipelines.metricinstruct.examples import Made
from pipelines.metricinstruct.schema import (
    ASPECTS,
    INSTRUCTION_FOLLOWING,
    SYNTHETIC,
    TASKS,
    TRANSLATION,
)
from pipelines.metricinstruct.steps import Steps
from pipelines.metricinstruct.task_prompts import load_task_prompts
from tests.pipelines.metricinstruct.scripted_caller import (
    OUTPUT,
    REFERENCE,
    ScriptedCaller,
    an_item,
)
from transforms.errors import OptionError

PROMPTS = load_task_prompts()
CORRUPT_ALL = CorruptionSettings(reference_share=0, paraphrase_share=0)
IDS = [f"{number:016x}" for number in range(3000)]


def run(caller: ScriptedCaller, settings: CorruptionSettings, **changes) -> tuple[Made, Steps]:
    item = an_item(SYNTHETIC, **changes)
    steps = Steps(caller, PROMPTS[item.task])
    return asyncio.run(synthesise(item, steps, settings)), steps


@pytest.mark.parametrize("task", TASKS)
def test_every_subset_of_aspects_is_as_likely(task):
    counts = Counter(aspects_asked(id_, ASPECTS[task]) for id_ in IDS)
    subsets = 2 ** len(ASPECTS[task]) - 1
    assert len(counts) == subsets
    assert () not in counts
    assert max(counts.values()) < 1.35 * len(IDS) / subsets
    assert all(list(asked) == [a for a in ASPECTS[task] if a in asked] for asked in counts)


def test_kinds_come_in_their_shares():
    settings = CorruptionSettings(reference_share=0.2, paraphrase_share=0.1, free_form_share=0.5)
    counts = Counter(kind_of(id_, TRANSLATION, settings) for id_ in IDS)
    assert set(counts) == {"reference", "paraphrase", "corrupted"}
    assert counts["reference"] / len(IDS) == pytest.approx(0.2, abs=0.03)
    assert counts["paraphrase"] / len(IDS) == pytest.approx(0.1, abs=0.03)
    counts = Counter(kind_of(id_, INSTRUCTION_FOLLOWING, settings) for id_ in IDS)
    assert counts["free_form"] / len(IDS) == pytest.approx(0.35, abs=0.03)


def test_a_corrupted_output_has_the_errors_that_were_worked_in():
    caller = ScriptedCaller()
    made, steps = run(caller, CORRUPT_ALL)
    assert steps.prompts == ["corrupt-translation.v1"]
    assert (made.kind, made.hypothesis, made.form) == ("corrupted", OUTPUT, "structured")
    assert [OUTPUT[error.start : error.end] for error in made.analysis.errors] == ["ten", "close"]
    assert made.asked == aspects_asked(an_item().id, ASPECTS[TRANSLATION])
    question = caller.calls[0][1]
    assert question.endswith("Errors asked for: " + ", ".join(made.asked))
    assert f"<reference>\n{REFERENCE}\n</reference>" in question


def test_labelled_text_is_read_as_well():
    made, steps = run(
        ScriptedCaller(), CorruptionSettings("labelled", reference_share=0, paraphrase_share=0)
    )
    assert steps.prompts == ["corrupt_labelled-translation.v1"]
    assert (made.hypothesis, made.form) == (OUTPUT, "labelled")
    assert made.analysis.faults == ()
    assert made.analysis.stated_total == 4
    (error,) = made.analysis.errors
    assert OUTPUT[error.start : error.end] == "ten"


def test_labelled_text_without_an_output_says_so():
    text = "There is nothing wrong here, as far as one can see."
    made, _ = run(
        ScriptedCaller(lambda *_: {"labelled": text}),
        CorruptionSettings("labelled", reference_share=0, paraphrase_share=0),
    )
    assert made.hypothesis is None
    assert [fault.reason for fault in made.analysis.faults] == [NO_HEADER]


def test_edits_are_worked_into_the_reference():
    made, steps = run(
        ScriptedCaller(), CorruptionSettings("edits", reference_share=0, paraphrase_share=0)
    )
    assert steps.prompts == ["corrupt_edits-translation.v1"]
    assert (made.hypothesis, made.form) == (REFERENCE.replace("nine", "ten"), "edits")
    (error,) = made.analysis.errors
    assert (error.start, error.suggestion) == (REFERENCE.index("nine"), "nine")


def test_a_reference_is_its_own_output_without_a_call():
    caller = ScriptedCaller()
    made, _ = run(caller, CorruptionSettings(reference_share=1, paraphrase_share=0))
    assert caller.calls == []
    assert (made.kind, made.hypothesis, made.form) == ("reference", REFERENCE, None)
    assert made.analysis.errors == ()


def test_a_paraphrase_is_free_of_errors():
    made, steps = run(ScriptedCaller(), CorruptionSettings(reference_share=0, paraphrase_share=1))
    assert steps.prompts == ["paraphrase.v1"]
    assert (made.kind, made.hypothesis) == ("paraphrase", "From nine to six the shop is open.")
    assert made.analysis.errors == ()


def test_free_form_errors_have_the_aspects_that_the_model_named():
    settings = CorruptionSettings(reference_share=0, paraphrase_share=0, free_form_share=1)
    caller = ScriptedCaller()
    made, _ = run(caller, settings, task=INSTRUCTION_FOLLOWING)
    assert caller.names() == ["free_aspects", "free_form"]
    assert made.aspects == ("Tone", "Step Order", "Units", "Length")
    assert caller.calls[1][1].endswith("Aspects: Tone, Step Order, Units, Length")
    assert made.asked is None
    assert [error.aspect for error in made.analysis.errors] == ["Step Order"]


@pytest.mark.parametrize(
    "values",
    [
        {"form": "prose"},
        {"reference_share": -0.1},
        {"free_form_share": 1.1},
        {"reference_share": 0.6, "paraphrase_share": 0.6},
    ],
)
def test_settings_are_checked(values):
    with pytest.raises(OptionError):
        CorruptionSettings(**values)
