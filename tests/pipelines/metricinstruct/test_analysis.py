"""The real-world channel: which calls each variant makes, and what becomes of their answers."""

from __future__ import annotations

import asyncio

import pytest

from pipelines.metricinstruct.analysis import VARIANTS, analyse
from pipelines.metricinstruct.examples import Made
from pipelines.metricinstruct.lengths import Lengths
from pipelines.metricinstruct.schema import ASPECTS, TRANSLATION
from pipelines.metricinstruct.steps import CallFailed, Steps
from pipelines.metricinstruct.task_prompts import load_task_prompts
from tests.pipelines.metricinstruct.scripted_caller import (
    ERROR,
    OUTPUT,
    REFERENCE,
    ScriptedCaller,
    an_item,
)
from transforms.llm.calls import CallClass

PROMPTS = load_task_prompts()[TRANSLATION]


def run(
    caller: ScriptedCaller, variant: str, item=None, lengths: Lengths | None = None
) -> tuple[Made, Steps]:
    steps = Steps(caller, PROMPTS)
    made = asyncio.run(analyse(item or an_item(), steps, variant, lengths or Lengths()))
    return made, steps


def test_two_steps_ask_for_free_text_first():
    caller = ScriptedCaller()
    made, steps = run(caller, "two_step")
    assert caller.names() == ["review", "itemise"]
    assert made.text == '"ten" is wrong: the source says nine.'
    assert f"<notes>\n{made.text}\n</notes>" in caller.calls[1][1]
    assert steps.prompts == ["review-translation.v1", "itemise-translation.v1"]
    assert steps.requests == ["review-translation.v1-0", "itemise-translation.v1-0"]


def test_own_answer_stands_beside_the_output():
    caller = ScriptedCaller()
    made, _ = run(caller, "own_answer_first")
    assert caller.names() == ["own_answer", "compare"]
    # Neither output nor reference shapes the model's own answer.
    assert OUTPUT not in caller.calls[0][1]
    assert REFERENCE not in caller.calls[0][1]
    assert "<draft>\nThe shop is open from nine to six.\n</draft>" in caller.calls[1][1]
    assert made.own_answer == "The shop is open from nine to six."


def test_a_long_own_answer_is_shown_in_part_and_kept_whole():
    caller = ScriptedCaller(
        lambda name, _: {"answer": "so " * 99} if name == "own_answer" else None
    )
    made, _ = run(caller, "own_answer_first", lengths=Lengths(reference=6))
    assert "<draft>\nso so so so so so so so\n</draft>" in caller.calls[1][1]
    assert len(made.own_answer) > 200


def test_one_step_is_one_call():
    caller = ScriptedCaller()
    made, _ = run(caller, "one_step")
    assert caller.names() == ["analyse"]
    assert (made.text, made.own_answer) == (None, None)


@pytest.mark.parametrize("variant", VARIANTS)
def test_errors_are_placed_in_the_output(variant):
    made, _ = run(ScriptedCaller(), variant)
    (error,) = made.analysis.errors
    assert OUTPUT[error.start : error.end] == error.location == "ten"
    assert (made.kind, made.hypothesis, made.form) == ("real", OUTPUT, "structured")
    assert made.aspects == ASPECTS[TRANSLATION]
    assert made.asked is None
    assert made.analysis.faults == ()


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_reference_is_shown_where_there_is_one(variant):
    caller = ScriptedCaller()
    run(caller, variant)
    assert any(REFERENCE in text for _, text in caller.calls)
    caller = ScriptedCaller()
    run(caller, variant, an_item(reference=None))
    assert not any("<reference>" in text for _, text in caller.calls)


def test_a_context_tells_places_apart():
    output = "At ten it opens, at ten it closes."
    made, _ = run(
        ScriptedCaller(lambda *_: {"errors": [ERROR | {"context": "at ten it closes"}]}),
        "one_step",
        an_item(hypothesis=output),
    )
    assert made.analysis.errors[0].start == output.rindex("ten")
    assert made.analysis.errors[0].placement == "nearest_to_context"


@pytest.mark.parametrize("failing", ["review", "itemise"])
def test_a_failed_call_ends_the_example(failing):
    caller = ScriptedCaller(lambda name, _: CallClass.REFUSED if name == failing else None)
    with pytest.raises(CallFailed) as caught:
        run(caller, "two_step")
    assert caught.value.prompt.id == f"{failing}-translation.v1"
    assert caller.names()[-1] == failing
