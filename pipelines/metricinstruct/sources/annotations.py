"""Human annotations beside a source: what people marked in its systems' outputs.

JSON lines, one for each output and annotator: ``id`` (the input's id in the source), ``system``,
``annotator`` and ``errors``, a list of objects of ``category`` and, where known, ``start`` and
``end`` (characters of the output), ``text``, ``severity``, ``weight`` (0 or more) and ``comment``.
An empty list says that the annotator found nothing; an error of the category ``No-error`` says so,
too, and marks nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from pipelines.metricinstruct.schema import ANNOTATION, NO_ERROR
from pipelines.metricinstruct.sources.beside import RowBeside
from pipelines.metricinstruct.sources.source import Example, HumanError
from pipelines.metricinstruct.sources.text_files import json_value, lines_of
from pipelines.metricinstruct.sources.values import (
    Unusable,
    as_comment,
    as_list,
    as_number,
    as_object,
    as_text,
    as_whole,
    shown,
)
from transforms.errors import InputError

#: An output: its input's id, and its system.
_Output = tuple[str, str]


class Annotations:
    """The annotations in files, by output; ``rows`` tell which of them an example has asked for.

    Raises:
        InputError: a file has another form, or an annotator judges an output twice.
    """

    def __init__(self, paths: Sequence[str]) -> None:
        self.rows: list[RowBeside] = []
        self._by_output: dict[_Output, dict[str, list[Any]]] = {}
        self._rows_of: dict[_Output, list[RowBeside]] = {}
        for path in paths:
            for number, text in lines_of(path):
                if text.strip():
                    self._add(path, number, text)

    def _add(self, path: str, number: int, text: str) -> None:
        try:
            row = as_object(json_value(text), "line")
            item, system, annotator = (
                as_text(str(row[name]), name) for name in ("id", "system", "annotator")
            )
            errors = as_list(row.get("errors"), "errors")
            for error in errors:
                _human_error(as_object(error, "errors"), annotator, "")
        except (KeyError, Unusable, RecursionError) as error:
            fault = (
                f"{error.field or 'line'}: {error}" if isinstance(error, Unusable) else str(error)
            )
            raise InputError(
                f"{path}, line {number}: annotations are objects of id, system, annotator and "
                f"errors, each of these with a category ({fault})"
            ) from error
        judged = self._by_output.setdefault((item, system), {})
        if annotator in judged:
            raise InputError(
                f"{path}, line {number}: {annotator} has judged that output already; write all "
                "errors of an output and annotator on one line"
            )
        judged[annotator] = errors
        told = RowBeside(ANNOTATION, path, number, item, system, text)
        self.rows.append(told)
        self._rows_of.setdefault((item, system), []).append(told)

    def on(self, example: Example) -> Example:
        """Return the example of an output with what people marked in it."""
        output = (example.item or "", example.system or "")
        judged = self._by_output.get(output)
        if not judged or example.hypothesis is None:
            return example
        for row in self._rows_of[output]:
            row.used = True
        errors = list(example.errors)
        for annotator, marked in sorted(judged.items()):
            errors += [_human_error(error, annotator, example.hypothesis) for error in marked]
            if not marked:
                errors.append(HumanError(annotator, NO_ERROR, NO_ERROR))
        return replace(example, errors=tuple(errors))


def _human_error(error: Any, annotator: str, output: str) -> HumanError:
    """Return an error, with its place where it has one in the output.

    A text that isn't where the offsets say is one without a place; without offsets it is looked
    for, and has a place where it stands once.
    """
    text = as_comment(error.get("text"))
    severity = as_comment(error.get("severity"))
    category = as_text(error.get("category"), "category")
    span = None
    if _given(error, "start") is not None:
        span = tuple(as_whole(error.get(name), name) for name in ("start", "end"))
    if category.lower() == NO_ERROR.lower():
        category = NO_ERROR
        if text is not None or (span and span[0] < span[1]):
            raise Unusable("no_error_marks_text", "category", category)
    unplaced = HumanError(
        annotator,
        category,
        severity and severity.strip().capitalize(),
        _weight(_given(error, "weight")),
        text=text,
        comment=as_comment(error.get("comment")),
    )
    if span is None:
        if text is None or output.count(text) != 1:
            return unplaced
        start, end = output.index(text), output.index(text) + len(text)
    else:
        start, end = span
    found = output[max(start, 0) : end]
    if not 0 <= start < end <= len(output) or (text is not None and found != text):
        return unplaced
    return replace(unplaced, side="output", start=start, end=end, text=found)


def _given(error: Any, name: str) -> Any:
    """Return what stands in ``name``, None where that is blank: tables write nothing so."""
    value = error.get(name)
    return None if isinstance(value, str) and not value.strip() else value


def _weight(value: Any) -> float | None:
    """Return points off, on whatever scale they are; None where none are given."""
    if value is None:
        return None
    weight = as_number(value)
    if weight is None or weight < 0:
        raise Unusable("not_a_number" if weight is None else "negative", "weight", shown(value))
    return weight
