"""JSON values: what a row's text says, typed as a schema wants it.

A value is taken when it says what the schema's type can hold, and nothing more is read into it:

- ``String``: a string, or an integer in its digits (``12`` and ``12.0`` are ``"12"``: ids come as
  either); no other number, whose digits several spellings share, and no boolean;
- ``Int64``: an integer (``12``, ``12.0``) within 64 bits;
- ``Boolean``: true or false;
- ``List(String)``: an array of what a String takes, nulls kept; a lone string is a list of one;
- null and an absent field are null; fields that nobody wants are not looked at.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from typing import Any

import polars as pl

from transforms.frames import Schema
from transforms.reading.decode import fault_of

FieldReader = tuple[str, Callable[[Any, str], Any]]

MARK = "\ufeff"
_MAX_EXACT_FLOAT = 2**53


class _Repeated(dict[str, Any]):
    """An object that names a field twice."""

    repeated: frozenset[str]


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) == len(pairs):
        return fields
    result = _Repeated(fields)
    counts = Counter(name for name, _ in pairs)
    result.repeated = frozenset(name for name, count in counts.items() if count > 1)
    return result


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


class _Constant(float):
    """A NaN or Infinity, which JSON has no numbers for."""


DECODER = json.JSONDecoder(object_pairs_hook=_object, parse_constant=_no_constant)
#: Takes NaN and Infinity as well, for values whose parts are judged apart.
LENIENT_DECODER = json.JSONDecoder(object_pairs_hook=_object, parse_constant=_Constant)


def _parts(value: Any, within: Collection[int] = ()) -> Iterator[Any]:
    """Yield a value and all that stands in it, but for the values with an id of ``within``."""
    left = [value]
    while left:
        value = left.pop()
        if id(value) in within:
            continue
        yield value
        if isinstance(value, dict):
            left += value.values()
        elif isinstance(value, list):
            left += value


def repeated_field(value: Any, within: Collection[int] = ()) -> str | None:
    """Return a field that an object of a decoder names twice, at any depth; None for none.

    Args:
        value: what the decoder returned.
        within: ids (``id``) of the values in it that are not looked at.
    """
    repeated = (part for part in _parts(value, within) if isinstance(part, _Repeated))
    return next((min(part.repeated) for part in repeated), None)


def holds_constant(value: Any) -> bool:
    """Return whether NaN or Infinity stands in a value of ``LENIENT_DECODER``, at any depth."""
    return any(isinstance(part, _Constant) for part in _parts(value))


class RowError(Exception):
    """A row that can't be taken: the rule it breaks, where and by what."""

    def __init__(self, rule: str, field: str | None = None, value: str | None = None) -> None:
        super().__init__(rule)
        self.rule = rule
        self.field = field
        self.value = value


def parse_row(text: str) -> Any:
    """Return the JSON value that a line is.

    Raises:
        RowError: nul_byte, invalid_bytes, bad_json.
    """
    if fault := fault_of(text):
        raise RowError(fault)
    try:
        return DECODER.decode(text.removeprefix(MARK))
    except (ValueError, RecursionError) as error:
        raise RowError("bad_json", value=reason(error)) from error


def reason(error: Exception) -> str:
    """Return why the decoder refused a text, without a word of the text."""
    if isinstance(error, json.JSONDecodeError):
        return f"{error.msg} at line {error.lineno} column {error.colno}"
    if isinstance(error, RecursionError):
        return "nested too deeply"
    return "a number that is not JSON's, or too long"


def shown(value: Any) -> str:
    """Return a value as JSON text for a reject; what JSON has no form for, as Python prints it."""
    try:
        return json.dumps(value, ensure_ascii=False, default=str)
    except RecursionError:
        return type(value).__name__


def field_readers(schema: Schema) -> list[FieldReader]:
    """Return, for each field of ``schema``, its name and the function that types its value.

    Raises:
        TypeError: the schema has a type that no rule is given for.
    """
    readers: list[FieldReader] = []
    for name, dtype in schema.items():
        reader = next((reader for known, reader in _READERS if dtype == known), None)
        if reader is None:
            raise TypeError(f"no rule for reading JSON as {dtype}")
        readers.append((name, reader))
    return readers


def typed_row(value: Any, readers: list[FieldReader]) -> list[Any]:
    """Return the typed values of a row's fields.

    Raises:
        RowError: not_an_object, duplicate_field, wrong_type, lone_surrogate, nul_byte.
    """
    if not isinstance(value, dict):
        raise RowError("not_an_object", value=type(value).__name__)
    if isinstance(value, _Repeated):
        for name, _ in readers:
            if name in value.repeated:
                raise RowError("duplicate_field", name)
    row = []
    for name, reader in readers:
        field = value.get(name)
        row.append(field if field is None else reader(field, name))
    return row


def _string(value: Any, name: str) -> str:
    if type(value) is str:
        if fault := fault_of(value):
            rule = "lone_surrogate" if fault == "invalid_bytes" else fault
            raise RowError(rule, name, value)
        return value
    return str(_integer(value, name))


def _strings(value: Any, name: str) -> list[str | None]:
    if type(value) is str:
        return [_string(value, name)]
    if type(value) is list:
        return [None if item is None else _string(item, name) for item in value]
    raise RowError("wrong_type", name, shown(value))


def _int64(value: Any, name: str) -> int:
    number = _integer(value, name)
    if -(2**63) <= number < 2**63:
        return number
    raise RowError("wrong_type", name, shown(value))


def _integer(value: Any, name: str) -> int:
    if type(value) is int:
        return value
    if type(value) is float and value.is_integer() and abs(value) < _MAX_EXACT_FLOAT:
        return int(value)
    raise RowError("wrong_type", name, shown(value))


def _boolean(value: Any, name: str) -> bool:
    if type(value) is bool:
        return value
    raise RowError("wrong_type", name, shown(value))


_READERS: list[tuple[pl.DataType | type[pl.DataType], Callable[[Any, str], Any]]] = [
    (pl.String, _string),
    (pl.Int64, _int64),
    (pl.Boolean, _boolean),
    (pl.List(pl.String), _strings),
]
