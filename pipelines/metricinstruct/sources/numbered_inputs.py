"""Numbered inputs: files of inputs that a source's rows name by a file and a place in it.

Some datasets publish annotations and inputs apart: a row says "input 17 of gsmarena", and the
inputs are a JSON array in a file whose path tells which they are (``gsmarena/test.json``).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from pipelines.metricinstruct.sources.source import InputPlace, Row
from pipelines.metricinstruct.sources.text_files import whole_json
from transforms.errors import InputError

#: Field under which a row carries its input.
INPUT = "input"


class NumberedInputs:
    """The inputs in files of JSON arrays.

    Raises:
        InputError: one of them is no array.
    """

    def __init__(self, paths: Sequence[str]) -> None:
        self._arrays: list[tuple[str, list[Any]]] = []
        for path in paths:
            values = whole_json(path)
            if not isinstance(values, list):
                raise InputError(f"{path}: inputs are read from a JSON array, one value an input")
            self._arrays.append((path, values))

    def joined(self, rows: Iterator[Row], place: InputPlace) -> Iterator[Row]:
        """Yield the rows, those whose input is found with it; their own stays.

        Raises:
            InputError: two files could have a row's input.
        """
        found: dict[str, list[Any]] = {}
        for row in rows:
            name, number = row.fields.get(place.file), row.fields.get(place.number)
            if not isinstance(name, str) or type(number) is not int or INPUT in row:
                yield row
                continue
            if name not in found:
                found[name] = self._named(name)
            inputs = found[name]
            if 0 <= number < len(inputs):
                yield Row({**row.fields, INPUT: inputs[number]}, row.file, row.line)
            else:
                yield row

    def _named(self, name: str) -> list[Any]:
        whole = re.compile(rf"(?<![0-9A-Za-z]){re.escape(name)}(?![0-9A-Za-z])")
        having = [(path, values) for path, values in self._arrays if whole.search(path)]
        if len(having) > 1:
            raise InputError(
                f"{having[0][0]} and {having[1][0]}: both are called {name}; leave the one whose "
                "inputs the rows are about"
            )
        return having[0][1] if having else []
