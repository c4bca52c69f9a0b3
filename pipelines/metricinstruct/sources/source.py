"""What a source is made of: its rows, the examples they give, and how they are read."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, TypeAlias

from pipelines.metricinstruct.schema import INSTRUCTION_FOLLOWING, NO_ERROR
from pipelines.metricinstruct.sources.values import (
    Unusable,
    as_list,
    as_number,
    as_object,
    as_text,
    distinct,
    shown,
)
from transforms.keys import content_key


@dataclass(frozen=True)
class Row:
    """One row of a source's file.

    Attributes:
        fields: its fields by name.
        file: where it stands.
        line: its line there; its number in parquet files and JSON arrays.
    """

    fields: Mapping[str, Any]
    file: str
    line: int

    def __contains__(self, name: str) -> bool:
        return self.fields.get(name) is not None

    def text(self, name: str) -> str:
        """Return the text in ``name``, without white space at both ends.

        Raises:
            Unusable: it is missing, no text, blank, or holds what is not text.
        """
        return as_text(self.fields.get(name), name)

    def optional(self, name: str) -> str | None:
        """Return the text in ``name``, None where it is missing or blank.

        Raises:
            Unusable: it is no text, or holds what is not text.
        """
        value = self.fields.get(name)
        if value is None or (isinstance(value, str) and not value.strip()):
            return None
        return as_text(value, name)

    def identifier(self, name: str) -> str | None:
        """Return the id in ``name``, a text or whole number, as text; None where none is."""
        value = self.fields.get(name)
        if isinstance(value, int) and not isinstance(value, bool):
            return str(value)
        return self.optional(name)

    def texts(self, name: str) -> tuple[str, ...]:
        """Return the texts of the list in ``name``, each once, without white space at both ends.

        Raises:
            Unusable: it is missing or no list, or one of its values is no text or blank.
        """
        return distinct(*(as_text(value, name) for value in self.values(name)))

    def values(self, name: str) -> list[Any]:
        """Return the list in ``name``.

        Raises:
            Unusable: it is missing or no list.
        """
        return as_list(self.fields.get(name), name)

    def objects(self, name: str) -> list[Mapping[str, Any]]:
        """Return the list of objects in ``name``.

        Raises:
            Unusable: it is missing or no list, or one of its values is no object.
        """
        return [as_object(value, name) for value in self.values(name)]

    def blanks_before(self, name: str) -> int:
        """Return how many characters ``text(name)`` leaves out before the text."""
        value = str(self.fields[name])
        return len(value) - len(value.lstrip())

    def number(self, name: str) -> float | None:
        """Return the number in ``name``, None where it is missing or none."""
        return as_number(self.fields.get(name))


@dataclass(frozen=True)
class HumanError:
    """What one annotator said about an output: an error, or that there is none.

    Attributes are the columns of ``HUMAN_ERRORS``; ``start`` and ``end`` are counted in characters.
    """

    annotator: str
    category: str
    severity: str | None = None
    weight: float | None = None
    side: str | None = None
    start: int | None = None
    end: int | None = None
    text: str | None = None
    comment: str | None = None
    line: int | None = None


def marking_nothing(error: HumanError) -> HumanError | None:
    """Return what says that there is no error as one that marks no text; None for an error."""
    if error.category.lower() != NO_ERROR.lower():
        return None
    return HumanError(error.annotator, NO_ERROR, NO_ERROR, comment=error.comment)


@dataclass(frozen=True)
class Example:
    """An input with its references, and one system's output for it where there is one.

    Attributes:
        input_context: the input, as the model sees it below the instruction.
        references: the first is the one that is shown to the annotator or edited.
        instruction: where it is the row's own; None stands for the source's.
        input_rows: rows behind it; None stands for one for each row, however many examples it has.
    """

    input_context: str
    references: tuple[str, ...] = ()
    hypothesis: str | None = None
    system: str | None = None
    item: str | None = None
    instruction: str | None = None
    stratum: str | None = None
    split: str | None = None
    quality: float | None = None
    reference_system: str | None = None
    errors: tuple[HumanError, ...] = ()
    input_rows: int | None = None


@dataclass(frozen=True)
class Rejected:
    """A row, or the output of one, that can't be used; ``example`` is what was read of it.

    Attributes:
        left_out: the row can be read, but is none of those that the source gives to any channel.
    """

    rule: str
    field: str | None = None
    value: str | None = None
    example: Example | None = None
    left_out: bool = False


class UnusableBesideInput(Unusable):
    """A row that can't be used for something else than its input, which ``example`` has."""

    def __init__(self, fault: Unusable, example: Example) -> None:
        super().__init__(fault.rule, fault.field, fault.value)
        self.example = example


@contextmanager
def beside_input(example: Example) -> Iterator[None]:
    """Keep the input that has been read for the reject of what can't be used within.

    So evaluation inputs are found in rows that can't be used otherwise.
    """
    try:
        yield
    except UnusableBesideInput:
        raise
    except Unusable as fault:
        raise UnusableBesideInput(fault, example) from fault


def rejected(fault: Unusable) -> Rejected:
    """Return the reject of a row that can't be used, with its input where that was read."""
    example = fault.example if isinstance(fault, UnusableBesideInput) else None
    return Rejected(fault.rule, fault.field, fault.value, example)


def outputs_of(
    example: Example, outputs: Iterable[tuple[Any, Any, float | None]]
) -> Iterator[Example | Rejected]:
    """Yield ``example`` once for each output, or why that one can't be used.

    Args:
        example: the input with its references.
        outputs: system, output and quality of each.
    """
    for system, output, quality in outputs:
        try:
            text, name = as_text(output, "output"), as_text(system, "system")
        except Unusable as fault:
            yield Rejected(fault.rule, fault.field, shown(system), example)
        else:
            yield replace(example, hypothesis=text, system=name, quality=quality)


#: What a source's reader yields for a row: what came of it, and the row.
Yielded: TypeAlias = tuple[Row, "Example | Rejected"]
RowReader: TypeAlias = Callable[[Row], Iterator["Example | Rejected"]]
Reader: TypeAlias = Callable[[Iterator[Row]], Iterator[Yielded]]
#: From one value to its entries, each as it stands there and as a row.
Unfold: TypeAlias = Callable[[Any], Iterator[tuple[Any, Any]]]


def row_by_row(read: RowReader) -> Reader:
    """Return the reader of a source whose rows are each read for themselves by ``read``."""

    def reader(rows: Iterator[Row]) -> Iterator[Yielded]:
        for row in rows:
            try:
                for example in read(row):
                    yield row, example
            except Unusable as fault:
                yield row, rejected(fault)
            except RecursionError:
                yield row, Rejected("nested_too_deeply")

    return reader


def plain_fields(input_context: str, reference: str, item: str | None = None) -> RowReader:
    """Return the reader of rows that have the input and the reference each in one field."""

    def read(row: Row) -> Iterator[Example | Rejected]:
        example = Example(row.text(input_context), item=row.identifier(item) if item else None)
        with beside_input(example):
            yield replace(example, references=(row.text(reference),))

    return read


@dataclass(frozen=True)
class InputPlace:
    """The fields that say where a row's input stands, where inputs have files of their own.

    Attributes:
        file: the field with the name of its file or folder.
        number: the field with its place there, from 0.
    """

    file: str
    number: str


@dataclass(frozen=True)
class Source:
    """One dataset and the form of its files.

    Attributes:
        name: what it is called on the command line and in the data.
        task: one of ``TASKS``.
        channels: the channels it serves by itself or with a file of outputs.
        instruction: given to the systems, None where each row has its own.
        licence: of the data, as its publishers state it.
        files: which published file is read, in words.
        read: from the rows of one file to examples.
        requires: alternatives of fields of which a file must have one, else it isn't this source's.
        columns: names of the columns of a TSV file without a header line.
        unfold: from the value of a JSON file that is no array to its entries, as they stand in it
            and as rows; for JSON lines, from one line's value, where a line is not a row by itself.
            It raises Unusable where that value is of another form; an entry that is malformed, or
            a row that is no object, is rejected.
        choice: how outputs are chosen where an input has several (see ``choice.CHOICES``).
        input_place: where a row's input stands, for sources whose inputs have files of their own.
    """

    name: str
    task: str
    channels: tuple[str, ...]
    instruction: str | None
    licence: str
    files: str
    read: Reader
    requires: tuple[tuple[str, ...], ...]
    columns: tuple[str, ...] | None = None
    unfold: Unfold | None = None
    choice: str = "thirds"
    input_place: InputPlace | None = None


@lru_cache(maxsize=64)  # the outputs of one input follow one another
def source_key(task: str, instruction: str, input_context: str) -> str:
    """Return the key of a source input: what all outputs for it, whatever their source, share.

    It is the input's text alone, so that one text meets itself in one partition even where two
    datasets put it under instructions of their own words (and so an evaluation's inputs are found
    everywhere). Where the instruction is the row's own, it belongs to the input.
    """
    if task == INSTRUCTION_FOLLOWING or not input_context.strip():
        return content_key(f"{instruction}\n{input_context}")
    return content_key(input_context)


def output_id(key: str, input_context: str, output: str) -> str:
    """Return the id of an output: 16 hex digits of the SHA-256 of its input's key and both texts.

    By the key, which decides the partition, no two partitions have an id in common; and rows whose
    instruction belongs to the input (see ``source_key``) differ where their instructions do.
    """
    text = f"{key}{len(input_context)}:{input_context}{output}"
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]
