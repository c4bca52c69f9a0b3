"""The synthetic channel: outputs with known errors, and outputs with none.

The model works errors of given aspects into a reference and lists them. The aspects are a random
non-empty subset of the task's, drawn from the row's id; what kind of row it is to be is drawn from
it, too. Error-free rows are references as they are and references in other words; free-form rows
(instruction-following) have errors of five aspects that the model names for the instruction.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from pipelines.metricinstruct.edits import apply_edits
from pipelines.metricinstruct.errors.answers import Analysis, settle
from pipelines.metricinstruct.errors.released import parse_labelled
from pipelines.metricinstruct.errors.structured import parse_structured
from pipelines.metricinstruct.examples import (
    CORRUPTED,
    EDITS,
    FREE_FORM,
    LABELLED,
    PARAPHRASE,
    REFERENCE,
    STRUCTURED,
    Item,
    Made,
)
from pipelines.metricinstruct.schema import ASPECTS, INSTRUCTION_FOLLOWING
from pipelines.metricinstruct.steps import Steps
from transforms.errors import OptionError
from transforms.keys import fraction_of

_ASPECTS_SALT = "metricinstruct/aspects"
_KIND_SALT = "metricinstruct/kind"
_FREE_FORM_SALT = "metricinstruct/free_form"
FORMS = (STRUCTURED, LABELLED, EDITS)


@dataclasses.dataclass(frozen=True, slots=True)
class CorruptionSettings:
    """How the synthetic channel's rows are made.

    Attributes:
        form: of the model's answer: structured, the released labelled text, or edits (which words
            become which), the one for small models.
        reference_share: share of the rows that keep their reference as an output without errors.
        paraphrase_share: share of the rows whose output is the reference in other words. About
            2,000 of the 22,930 synthetic rows of the original were error-free, 0.09 in all.
        free_form_share: share of free-form rows among the others of instruction-following.

    Raises:
        OptionError: the form is unknown, or a share isn't one.
    """

    form: str = STRUCTURED
    reference_share: float = 0.045
    paraphrase_share: float = 0.045
    free_form_share: float = 0.0

    def __post_init__(self) -> None:
        if self.form not in FORMS:
            raise OptionError(f"there is no form {self.form}; known are {', '.join(FORMS)}")
        shares = (self.reference_share, self.paraphrase_share, self.free_form_share)
        if min(shares) < 0 or max(shares) > 1 or sum(shares[:2]) > 1:
            raise OptionError(
                "shares of references, paraphrases and free-form rows lie between 0 and 1, "
                "the first two together as well"
            )


def aspects_asked(id_: str, aspects: Sequence[str]) -> tuple[str, ...]:
    """Return the non-empty subset of ``aspects`` that the row ``id_`` is to have errors of.

    Each of the subsets is as likely as the others.
    """
    subset = 1 + int(fraction_of(id_, _ASPECTS_SALT) * (2 ** len(aspects) - 1))
    return tuple(aspect for bit, aspect in enumerate(aspects) if subset >> bit & 1)


def kind_of(id_: str, task: str, settings: CorruptionSettings) -> str:
    """Return what kind of output the row ``id_`` of ``task`` is to have."""
    drawn = fraction_of(id_, _KIND_SALT)
    if drawn < settings.reference_share:
        return REFERENCE
    if drawn < settings.reference_share + settings.paraphrase_share:
        return PARAPHRASE
    if task != INSTRUCTION_FOLLOWING:
        return CORRUPTED
    is_free = fraction_of(id_, _FREE_FORM_SALT) < settings.free_form_share
    return FREE_FORM if is_free else CORRUPTED


async def synthesise(item: Item, steps: Steps, settings: CorruptionSettings) -> Made:
    """Return an output for the item, made from its reference, and its errors.

    Raises:
        CallFailed: a call has no usable answer.
    """
    kind, aspects = kind_of(item.id, item.task, settings), ASPECTS[item.task]
    if kind == REFERENCE:
        return Made(kind, item.reference, Analysis(), aspects)
    if kind == PARAPHRASE:
        answer = await steps.ask("paraphrase", item.variables())
        return Made(kind, str(answer["output"]).strip() or None, Analysis(), aspects)
    if kind == FREE_FORM:
        return await _free_form(item, steps)
    asked = aspects_asked(item.id, aspects)
    variables = {**item.variables(), "aspects": asked}
    if settings.form == LABELLED:
        answer = await steps.ask("corrupt_labelled", variables)
        analysis = parse_labelled(str(answer["labelled"]))
    elif settings.form == EDITS:
        answer = await steps.ask("corrupt_edits", variables)
        analysis = apply_edits((item.reference or "").strip(), answer["edits"])
        return Made(kind, analysis.output, analysis, aspects, EDITS, asked)
    else:
        analysis = parse_structured(await steps.ask("corrupt", variables))
    return _made(kind, analysis, aspects, settings.form, asked)


async def _free_form(item: Item, steps: Steps) -> Made:
    variables = item.variables()
    named = (await steps.ask("free_aspects", variables))["aspects"]
    aspects = tuple(dict.fromkeys(" ".join(str(name).split()) for name in named))
    answer = await steps.ask("free_form", {**variables, "aspects": aspects})
    return _made(FREE_FORM, parse_structured(answer), aspects, STRUCTURED, None)


def _made(
    kind: str,
    analysis: Analysis,
    aspects: tuple[str, ...],
    form: str,
    asked: tuple[str, ...] | None,
) -> Made:
    output = (analysis.output or "").strip()
    return Made(kind, output or None, settle(analysis, output, aspects), aspects, form, asked)
