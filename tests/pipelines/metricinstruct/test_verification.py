"""Verification: what the judge is shown, in which order, and what its word means."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from pipelines.metricinstruct.errors.answers import Analysis, settle
from pipelines.metricinstruct.errors.structured import parse_structured
from pipelines.metricinstruct.examples import Made
from pipelines.metricinstruct.schema import ASPECTS, TRANSLATION
from pipelines.metricinstruct.steps import CallFailed, Steps
from pipelines.metricinstruct.task_prompts import load_task_prompts
from pipelines.metricinstruct.verification import Verdict, failed, verify
from tests.pipelines.metricinstruct.scripted_caller import (
    ERROR,
    OUTPUT,
    SECOND_ERROR,
    ScriptedCaller,
    an_item,
)
from transforms.llm.calls import CallClass

PROMPTS = load_task_prompts()[TRANSLATION]
FIXED = "The shop opens at nine and close at six."


def made_with(*errors) -> Made:
    analysis = settle(parse_structured({"errors": list(errors)}), OUTPUT, ASPECTS[TRANSLATION])
    return Made("real", OUTPUT, analysis, ASPECTS[TRANSLATION])


def run(made: Made, caller: ScriptedCaller, **changes) -> list[Verdict]:
    return asyncio.run(verify(an_item(**changes), made, Steps(caller, PROMPTS)))


def prefers(text: str):
    """Return a judge that prefers ``text`` in whichever place it stands."""

    def script(name, variables):
        if name != "verify_fix":
            return None
        better = "A" if variables["first"] == [text] else "B"
        return {"reason": "That one has the right time.", "better": better}

    return script


@pytest.mark.parametrize(("text", "outcome"), [(FIXED, "better"), (OUTPUT, "worse")])
def test_an_outcome_follows_the_text_and_not_its_place(text, outcome):
    places = set()
    for number in range(8):
        fix, _ = run(made_with(ERROR), ScriptedCaller(prefers(text)), id=f"{number:016x}")
        assert fix.outcome == outcome
        places.add(fix.swapped)
    assert places == {True, False}


def test_each_error_is_fixed_by_itself():
    caller = ScriptedCaller(prefers(FIXED))
    verdicts = run(made_with(ERROR, SECOND_ERROR), caller)
    assert caller.names() == ["verify_fix", "verify_fix", "verify_analysis"]
    assert [(v.check, v.error) for v in verdicts] == [("fix", 1), ("fix", 2), ("analysis", None)]
    assert FIXED in caller.calls[0][1]
    assert "The shop opens at ten and closes at six." in caller.calls[1][1]
    assert [v.prompt for v in verdicts] == ["verify_fix.v1", "verify_fix.v1", "verify_analysis.v1"]


def test_the_judge_of_an_analysis_sees_its_errors():
    caller = ScriptedCaller()
    run(made_with(SECOND_ERROR), caller)
    line = '1. "close" (Fluency, Minor, 1 points): The verb needs the ending of the third person.'
    assert f"<review>\n{line}\n</review>" in caller.calls[-1][1]


def test_an_analysis_without_errors_is_asked_about_as_well():
    caller = ScriptedCaller()
    verdicts = run(made_with(), caller)
    assert [v.outcome for v in verdicts] == ["yes"]
    assert "The review finds no error." in caller.calls[0][1]


def test_nothing_is_asked_where_no_fix_applies():
    absent = ERROR | {"location": "eleven"}
    same = ERROR | {"suggestion": "ten"}
    caller = ScriptedCaller()
    verdicts = run(made_with(absent, same), caller)
    assert caller.names() == ["verify_analysis"]
    assert [v.outcome for v in verdicts] == ["no_fix", "no_fix", "yes"]
    assert failed(verdicts) is None


def test_a_reference_is_not_judged():
    caller = ScriptedCaller()
    made = replace(made_with(), kind="reference", analysis=Analysis())
    assert run(made, caller) == []
    assert caller.calls == []


def test_a_failed_call_ends_the_example():
    with pytest.raises(CallFailed):
        run(made_with(ERROR), ScriptedCaller(lambda *_: CallClass.TIMEOUT))


def test_rules_that_verdicts_break():
    fine = [Verdict("fix", 1, "better"), Verdict("analysis", None, "yes")]
    assert failed(fine) is None
    assert failed([*fine[:1], Verdict("fix", 2, "same"), *fine[1:]]) == (
        "fix_not_better",
        "error 2: same",
    )
    assert failed([Verdict("fix", 1, "better"), Verdict("analysis", None, "no")]) == (
        "analysis_not_confirmed",
        "no",
    )
