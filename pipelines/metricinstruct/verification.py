"""Verification of an analysis by the model: two checks whose verdicts go to provenance.

``fix``: each error's suggestion is put into the output, and a judge that knows neither the error
nor which text is the fixed one says which is better. An error is one only if correcting it improves
the output. The order of the two is drawn from the row's id and the error's number, because judges
favour a place.

``analysis``: a plain yes or no to whether the analysis as a whole is right, also to one that finds
nothing.
"""

from __future__ import annotations

from typing import NamedTuple

from pipelines.metricinstruct.errors.record import ErrorRecord
from pipelines.metricinstruct.errors.released import number_text
from pipelines.metricinstruct.errors.suggestions import apply_suggestion
from pipelines.metricinstruct.examples import REFERENCE, Item, Made
from pipelines.metricinstruct.steps import Steps
from pipelines.metricinstruct.task_prompts import lines
from transforms.keys import fraction_of
from transforms.llm.replay import gather

FIX, ANALYSIS = "fix", "analysis"
#: Outcomes of the check of a fix: the fixed output is better, worse, no better; there is no fix.
BETTER, WORSE, SAME, NO_FIX = "better", "worse", "same", "no_fix"
#: Outcomes of the check of an analysis.
YES, NO = "yes", "no"

_ORDER_SALT = "metricinstruct/order"
_NO_ERRORS = "The review finds no error."


class Verdict(NamedTuple):
    """How one check ended.

    Fields:
        check: fix or analysis.
        error: number of the error, from 1; None for the analysis.
        outcome: better, worse, same or no_fix; yes or no.
        swapped: whether the fixed output stood first; None for the analysis and without a fix.
        reason: the judge's sentence.
        prompt: id of the prompt; None where nothing was asked.
        request: hash of the request.
        model: that was asked.
    """

    check: str
    error: int | None
    outcome: str
    swapped: bool | None = None
    reason: str | None = None
    prompt: str | None = None
    request: str | None = None
    model: str | None = None


async def verify(item: Item, made: Made, steps: Steps) -> list[Verdict]:
    """Return the verdicts on each error and on the analysis, all asked at once.

    A reference that is its own output is not asked about: no model has judged it.

    Raises:
        CallFailed: a call has no usable answer.
    """
    if made.kind == REFERENCE:
        return []
    errors = made.analysis.errors
    return await gather(
        *(_fix(item, made, number, error, steps) for number, error in enumerate(errors, 1)),
        _analysis(item, made, steps),
    )


def failed(verdicts: list[Verdict]) -> tuple[str, str] | None:
    """Return the rule that ``verdicts`` break and what breaks it, the first one; None if none does.

    An error without a fix breaks none: whether it has a place is for the filters.
    """
    for verdict in verdicts:
        if verdict.outcome in (WORSE, SAME):
            return "fix_not_better", f"error {verdict.error}: {verdict.outcome}"
        if verdict.outcome == NO:
            return "analysis_not_confirmed", NO
    return None


async def _fix(item: Item, made: Made, number: int, error: ErrorRecord, steps: Steps) -> Verdict:
    output = made.hypothesis or ""
    fixed = apply_suggestion(output, error)
    if fixed is None or fixed == output:
        return Verdict(FIX, number, NO_FIX)
    swapped = fraction_of(f"{item.id} {number}", _ORDER_SALT) < 0.5
    first, second = (fixed, output) if swapped else (output, fixed)
    variables = {**item.variables(), "first": lines(first), "second": lines(second)}
    answer = await steps.ask_beside("verify_fix", variables)
    data = answer.data or {}
    fixed_name = "A" if swapped else "B"
    better = data["better"]
    outcome = SAME if better == SAME else BETTER if better == fixed_name else WORSE
    asked = (steps.id_of("verify_fix"), answer.request, answer.model)
    return Verdict(FIX, number, outcome, swapped, data["reason"], *asked)


async def _analysis(item: Item, made: Made, steps: Steps) -> Verdict:
    review = [_line(number, error) for number, error in enumerate(made.analysis.errors, 1)]
    variables = item.variables()
    variables["output"] = lines(made.hypothesis)
    variables["review"] = review or [_NO_ERRORS]
    answer = await steps.ask_beside("verify_analysis", variables)
    data = answer.data or {}
    asked = (steps.id_of("verify_analysis"), answer.request, answer.model)
    return Verdict(ANALYSIS, None, data["right"], None, data["reason"], *asked)


def _line(number: int, error: ErrorRecord) -> str:
    points = number_text(error.score_reduction)
    return (
        f'{number}. "{error.location}" ({error.aspect}, {error.severity}, {points} points): '
        f"{error.explanation}"
    )
