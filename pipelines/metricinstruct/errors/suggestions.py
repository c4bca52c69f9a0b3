"""The correction that an error suggests, and the output with that correction in it."""

from __future__ import annotations

import re

from pipelines.metricinstruct.errors.places import quoted_passages
from pipelines.metricinstruct.errors.record import ErrorRecord

# English phrases right after which an explanation quotes what should stand in the output.
_CUE = re.compile(
    r"\b(?:should (?:be|read|say|have been)|"
    r"(?:correct|better|more \w+) (?:\w+ ){1,3}(?:is|would be|could be|should be|reads)|"
    r"(?:replac(?:e|ed|ing)|chang(?:e|ed|ing)|correct(?:ed|ing)?)\b[^.]*? (?:with|to|by)|"
    r"correction (?:is|would be)|instead use|use instead)[\s:,]+(?=[\"'“‘„«])",
    re.I,
)


def suggestion_in(explanation: str) -> str | None:
    """Return the last passage that an English explanation quotes as the correction, if any.

    It may stand for a part of the location only, so it is good for comparing, not for applying.
    """
    found = None
    for cue in _CUE.finditer(explanation):
        passages = quoted_passages(explanation[cue.end() :])
        found = passages[0] if passages else found
    return found


def apply_suggestion(output: str, error: ErrorRecord) -> str | None:
    """Return ``output`` with the error's suggestion in place of its location.

    A suggestion to remove the location takes one of the blanks around it as well, so that no two
    blanks are left where the words stood. None where the location has no place in the output or
    nothing is suggested.

    Raises:
        ValueError: the error's offsets do not hold its location in ``output``.
    """
    suggestion = error.suggestion
    if suggestion is None or error.start is None or error.end is None:
        return None
    if output[error.start : error.end] != error.location:
        raise ValueError("the error was placed in another output")
    before, after = output[: error.start], output[error.end :]
    if not suggestion.strip():
        if after[:1].isspace() and (not before or before[-1].isspace()):
            after = after[1:]
        elif not after and before[-1:].isspace():
            before = before[:-1]
        suggestion = ""
    return before + suggestion + after
