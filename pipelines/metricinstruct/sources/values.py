"""Values: what stands in a field, as what a source takes it for; else why it can't be used."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from transforms.reading.decode import fault_of, printable

#: Highest number of characters of a value that a reject keeps.
MAX_VALUE_CHARACTERS = 200


class Unusable(Exception):  # noqa: N818 - not an error of the program: it becomes a reject
    """A row that can't be used: the rule it breaks, the field, and the value that breaks it."""

    def __init__(self, rule: str, field: str | None = None, value: str | None = None) -> None:
        super().__init__(rule)
        self.rule = rule
        self.field = field
        self.value = value


def as_text(value: Any, name: str) -> str:
    """Return ``value`` as text without white space at both ends.

    Raises:
        Unusable: it is missing, no text, blank, or holds what is not text.
    """
    if not isinstance(value, str):
        raise Unusable("missing" if value is None else "not_text", name, shown(value))
    text = value.strip()
    if not text:
        raise Unusable("blank", name)
    if fault := fault_of(text):
        raise Unusable(fault, name)
    return text


def as_list(value: Any, name: str) -> list[Any]:
    """Return ``value`` as a list.

    Raises:
        Unusable: it is missing or no list.
    """
    if not isinstance(value, list):
        raise Unusable("missing" if value is None else "not_a_list", name, shown(value))
    return value


def as_object(value: Any, name: str) -> Mapping[str, Any]:
    """Return ``value`` as an object.

    Raises:
        Unusable: it is missing or none.
    """
    if not isinstance(value, Mapping):
        raise Unusable("missing" if value is None else "not_an_object", name, shown(value))
    return value


def as_comment(value: Any) -> str | None:
    """Return ``value`` where it is a text that says something, else None: nothing hangs on it.

    It is whole, whatever its length: a marked text that was cut would have another place.
    """
    return printable(value, len(value)) if isinstance(value, str) and value.strip() else None


def as_whole(value: Any, name: str) -> int:
    """Return ``value`` as a whole number.

    Raises:
        Unusable: it is none.
    """
    if not isinstance(value, int) or isinstance(value, bool):
        raise Unusable("missing" if value is None else "not_a_whole_number", name, shown(value))
    return value


def as_number(value: Any) -> float | None:
    """Return ``value`` as a finite number, None where it is none."""
    if not isinstance(value, bool | int | float | str):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):  # no number, or an integer beyond all floats
        return None
    return number if math.isfinite(number) else None


def mean(numbers: list[float | None]) -> float | None:
    """Return the mean of the numbers that are there, None where none is."""
    present = [number for number in numbers if number is not None]
    return sum(present) / len(present) if present else None


def shown(value: Any) -> str | None:
    """Return the beginning of ``value`` as a reject shows it."""
    if value is None:
        return None
    try:
        return str(value)[:MAX_VALUE_CHARACTERS]
    except RecursionError:  # nested just deeply enough to be read
        return type(value).__name__


def distinct(*texts: str) -> tuple[str, ...]:
    """Return ``texts`` in their order, each once."""
    return tuple(dict.fromkeys(texts))
