"""Chunks: examples, rejects and human errors as rows of their frames."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, replace
from typing import Any

import polars as pl

from pipelines.metricinstruct.schema import EXAMPLES, HUMAN_ERRORS, REAL, REJECTED
from pipelines.metricinstruct.sources.source import (
    Example,
    HumanError,
    Rejected,
    Row,
    Source,
    output_id,
    source_key,
)
from pipelines.metricinstruct.sources.translation import instruction_for
from transforms.frames import from_rows, polars_schema
from transforms.reading.decode import fault_of, printable
from transforms.reading.json_values import shown

#: So many hex digits of the key stand for an input's id where the source gives none.
ITEM_LENGTH = 16
_ERROR_FIELDS = tuple(field.name for field in fields(HumanError))


def key_of(example: Example, source: Source) -> str:
    """Return the key of the input of ``example``."""
    return source_key(source.task, _instruction(example, source), example.input_context)


class Chunk:
    """Collects the rows of the three frames."""

    def __init__(self, channel: str, source: Source, split: str | None) -> None:
        self._channel = channel
        self._source = source
        self._split = split
        self._examples: list[tuple[Any, ...]] = []
        self._errors: list[tuple[Any, ...]] = []
        self._rejected: list[tuple[Any, ...]] = []
        self._last: Row | None = None  # the row that has been counted already

    @property
    def size(self) -> int:
        """Examples and rejects that it holds."""
        return len(self._examples) + len(self._rejected)

    def add_output(self, row: Row, example: Example) -> None:
        """Add a system's output."""
        if fault := _fault_of(example):
            self.reject(row, Rejected(fault), input_rows=example.input_rows)
            return
        key = key_of(example, self._source)
        item = example.item or key[:ITEM_LENGTH]
        self._add_example(row, example, key, item)
        self._add_errors(row, example, key, item)

    def add_input(self, row: Row, example: Example) -> None:
        """Add an input with a reference to damage, once for a row."""
        if row is self._last:
            return
        if fault := _fault_of(example):
            self.reject(row, Rejected(fault))
            return
        if not example.references:
            self.reject(row, Rejected("no_reference", example=example))
            return
        key = key_of(example, self._source)
        bare = replace(example, hypothesis=None, system=None, quality=None)
        self._add_example(row, bare, key, example.item or key[:ITEM_LENGTH])

    def reject(
        self,
        row: Row,
        rejected: Rejected,
        text: str | None = None,
        input_rows: int | None = None,
    ) -> None:
        """Add a row, or an output, that can't be used; its annotations stay.

        Args:
            row: the row.
            rejected: why, and what was read of it.
            text: what to show of it; None for what was read.
            input_rows: rows behind it, see ``Example``, where it has no example that tells.
        """
        example = rejected.example
        input_rows = example.input_rows if example else input_rows
        key = key_of(example, self._source) if example else None
        item = example and (example.item or str(key)[:ITEM_LENGTH])
        if text is None:
            told = example and (example.hypothesis or example.input_context)
            text = printable(told or shown(row.fields))
        self._rejected.append(
            (
                "input_row",
                rejected.rule,
                rejected.value and printable(rejected.value),
                "rejected",
                key,
                self._channel,
                self._source.task,
                self._source.name,
                (example and example.split) or self._split,
                item,
                example and example.system,
                rejected.field,
                row.file,
                row.line,
                text,
                self._rows_of(row, input_rows),
            )
        )
        if example and key and item:
            self._add_errors(row, example, key, item)

    def frames(self) -> Iterator[tuple[str, pl.DataFrame]]:
        """Yield what was collected and begin anew."""
        for name, rows, schema in (
            ("examples", self._examples, EXAMPLES),
            ("human_errors", self._errors, HUMAN_ERRORS),
            ("rejected", self._rejected, polars_schema(REJECTED)),
        ):
            if rows:
                yield name, from_rows(rows, schema)
                rows.clear()

    def _add_example(self, row: Row, example: Example, key: str, item: str) -> None:
        self._examples.append(
            (
                key,
                self._channel,
                self._source.task,
                self._source.name,
                example.stratum,
                example.split or self._split,
                item,
                _instruction(example, self._source),
                example.input_context,
                list(example.references),
                example.reference_system,
                example.hypothesis,
                example.system,
                example.quality,
                row.file,
                row.line,
                self._rows_of(row, example.input_rows),
            )
        )

    def _add_errors(self, row: Row, example: Example, key: str, item: str) -> None:
        if self._channel != REAL or not example.errors:
            return
        identity = output_id(key, example.input_context, example.hypothesis or "")
        for error in example.errors:
            values = {name: getattr(error, name) for name in _ERROR_FIELDS}
            values |= {"key": key, "source": self._source.name, "system": example.system}
            values |= {"item": item, "id": identity, "file": row.file}
            values["line"] = error.line or row.line
            self._errors.append(tuple(values[name] for name in HUMAN_ERRORS))

    def _rows_of(self, row: Row, input_rows: int | None) -> int:
        """Return how many rows end here: of a row with several outputs, only the first counts."""
        if input_rows is not None:
            return input_rows
        counted = row is self._last
        self._last = row
        return 0 if counted else 1


def _instruction(example: Example, source: Source) -> str:
    if example.instruction is not None:
        return example.instruction
    return source.instruction or instruction_for(str(example.stratum))


def _fault_of(example: Example) -> str | None:
    """Return the rule that ``example`` breaks where a text of it holds what is not text."""
    spans = [error.text for error in example.errors]
    texts = (example.instruction, example.input_context, example.hypothesis, *spans)
    return fault_of("".join(text for text in (*texts, *example.references) if text))
