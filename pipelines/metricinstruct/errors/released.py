"""The released text of an analysis, and the parser of answers in that form.

    The model-generated output contains 2 errors, with a total score reduction of 4.5.
    Error location 1: <text>
    Error aspect 1: <text>
    Explanation 1: <text>
    Severity 1: Major
    Score reduction 1: 4
    Error location 2: ...

An analysis without errors is its first line alone. The clients of this form read each value up to
the end of its line and want five of them per error, so every value is written on one line.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from pipelines.metricinstruct.errors import answers
from pipelines.metricinstruct.errors.answers import Analysis, Fault
from pipelines.metricinstruct.errors.record import ErrorRecord
from transforms.reading.decode import fault_of

#: Labels of the form, with the field of the record that each one holds.
LABELS = {
    "Error location": "location",
    "Error aspect": "aspect",
    "Explanation": "explanation",
    "Severity": "severity",
    "Score reduction": "score_reduction",
}
_LABEL_NAMES = "|".join(LABELS)
# List marks may stand before a label and emphasis around it, with the colon inside or outside.
_LABEL = re.compile(
    rf"^[ \t#>-]*(?P<mark>\**)(?P<label>{_LABEL_NAMES})[ \t]+(?P<number>\d+)[ \t]*"
    rf"(?:(?P=mark)[ \t]*:|:[ \t]*(?P=mark))",
    re.I | re.M,
)
# A client may search for a label anywhere in a line. The number is looked for first: it is rare.
_LABEL_NUMBER = re.compile(r" \d+:")
_INNER_LABEL = re.compile(rf"(?:{_LABEL_NAMES}) \d+:", re.I)
_HEADER = re.compile(
    r"contains?\s+(no|\d+)\s+(errors?)\b"
    r"(?:,?\s+with\s+a\s+total\s+score\s+reduction\s+of\s+(-?\d+(?:\.\d+)?))?[^\n]*",
    re.I,
)
_OUTPUT = re.compile(r"^[ \t*#]*(?:[\w-]+[ \t]+){0,2}output[ \t*]*:[ \t*]*", re.I | re.M)
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")


def errors_text(errors: Sequence[ErrorRecord]) -> str:
    """Return the released text of ``errors``.

    Raises:
        ValueError: an error can't be written so that it can be read again, see ``unwritable``.
    """
    blocks = [header(errors)]
    for number, error in enumerate(errors, 1):
        fault = unwritable(error)
        if fault is not None:
            raise ValueError(f"error {number} can't be written on lines: {fault}")
        blocks.extend(f"{label} {number}: {_value(error, name)}" for label, name in LABELS.items())
    return "\n".join(blocks)


def header(errors: Sequence[ErrorRecord]) -> str:
    """Return the first line of the released text."""
    return (
        f"The model-generated output contains {len(errors)} errors, "
        f"with a total score reduction of {number_text(total(errors))}."
    )


def total(errors: Sequence[ErrorRecord]) -> float:
    """Return the sum of the reductions, added up as the decimal numbers they are written as."""
    return float(sum((Decimal(repr(error.score_reduction)) for error in errors), Decimal(0)))


@functools.lru_cache(maxsize=1024)
def number_text(number: float) -> str:
    """Return ``number`` in decimal digits: ``4`` and not ``4.0``, ``4.5``, never an exponent."""
    text = f"{Decimal(repr(number)):f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def one_line(text: str) -> str:
    """Return ``text`` on one line: every line break, with the blanks around it, is one blank."""
    text = text.strip()
    if text.isprintable():
        return text
    return " ".join(part for part in (line.strip() for line in text.splitlines()) if part)


def unwritable(error: ErrorRecord) -> str | None:
    """Return why the released text of ``error`` could not be read again, None where it could.

    An empty value, a label of the form within a value, a reduction that is negative or no number.
    """
    for name in ("location", "aspect", "explanation", "severity"):
        value = one_line(getattr(error, name))
        if not value:
            return f"{name} is empty"
        if fault_of(value):
            return f"{name} is no text"
        if _LABEL_NUMBER.search(value) and _INNER_LABEL.search(value):
            return f"{name} holds a label of the form"
    if not math.isfinite(error.score_reduction) or error.score_reduction < 0:
        return "score_reduction is negative or no number"
    return None


def parse_labelled(answer: str) -> Analysis:
    """Return the analysis that ``answer`` gives in the released form.

    Beyond the form itself it reads: labels in another case or with list and emphasis marks around
    them; a value that begins on the line after its label (fault ``value_on_next_line``) or goes
    on over several lines (``continued_value``); an incorrect output before the header under a
    label such as ``Incorrect output:``; other text before the header (``text_around``). A missing
    header, a header of "1 error", one whose count is not the number of errors, a missing,
    repeated or unreadable field are faults that lose the error or the whole analysis.
    """
    if fault_of(answer):
        return Analysis(faults=(Fault(answers.NOT_TEXT),))
    labels = list(_LABEL.finditer(answer))
    front = answer[: labels[0].start()] if labels else answer
    headers = list(_HEADER.finditer(front))
    # The last one: an output before it may hold such words too.
    found = headers[-1] if headers else None
    faults: list[Fault] = []
    count = stated_total = output = None
    if found is None:
        faults.append(Fault(answers.NO_HEADER))
        output = _output(front)
    else:
        count = 0 if found[1].casefold() == "no" else int(found[1])
        stated_total = None if found[3] is None else float(found[3])
        if found[3] is None:
            faults.append(Fault(answers.NO_HEADER, value="total"))
        if found[2].casefold() == "error":
            faults.append(Fault(answers.SINGULAR_HEADER))
        line = front.rfind("\n", 0, found.start()) + 1
        output = _output(front[:line])
        if (front[:line].strip() and output is None) or front[found.end() :].strip():
            faults.append(Fault(answers.TEXT_AROUND))
    errors, numbers = _blocks(answer, labels, faults)
    if count is not None and count != numbers:
        faults.append(Fault(answers.COUNT_DIFFERS, value=f"{count} != {numbers}"))
    return Analysis(tuple(errors), tuple(faults), output, count, stated_total)


def _blocks(
    answer: str, labels: list[re.Match[str]], faults: list[Fault]
) -> tuple[list[ErrorRecord], int]:
    """Return the errors of the labelled values, and how many the answer numbers."""
    fields: dict[int, dict[str, str]] = {}
    broken: set[int] = set()
    for index, label in enumerate(labels):
        end = labels[index + 1].start() if index + 1 < len(labels) else len(answer)
        number, name = int(label["number"]), LABELS[label["label"].capitalize()]
        values = fields.setdefault(number, {})
        if name in values:
            faults.append(Fault(answers.REPEATED_FIELD, number, name))
            broken.add(number)
        lines = answer[label.end() : end].split("\n")
        if not lines[0].strip() and any(line.strip() for line in lines):
            faults.append(Fault(answers.VALUE_ON_NEXT_LINE, number, name))
        elif any(line.strip() for line in lines[1:]):
            faults.append(Fault(answers.CONTINUED_VALUE, number, name))
        values[name] = one_line("\n".join(lines))
    errors = []
    for number, values in fields.items():
        missing = [name for name in LABELS.values() if name not in values]
        faults.extend(Fault(answers.MISSING_FIELD, number, name) for name in missing)
        reduction = _reduction(values.get("score_reduction", "0"))
        if reduction is None:
            faults.append(Fault(answers.NOT_A_NUMBER, number, "score_reduction"))
        if not missing and reduction is not None and number not in broken:
            record: dict[str, Any] = {**values, "score_reduction": reduction}
            errors.append(ErrorRecord(**record))
    return errors, len(fields)


def _reduction(text: str) -> float | None:
    found = _NUMBER.match(text.strip())
    # "4 points" and "4." are read, "4-5" and "4/5" are no number.
    return float(found[0]) if found and not re.match(r"\s*[-/\d]", text[found.end() :]) else None


def _output(front: str) -> str | None:
    label = _OUTPUT.search(front)
    return front[label.end() :].strip() or None if label else None


def _value(error: ErrorRecord, name: str) -> str:
    value = getattr(error, name)
    return number_text(value) if name == "score_reduction" else one_line(value)
