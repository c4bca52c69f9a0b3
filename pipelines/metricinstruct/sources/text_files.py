"""Text files: their lines, and the JSON values that lines and whole files are."""

from __future__ import annotations

from collections.abc import Iterator
from json import JSONDecoder
from typing import Any, NamedTuple

from pipelines.metricinstruct.sources.values import MAX_VALUE_CHARACTERS, Unusable
from transforms.errors import InputError
from transforms.reading.decode import (
    MAX_RECORD_BYTES,
    decode_rows,
    fault_of,
    printable,
    text_blocks,
    whole_text,
)
from transforms.reading.json_values import (
    DECODER,
    LENIENT_DECODER,
    MARK,
    holds_constant,
    reason,
    repeated_field,
)


class Line(NamedTuple):
    """A line without its end, and its number from 1.

    Where it is ``too_long``, ``text`` is only its beginning.
    """

    number: int
    text: str
    too_long: bool

    @property
    def is_blank(self) -> bool:
        """Whether it says nothing."""
        return not self.text.removeprefix(MARK).strip()


def all_lines(path: str) -> Iterator[Line]:
    """Yield the lines of a text file, those that are too long to be held among them."""
    for block in text_blocks(path):
        texts = decode_rows(block.data).removesuffix("\n").split("\n")
        for number, text in enumerate(texts, block.line):
            yield Line(number, text.removesuffix("\r"), block.too_long)


def lines_of(path: str) -> Iterator[tuple[int, str]]:
    """Yield the lines of a text file without their ends, and their numbers from 1.

    Raises:
        InputError: the file can't be read, is not text, or has a line that is too long.
    """
    for number, text, too_long in all_lines(path):
        if too_long:
            raise InputError(
                f"{path}, line {number}: is longer than {MAX_RECORD_BYTES} bytes; shorten it"
            )
        yield number, text


def json_value(text: str) -> Any:
    """Return the JSON value that a line is.

    Raises:
        Unusable: bad_json, nul_byte, invalid_bytes, duplicate_field.
    """
    try:
        value = DECODER.decode(text.removeprefix(MARK))
    except (ValueError, RecursionError) as error:
        raise Unusable(fault_of(text) or "bad_json", None, reason(error)) from error
    return _without_repeats(value)


def _without_repeats(value: Any) -> Any:
    """Return a value of ``DECODER`` as it is.

    Raises:
        Unusable: duplicate_field; an object, at whatever depth, names a field twice.
    """
    name = repeated_field(value)
    if name is not None:
        raise Unusable("duplicate_field", printable(name, MAX_VALUE_CHARACTERS))
    return value


def sound(value: Any) -> Any:
    """Return a value of ``lenient_json`` as it is.

    Raises:
        Unusable: bad_json (NaN or Infinity stands in it), duplicate_field; at whatever depth.
    """
    if holds_constant(value):
        raise Unusable("bad_json")
    return _without_repeats(value)


def lenient_json(path: str) -> Any:
    """Return the value of a JSON file, whose parts are for ``sound`` to judge.

    Objects may name a field twice, and NaN and Infinity may stand for numbers.

    Raises:
        InputError: it is no JSON otherwise.
    """
    return _parsed(path, LENIENT_DECODER)


def _parsed(path: str, decoder: JSONDecoder) -> Any:
    try:
        return decoder.decode(whole_text(path))
    except (ValueError, RecursionError) as error:
        raise InputError(
            f"{path}: is not JSON ({reason(error)}); fetch or write it again"
        ) from error


def whole_json(path: str) -> Any:
    """Return the value of a JSON file.

    Raises:
        InputError: it is no JSON, or an object in it names a field twice.
    """
    try:
        return _without_repeats(_parsed(path, DECODER))
    except Unusable as fault:
        raise InputError(
            f"{path}: an object in it names {fault.field} twice; leave the one that is meant"
        ) from fault
