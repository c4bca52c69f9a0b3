"""JSON rows: of a file with one object a line, of an array, or of one value that is unfolded."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, TypeAlias

from pipelines.metricinstruct.sources.source import Row, Source
from pipelines.metricinstruct.sources.text_files import (
    Line,
    all_lines,
    json_value,
    parsed_json,
    without_repeats,
)
from pipelines.metricinstruct.sources.unreadable import unreadable
from pipelines.metricinstruct.sources.values import Unusable
from transforms.errors import InputError
from transforms.reading.json_values import DECODER, MARK, shown

Unfold: TypeAlias = Callable[[Any], Iterator[Any]]


def json_lines(path: str, source: Source) -> Iterator[Row]:
    """Yield the rows of a file of one JSON object a line."""
    for line in all_lines(path):
        if line.is_blank:
            continue
        try:
            values = _line_values(line, source)
        except Unusable as fault:
            yield unreadable(path, line.number, fault, line.text)
        else:
            yield from (_row(value, path, line.number) for value in values)


def _line_values(line: Line, source: Source) -> list[Any]:
    """Return the values of the rows that a line is."""
    if line.too_long:
        raise Unusable("too_long")
    value = json_value(line.text)
    if source.unfold is None or not isinstance(value, Mapping):
        return [value]
    values = list(source.unfold(value))
    if not values:
        raise Unusable("empty")
    return values


def json_file(path: str, source: Source) -> Iterator[Row]:
    """Return the rows of a file named ``.json``: an array, JSON lines, or one value to unfold.

    Raises:
        InputError: it is none of these.
    """
    first, second = _begins_with_objects(path)
    if first and (second is not None or not source.unfold):
        return json_lines(path, source)  # JSON lines under the name of JSON
    try:
        value = parsed_json(path)
    except InputError:
        if second:  # so they are here, and the first can't be read
            return json_lines(path, source)
        raise
    if isinstance(value, list):
        return _array(path, value)
    if source.unfold:
        return unfolded(path, source, source.unfold, value)
    raise InputError(
        f"{path}: is one JSON value, not an array of objects; {source.name} reads {source.files}"
    )


def _begins_with_objects(path: str) -> tuple[bool, bool | None]:
    """Return of the first two lines whether each is an object by itself, None for no line."""

    def is_object(line: Line) -> bool:
        if line.too_long or not line.text.removeprefix(MARK).lstrip().startswith("{"):
            return False
        try:
            return isinstance(DECODER.decode(line.text.removeprefix(MARK)), dict)
        except (ValueError, RecursionError):
            return False

    filled = (line for line in all_lines(path) if not line.is_blank)
    found = [is_object(line) for line in islice(filled, 2)]
    return found[0] if found else False, found[1] if len(found) > 1 else None


def _array(path: str, values: list[Any]) -> Iterator[Row]:
    for number, value in enumerate(values, 1):
        try:
            yield _row(without_repeats(value), path, number)
        except Unusable as fault:
            yield unreadable(path, number, fault, shown(value))


def unfolded(path: str, source: Source, unfold: Unfold, value: Any) -> Iterator[Row]:
    """Yield the rows of a file that is one value, of which only the source knows the form.

    Raises:
        InputError: it is of another form.
    """
    try:
        yield from numbered(path, unfold(without_repeats(value)))
    except Unusable as fault:
        raise InputError(
            f"{path}: is not a file of {source.name} ({fault.field}: {fault.rule}); "
            f"it reads {source.files}"
        ) from fault


def numbered(path: str, values: Iterable[Any]) -> Iterator[Row]:
    """Return ``values`` as rows; one that is no object can't be read."""
    return (_row(value, path, number) for number, value in enumerate(values, 1))


def _row(value: Any, path: str, line: int) -> Row:
    if isinstance(value, Mapping):
        return Row(value, path, line)
    return unreadable(path, line, Unusable("not_an_object"), shown(value))
