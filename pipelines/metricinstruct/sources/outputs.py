"""Outputs: what systems wrote for a source's inputs, where it stands in files of its own.

Three forms are read: a text file with one output a line, line i for row i of the source's file
(its system is the file's name, or its folder's where all are called ``primary``); JSON lines of
``id``, ``system`` and ``output``; and a sampling report (``model_name`` and ``prompts``, each with
``prompt`` and ``results``), which goes by the text of the request.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from pipelines.metricinstruct.schema import OUTPUT
from pipelines.metricinstruct.sources.beside import RowBeside
from pipelines.metricinstruct.sources.rows import kind_of
from pipelines.metricinstruct.sources.source import Example
from pipelines.metricinstruct.sources.text_files import json_value, lines_of, whole_json
from pipelines.metricinstruct.sources.values import Unusable, as_list
from transforms.errors import InputError
from transforms.reading.files import decompressed_name

#: What a row names its input by.
_ITEM, _REQUEST = "item", "request"
_DECORATION = re.compile(r"[-_.](?:test|dev|val|valid|validation|train)?[-_.]?predictions?$")


@dataclass
class Outputs:
    """The outputs of one source by what they are joined by.

    Attributes:
        by_row: outputs a row, for each system; all have as many as the file has rows.
        by_item: system and output by the input's id.
        by_request: system and output by the text of the request.
        rows: those of the two that go by what they name; they tell whether it was asked for.
    """

    by_row: dict[str, list[str]] = field(default_factory=dict)
    by_item: dict[str, list[tuple[str, str]]] = field(default_factory=dict)
    by_request: dict[str, list[tuple[str, str]]] = field(default_factory=dict)
    rows: list[RowBeside] = field(default_factory=list)
    _rows_of: dict[tuple[str, str], list[RowBeside]] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.by_row or self.by_item or self.by_request)

    def of(self, example: Example, row: int) -> list[tuple[str, str]]:
        """Return system and output of all systems for the input ``example``, on row ``row``."""
        found = [
            (system, lines[row])
            for system, lines in sorted(self.by_row.items())
            if row < len(lines)
        ]
        if example.item is not None:
            found += self.by_item.get(example.item, [])
            self._use(_ITEM, example.item)
        request = f"{example.instruction or ''}\n{example.input_context}".strip()
        self._use(_REQUEST, request)
        return found + self.by_request.get(request, [])

    def add(self, kind: str, name: str, row: RowBeside) -> None:
        """Take note of a row that goes by an item's or a request's ``name``."""
        self.rows.append(row)
        self._rows_of.setdefault((kind, name), []).append(row)

    def _use(self, kind: str, name: str) -> None:
        for row in self._rows_of.get((kind, name), ()):
            row.used = True

    def check_rows(self, rows: int, path: str) -> None:
        """Make sure that outputs by row are for a file of so many rows.

        Raises:
            InputError: they are more or fewer.
        """
        for system, lines in self.by_row.items():
            if len(lines) != rows:
                raise InputError(
                    f"{path}: has {rows} rows, but {system} has {len(lines)} lines of outputs; "
                    "line i must be the output for row i: give each file its own outputs"
                )


def read_outputs(paths: Sequence[str]) -> Outputs:
    """Return the outputs in the files ``paths``.

    Raises:
        InputError: one of them has none of the forms.
    """
    outputs = Outputs()
    for path in paths:
        kind = kind_of(path, "txt")
        if kind == "json":
            _read_report(path, outputs)
        elif kind == "jsonl":
            _read_json_lines(path, outputs)
        elif kind == "txt":
            system = _system_of(path)
            if system in outputs.by_row:
                raise InputError(f"{path}: there are two files of outputs by {system}; rename one")
            outputs.by_row[system] = [text for _, text in lines_of(path)]
        else:
            raise InputError(
                f"{path}: outputs are read from text (one a line), .jsonl (id, system, output) "
                "or a sampling report (.json)"
            )
    return outputs


def _system_of(path: str) -> str:
    folder, name = os.path.split(path)
    name = decompressed_name(name)
    stem = name.split(".")[0] if name.lower().startswith("primary") else os.path.splitext(name)[0]
    if stem.lower() == "primary":
        return os.path.basename(folder) or stem
    return _DECORATION.sub("", stem)


def _read_json_lines(path: str, outputs: Outputs) -> None:
    for number, text in lines_of(path):
        if not text.strip():
            continue
        try:
            value = json_value(text)
            item, system, output = str(value["id"]), str(value["system"]), value["output"]
        except (Unusable, KeyError, TypeError, RecursionError) as error:
            raise InputError(
                f"{path}, line {number}: outputs are objects of id, system and output "
                f"({type(error).__name__}: {error})"
            ) from error
        outputs.by_item.setdefault(item, []).append((system, output))
        outputs.add(_ITEM, item, RowBeside(OUTPUT, path, number, item, system, text))


def _read_report(path: str, outputs: Outputs) -> None:
    report: Any = whole_json(path)
    try:
        for place, prompt in enumerate(report["prompts"], 1):
            request, system = prompt["prompt"].strip(), str(report["model_name"])
            found = outputs.by_request.setdefault(request, [])
            outputs.add(_REQUEST, request, RowBeside(OUTPUT, path, place, None, system, request))
            for result in prompt["results"]:
                for number, text in enumerate(as_list(result["outputs"], "outputs"), 1):
                    name = f"{report['model_name']} {result['sampling_config']}"
                    found.append((name if number == 1 else f"{name} {number}", text))
    except (Unusable, KeyError, TypeError, AttributeError) as error:
        raise InputError(
            f"{path}: is not a sampling report (model_name, prompts: prompt, results)"
        ) from error
