"""The parser of answers in JSON.

The form asked for is ``{"errors": [{"location": ..., "aspect": ..., "explanation": ...,
"severity": ..., "score_reduction": ..., "suggestion": ..., "context": ...}, ...]}``, for the
synthetic channel with the incorrect ``"output"`` beside it. The form of the original data is read
as well: errors as an object of ``error_1``, ``error_2``, ..., and fields named ``error_location``
and ``error_aspect``.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any

from pipelines.metricinstruct.errors import answers
from pipelines.metricinstruct.errors.answers import Analysis, Fault
from pipelines.metricinstruct.errors.record import ErrorRecord
from transforms.reading.decode import fault_of, printable

_REQUIRED = ("location", "aspect", "explanation", "severity", "score_reduction")
_OPTIONAL = ("suggestion", "context")
_OTHER_NAMES = {"error_location": "location", "error_aspect": "aspect"}
_FENCE = re.compile(r"```(?:json)?\s*\n(.*?)```", re.S | re.I)


class _RepeatedNameError(ValueError):
    """An object that has one name twice: Python would drop the first of the two in silence."""


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise _RepeatedNameError
    return value


_DECODER = json.JSONDecoder(object_pairs_hook=_unique)


def parse_structured(answer: str | Mapping[str, Any]) -> Analysis:
    """Return the analysis that ``answer`` gives in JSON, as text or already decoded.

    A fenced block, or the first JSON object of a longer text, is read with the fault
    ``text_around``. Every other fault loses the error it is about, or the whole analysis: no JSON,
    no ``errors`` in it, an unknown, missing or null field, a value of another type or that is no
    text (half a surrogate pair, a NUL), a reduction that is no number. A reduction given as a text
    of digits is read as a number.
    """
    faults: list[Fault] = []
    value: Any = answer
    if isinstance(answer, str):
        text, fault = _object_text(answer)
        if fault is not None:
            faults.append(fault)
        try:
            value, _ = _DECODER.raw_decode(text)
        except _RepeatedNameError:
            return Analysis(faults=(Fault(answers.REPEATED_FIELD),))
        except (ValueError, RecursionError):
            return Analysis(faults=(Fault(answers.NOT_JSON),))
    if not isinstance(value, Mapping) or "errors" not in value:
        return Analysis(faults=(Fault(answers.NOT_AN_ANALYSIS),))
    faults.extend(
        Fault(answers.UNKNOWN_FIELD, value=_short(name))
        for name in value
        if name not in ("errors", "output")
    )
    output = value.get("output")
    if "output" in value and not isinstance(output, str):
        faults.append(_type_fault(output, None, "output"))
        output = None
    elif output is not None and fault_of(output):
        faults.append(Fault(answers.NOT_TEXT, value="output"))
        output = None
    items = value["errors"]
    if isinstance(items, Mapping):
        items = list(items.values())
    if not isinstance(items, list):
        faults.append(_type_fault(items, None, "errors"))
        items = []
    errors = (_error(item, number, faults) for number, item in enumerate(items, 1))
    return Analysis(tuple(error for error in errors if error is not None), tuple(faults), output)


def _object_text(answer: str) -> tuple[str, Fault | None]:
    """Return the text from where its JSON begins, and the fault of text around it."""
    text = answer.strip()
    around = None
    fence = _FENCE.search(text)
    if fence is not None and not text.startswith("{"):
        around = Fault(answers.TEXT_AROUND)
        text = fence[1].strip()
    elif not (text.startswith("{") and text.endswith("}")):
        around = Fault(answers.TEXT_AROUND)
        text = text[max(text.find("{"), 0) :]
    return text, around


def _error(item: Any, number: int, faults: list[Fault]) -> ErrorRecord | None:
    if not isinstance(item, Mapping):
        faults.append(_type_fault(item, number, "error"))
        return None
    found: list[Fault] = []
    fields: dict[str, Any] = {}
    for given, value in item.items():
        name = _OTHER_NAMES.get(given, given)
        if name not in (*_REQUIRED, *_OPTIONAL):
            found.append(Fault(answers.UNKNOWN_FIELD, number, _short(given)))
        elif name in fields:
            found.append(Fault(answers.REPEATED_FIELD, number, name))
        else:
            fields[name] = value
    found.extend(
        Fault(answers.MISSING_FIELD, number, name) for name in _REQUIRED if name not in fields
    )
    for name, value in fields.items():
        if name == "score_reduction":
            fields[name] = _number(value, number, found)
        elif value is None and name in _OPTIONAL:
            continue
        elif not isinstance(value, str):
            found.append(_type_fault(value, number, name))
        elif fault_of(value):
            found.append(Fault(answers.NOT_TEXT, number, name))
    faults.extend(found)
    return None if found else ErrorRecord(**fields)


def _number(value: Any, number: int, faults: list[Fault]) -> float | None:
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            faults.append(Fault(answers.NOT_A_NUMBER, number, "score_reduction"))
            return None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        faults.append(_type_fault(value, number, "score_reduction"))
        return None
    # A very long integer is no float, and JSON as Python reads it may hold NaN and Infinity.
    if abs(value) > 1e9 or not math.isfinite(value):
        faults.append(Fault(answers.NOT_A_NUMBER, number, "score_reduction"))
        return None
    return float(value)


def _type_fault(value: Any, number: int | None, name: str) -> Fault:
    return Fault(answers.NULL_FIELD if value is None else answers.WRONG_TYPE, number, name)


def _short(name: Any) -> str:
    return printable(str(name), 40)
