"""JSON rows: of a file with one object a line, of an array, or of one value that is unfolded."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pipelines.metricinstruct.sources.source import Row, Source, Unfold
from pipelines.metricinstruct.sources.text_files import (
    Line,
    all_lines,
    json_value,
    lenient_json,
    sound,
)
from pipelines.metricinstruct.sources.unreadable import unreadable
from pipelines.metricinstruct.sources.values import MAX_VALUE_CHARACTERS, Unusable
from transforms.errors import InputError
from transforms.reading.decode import printable
from transforms.reading.json_values import DECODER, MARK, repeated_field, shown


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
    values = [row for _, row in source.unfold(value)]
    if not values:
        raise Unusable("empty")
    return values


def json_file(path: str, source: Source) -> Iterator[Row]:
    """Return the rows of a file named ``.json``: an array, JSON lines, or one value to unfold.

    Raises:
        InputError: it is none of these.
    """
    first, second = _first_lines(path)
    if _is_object(first) and (second or not source.unfold):
        return json_lines(path, source)  # JSON lines under the name of JSON
    try:
        value = lenient_json(path)
    except InputError:
        # So they are here, and the first can't be read.
        if _is_object(second) or (second and _is_braced(first)):
            return json_lines(path, source)
        raise
    if isinstance(value, list):
        return _array(path, value)
    if source.unfold:
        return unfolded(path, source, source.unfold, value)
    raise InputError(
        f"{path}: is one JSON value, not an array of objects; {source.name} reads {source.files}"
    )


def _first_lines(path: str) -> tuple[Line | None, Line | None]:
    """Return the first two lines that say something, None for one that isn't there."""
    filled = (line for line in all_lines(path) if not line.is_blank)
    return next(filled, None), next(filled, None)


def _is_object(line: Line | None) -> bool:
    """Whether a line is an object by itself."""
    if line is None or line.too_long:
        return False
    text = line.text.removeprefix(MARK)
    try:
        return text.lstrip().startswith("{") and isinstance(DECODER.decode(text), dict)
    except (ValueError, RecursionError):
        return False


def _is_braced(line: Line | None) -> bool:
    """Whether a line begins and ends as an object by itself does."""
    text = line.text.removeprefix(MARK).strip() if line and not line.too_long else ""
    return text.startswith("{") and text.endswith("}")


def _array(path: str, values: list[Any]) -> Iterator[Row]:
    return (_sound_row(value, value, path, number) for number, value in enumerate(values, 1))


def unfolded(path: str, source: Source, unfold: Unfold, value: Any) -> Iterator[Row]:
    """Yield the rows of a file that is one value, of which only the source knows the form.

    Raises:
        InputError: it is of another form, or an object that holds entries names one twice.
    """
    try:
        entries = list(unfold(value))
        # An entry's own faults cost the entry; what is named twice outside would be lost entries.
        name = repeated_field(value, within={id(entry) for entry, _ in entries})
        if name is not None:
            raise Unusable("duplicate_field", printable(name, MAX_VALUE_CHARACTERS))
    except Unusable as fault:
        raise InputError(
            f"{path}: is not a file of {source.name} ({fault.field}: {fault.rule}); "
            f"it reads {source.files}"
        ) from fault
    for number, (entry, row) in enumerate(entries, 1):
        yield _sound_row(entry, row, path, number)


def numbered(path: str, values: Iterable[Any]) -> Iterator[Row]:
    """Return ``values`` as rows; one that is no object can't be read."""
    return (_row(value, path, number) for number, value in enumerate(values, 1))


def _sound_row(entry: Any, row: Any, path: str, line: int) -> Row:
    """Return the row that was made of an entry, unreadable where the entry is malformed."""
    try:
        sound(entry)
    except Unusable as fault:
        return unreadable(path, line, fault, shown(entry))
    return _row(row, path, line)


def _row(value: Any, path: str, line: int) -> Row:
    if isinstance(value, Mapping):
        return Row(value, path, line)
    return unreadable(path, line, Unusable("not_an_object"), shown(value))
