"""Corruption by edits: the model says which words of a reference become which."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import takewhile
from typing import Any

from pipelines.metricinstruct.errors.answers import Analysis
from pipelines.metricinstruct.errors.places import Span, find, strip_marks
from pipelines.metricinstruct.errors.record import EXACT, ErrorRecord

#: Characters on either side that are kept as an error's context.
_AROUND = 15
# A word with the blanks behind it.
_WORD = re.compile(r"\S+\s*")


def apply_edits(reference: str, edits: Sequence[Mapping[str, Any]]) -> Analysis:
    """Return ``reference`` with ``edits`` in it as an analysis's output, and them as its errors.

    The words of an edit are changed where they first stand free of the edits before it; those at
    its ends that stay as they were are no part of the error. An edit that changes nothing, or whose
    words the reference doesn't hold, leaves no error: it isn't in the output. Errors come in the
    order of their places, and with them: they need no ``place``.
    """
    placed: dict[Span, Mapping[str, Any]] = {}
    for edit in edits:
        correct, wrong = edit["correct"].strip(), edit["wrong"].strip()
        spans, exact = find(correct, reference)
        # Found without the marks that the model put around them, words are changed without, too.
        if not exact and strip_marks(correct) != correct:
            wrong = strip_marks(wrong)
        free = (one for one in spans if all(_apart(one, other) for other in placed))
        span = next(free, None)
        if span is not None:
            span, wrong = _narrowed(reference, span, wrong)
            if wrong not in ("", reference[slice(*span)]):
                placed[span] = {**edit, "wrong": wrong}
    output, starts, end = "", [], 0
    for span in sorted(placed):
        output += reference[end : span[0]]
        starts.append(len(output))
        output += placed[span]["wrong"]
        end = span[1]
    output += reference[end:]
    errors = (
        _error(placed[span], reference[slice(*span)], start, output)
        for span, start in zip(sorted(placed), starts, strict=True)
    )
    return Analysis(tuple(errors), output=output)


def _narrowed(reference: str, span: Span, wrong: str) -> tuple[Span, str]:
    """Return what an edit changes, without the words that both texts begin or end with.

    Neither text begins or ends with a blank. One word of each stays, so that something left out can
    be pointed at.
    """
    old, new = _WORD.findall(reference[slice(*span)]), _WORD.findall(wrong)
    spare = min(len(old), len(new)) - 1
    front = _shared(old, new, spare)
    back = _shared(old[::-1], new[::-1], spare - front)
    start = span[0] + sum(map(len, old[:front]))
    kept = "".join(old[front : len(old) - back]).rstrip()
    return (start, start + len(kept)), "".join(new[front : len(new) - back]).rstrip()


def _shared(old: Sequence[str], new: Sequence[str], most: int) -> int:
    pairs = zip(old[: max(most, 0)], new, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def _error(edit: Mapping[str, Any], suggestion: str, start: int, output: str) -> ErrorRecord:
    """Return the error at ``start``; its place is known, wherever else its words may stand."""
    wrong = edit["wrong"]
    end = start + len(wrong)
    return ErrorRecord(
        location=wrong,
        aspect=edit["aspect"],
        explanation=edit["explanation"],
        severity=edit["severity"],
        score_reduction=float(edit["score_reduction"]),
        suggestion=suggestion,
        context=output[max(0, start - _AROUND) : end + _AROUND],
        start=start,
        end=end,
        occurrence=1 + [first for first, _ in find(wrong, output)[0]].index(start),
        candidates=(start,),
        placement=EXACT,
    )


def _apart(span: Span, other: Span) -> bool:
    return span[1] <= other[0] or other[1] <= span[0]
