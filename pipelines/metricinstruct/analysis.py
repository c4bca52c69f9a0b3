"""The real-world channel: a system's output and the errors that a model finds in it.

==================  =============================================================================
two_step            ``review`` writes a free-text analysis, ``itemise`` makes it a list of errors
own_answer_first    ``own_answer`` does the task itself, ``compare`` lists errors beside that
one_step            ``analyse`` lists the errors at once
==================  =============================================================================

The reference, where there is one, is shown to whoever looks for errors, who may not mention it.
"""

from __future__ import annotations

from pipelines.metricinstruct.errors.answers import settle
from pipelines.metricinstruct.errors.structured import parse_structured
from pipelines.metricinstruct.examples import REAL_OUTPUT, STRUCTURED, Item, Made
from pipelines.metricinstruct.lengths import Lengths
from pipelines.metricinstruct.schema import ASPECTS
from pipelines.metricinstruct.steps import Steps
from pipelines.metricinstruct.task_prompts import lines
from transforms.tokens import cut

TWO_STEP = "two_step"
OWN_ANSWER_FIRST = "own_answer_first"
ONE_STEP = "one_step"
VARIANTS = (TWO_STEP, OWN_ANSWER_FIRST, ONE_STEP)


async def analyse(item: Item, steps: Steps, variant: str, lengths: Lengths) -> Made:
    """Return the analysis of the item's hypothesis.

    Args:
        item: an example of the real-world channel.
        steps: makes the calls.
        variant: one of ``VARIANTS``.
        lengths: at which the model's own answer is cut before it is shown.

    Raises:
        CallFailed: a call has no usable answer.
    """
    variables = item.variables()
    text = own_answer = None
    if variant == TWO_STEP:
        text = str((await steps.ask("review", variables))["analysis"]).strip()
        answer = await steps.ask("itemise", {**variables, "analysis": lines(text)})
    elif variant == OWN_ANSWER_FIRST:
        own_answer = str((await steps.ask("own_answer", variables))["answer"]).strip()
        shown = lines(cut(own_answer, lengths.reference))
        answer = await steps.ask("compare", {**variables, "answer": shown})
    else:
        answer = await steps.ask("analyse", variables)
    output, aspects = item.hypothesis or "", ASPECTS[item.task]
    analysis = settle(parse_structured(answer), output, aspects)
    return Made(REAL_OUTPUT, output, analysis, aspects, STRUCTURED, None, text, own_answer)
