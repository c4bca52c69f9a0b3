"""What the model is made to answer: analyses as models write them, good ones and faulty ones.

The shares are those of real answers: how many errors an analysis has, how severe they are, how many
quote words that stand in several places or nowhere, and how many answers can't be used at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any, TypeVar

from benchmarks.metricinstruct import texts

Error = dict[str, Any]
T = TypeVar("T")

#: How many errors of 100 analyses have so many.
_COUNTS = ((0, 11), (1, 24), (2, 30), (3, 20), (4, 10), (5, 5))
_MAJOR_SHARE = 0.65
_MAJOR, _MINOR = (2, 3, 3, 4, 5), (0.5, 1, 1, 1.5)
#: Of 100 analyses with errors, those in which one error has a fault.
_FAULTS = (
    ("absent", 17), ("overlapping", 5), ("mentions_reference", 6), ("severity_band", 7),
    ("same_suggestion", 3), ("restates", 2), ("whole", 1), ("twice", 1), ("long", 2),
    ("marks", 4), ("none", 52),
)  # fmt: skip
#: Of 100 answers, those that hold no analysis.
_ENDS = (("cut", 0.8), ("prose", 0.7), ("refused", 0.3), ("whole", 98.2))
_WHYS = (
    "the input says something else about it",
    "nothing in the input supports this",
    "it changes who did what and when",
    "the wording is hard to follow for a reader",
    "the number does not follow from the steps before",
    "this term is not the one that is used in the field",
    "it leaves out the part that the task asks for",
    "the sentence does not connect to the one before it",
    "it is a literal rendering that nobody would write",
    "the grammar of this part is broken",
)
_EFFECTS = (
    "A reader would take away a wrong fact.",
    "The meaning of the whole sentence shifts.",
    "It can still be understood with some effort.",
    "The task is not fulfilled in this part.",
    "The rest of the text does not make up for it.",
)


def end_of(source: Random) -> str:
    """Return how an answer ends: ``whole``, ``cut``, ``prose`` or ``refused``."""
    return _drawn(source, _ENDS)


def found_errors(source: Random, output: str, aspects: Sequence[str]) -> list[Error]:
    """Return the errors that an analysis finds in ``output``, perhaps with a fault in one."""
    number = _drawn(source, _COUNTS)
    errors = [
        _error(source, output, place, source.choice(aspects))
        for place in _places(source, output, number)
    ]
    return with_fault(source, output, errors)


def worked_in(source: Random, reference: str, aspects: Sequence[str]) -> tuple[str, list[Error]]:
    """Return ``reference`` with an error of each aspect worked in, and these errors."""
    output, changes, shift = reference, [], 0
    places = sorted(_places(source, reference, len(aspects)))
    for start, end in places:
        wrong = texts.phrase(source, reference[start:end])
        output = output[: start + shift] + wrong + output[end + shift :]
        changes.append((start + shift, start + shift + len(wrong), reference[start:end]))
        shift += len(wrong) - (end - start)
    errors = []
    for (start, end, right), aspect in zip(changes, aspects, strict=False):
        error = _error(source, output, (start, end), aspect, right)
        error["score_reduction"] = max(1, int(error["score_reduction"]))
        errors.append(error)
    return output, with_fault(source, output, errors, whole_points=True)


def notes(source: Random, errors: Sequence[Error]) -> str:
    """Return the free text of the first step that says what ``errors`` list."""
    if not errors:
        return "The output does what the task asks for. I found no error in it."
    said = [
        f'"{error["location"]}": {error["explanation"]} This is a {error["severity"]} error of '
        f"{error['aspect']} and takes off {error['score_reduction']}."
        for error in errors
    ]
    return f"{source.choice(_EFFECTS)}\n" + "\n".join(said)


def with_fault(
    source: Random, output: str, errors: list[Error], *, whole_points: bool = False
) -> list[Error]:
    """Return ``errors``, one of them with a fault in some hundredths of the analyses."""
    fault = _drawn(source, _FAULTS)
    if not errors or fault == "none":
        return errors
    error = source.choice(errors)
    location = error["location"]
    if fault == "absent":
        error["location"] = f"{texts.phrase(source)} {location}"[:300]
    elif fault == "overlapping":
        start = output.find(location)
        longer = output[start : start + len(location) + 12].split("\n")[0].strip()
        errors.append({**error, "location": longer})
    elif fault == "mentions_reference":
        error["explanation"] += " The reference says it otherwise."
    elif fault == "severity_band":
        minor = error["severity"] == "Minor"
        error["score_reduction"] = 4 if minor else 1
    elif fault == "same_suggestion":
        error["suggestion"] = location
    elif fault == "restates":
        error["explanation"] = f'Wrong: "{location}" "{location}" "{location}"'[:400].ljust(20, ".")
    elif fault == "whole" and len(output) <= 300:
        error.update(location=output, context="")
    elif fault == "twice":
        errors.append({**error, "aspect": errors[0]["aspect"]})
    elif fault == "long":
        for each in errors:
            more = " ".join(source.choice(_EFFECTS) for _ in range(9))
            each["explanation"] = f"{each['explanation']} {more}"[:400]
    elif fault == "marks":
        error["location"] = f"“{location.upper()}”"
    if whole_points:
        for each in errors:
            each["score_reduction"] = max(1, int(each["score_reduction"]))
    return errors


def _error(
    source: Random, output: str, place: tuple[int, int], aspect: str, right: str | None = None
) -> Error:
    start, end = place
    location = output[start:end]
    suggestion = texts.phrase(source, location) if right is None else right
    major = source.random() < _MAJOR_SHARE
    around = output[max(0, start - 40) : end + 40]
    return {
        "location": location,
        "context": around[:200] if source.random() < 0.7 else "",
        "suggestion": suggestion,
        "explanation": f'The words "{location[:80]}" are wrong, for {source.choice(_WHYS)}. '
        f'{source.choice(_EFFECTS)} It should be "{suggestion[:80]}" instead.',
        "aspect": aspect,
        "severity": "Major" if major else "Minor",
        "score_reduction": source.choice(_MAJOR if major else _MINOR),
    }


def _places(source: Random, output: str, number: int) -> list[tuple[int, int]]:
    """Return up to so many places in ``output`` that have no character in common."""
    found: list[tuple[int, int]] = []
    for part in range(number):
        low, high = (len(output) * bound // number for bound in (part, part + 1))
        while low and low < high and not output[low - 1].isspace() and output.isascii():
            low += 1
        start, end = texts.span(source, output, low, high)
        if output[start:end].strip() and (not found or found[-1][1] < start):
            found.append((start, end))
    return found


def _drawn(source: Random, shares: Sequence[tuple[T, float]]) -> T:
    return source.choices([name for name, _ in shares], [share for _, share in shares])[0]
