"""Reading: one file of a source to frames of examples, human errors and rejected rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import polars as pl

from pipelines.metricinstruct.schema import SYNTHETIC
from pipelines.metricinstruct.sources.annotations import Annotations
from pipelines.metricinstruct.sources.beside import STAGE, beside_frame
from pipelines.metricinstruct.sources.chunk import Chunk, key_of
from pipelines.metricinstruct.sources.numbered_inputs import NumberedInputs
from pipelines.metricinstruct.sources.outputs import Outputs, read_outputs
from pipelines.metricinstruct.sources.rows import rows_of
from pipelines.metricinstruct.sources.source import (
    Example,
    Rejected,
    Row,
    Source,
    outputs_of,
)
from pipelines.metricinstruct.sources.unreadable import FAULT
from pipelines.metricinstruct.sources.values import MAX_VALUE_CHARACTERS
from transforms.errors import InputError
from transforms.ledger import count_in
from transforms.reading.decode import printable
from transforms.splits import split_of_file

#: Examples and rejects that one chunk of frames holds at most, but for those of its last row.
CHUNK_ROWS = 4096


@dataclass(frozen=True)
class SourceFile:
    """One file to read.

    Attributes:
        source: name of its source.
        channel: real or synthetic.
        path: the file, or a dataset, see ``hub``.
        outputs: files with outputs for its inputs (real channel), where it has none itself.
        inputs: files with the inputs of its rows, where it has none itself.
        annotations: files with human annotations of its outputs (real channel).
        counts_beside: whether the rows of outputs and annotations are counted when it is read; so
            of one of a source's files.
    """

    source: str
    channel: str
    path: str
    outputs: tuple[str, ...] = ()
    inputs: tuple[str, ...] = ()
    annotations: tuple[str, ...] = ()
    counts_beside: bool = True


def read_source_file(
    file: SourceFile, source: Source, chunk_rows: int = CHUNK_ROWS
) -> Iterator[tuple[str, pl.DataFrame]]:
    """Yield what a file holds as named frames, a chunk at a time.

    ``examples`` has the columns of ``EXAMPLES``, ``human_errors`` those of ``HUMAN_ERRORS``,
    ``rejected`` those of ``REJECTED``; ``counts`` (``ledger.COUNTS``) says how many rows were read,
    counted apart: it is the sum of ``input_rows`` over examples and rejected. ``beside`` (schema
    ``BESIDE``) tells which rows of outputs and annotations were asked for.

    Raises:
        InputError: the file, or one beside it, can't be read or has another form.
    """
    outputs, annotations = read_outputs(file.outputs), Annotations(file.annotations)
    chunk = Chunk(file.channel, source, split_of_file(file.path))
    rows = _Counted(rows_of(file.path, source))
    readable = _readable(rows, chunk)
    if source.input_place:
        readable = NumberedInputs(file.inputs).joined(readable, source.input_place)
    for row, yielded in source.read(readable):
        if file.channel == SYNTHETIC and isinstance(yielded, Rejected) and not yielded.left_out:
            # Where the input and its reference are what is wanted, its outputs don't matter.
            read = yielded.example
            yielded = read if read and read.references else yielded
        if isinstance(yielded, Rejected):
            chunk.reject(row, yielded)
        elif file.channel == SYNTHETIC:
            chunk.add_input(row, yielded)
        else:
            for example in _complete(yielded, outputs, rows.count - 1):
                if isinstance(example, Rejected):
                    chunk.reject(row, example)
                else:
                    chunk.add_output(row, annotations.on(example))
        if chunk.size >= chunk_rows:
            yield from chunk.frames()
    outputs.check_rows(rows.count, file.path)
    yield from chunk.frames()
    beside = [*outputs.rows, *annotations.rows]
    if beside:
        yield "beside", beside_frame(beside, source)
    if beside and file.counts_beside:
        yield "counts", count_in(STAGE, len(beside))
    yield "counts", count_in("input_rows", rows.count)


def read_keys(
    paths: Sequence[str], source: Source, items: frozenset[str] | None = None
) -> list[str]:
    """Return the keys of the inputs in files of a source, sorted: a list of evaluation inputs.

    Args:
        paths: files in the source's own form, e.g. SummEval's annotations.
        source: theirs.
        items: the ids of the inputs that count, None for all (WebNLG's 178 go by their ids).

    Raises:
        InputError: a file can't be read or has another form; an id is of no input; without ids, a
            row's input can't be read, so that it would not be left out.
    """
    keys, found = set(), set()
    for path in paths:
        unread: dict[int, str] = {}
        readable = _read_or_noted(rows_of(path, source), unread)
        for row, yielded in source.read(readable):
            example = yielded.example if isinstance(yielded, Rejected) else yielded
            if example and (items is None or example.item in items):
                keys.add(key_of(example, source))
                found.add(example.item)
            elif isinstance(yielded, Rejected) and not (
                # A blank input comes in from no other file of the source either.
                example or yielded.left_out or yielded.rule == "blank"
            ):
                unread[row.line] = yielded.rule
        if unread and items is None:
            raise InputError(
                f"{path}: the input can't be read of line{_listed(_told(unread))}, and would not "
                "be left out; mend the file, or give a file of keys (the column key of "
                "`structured` has them)"
            )
    if missing := (items or frozenset()) - found:
        ids = [printable(item, MAX_VALUE_CHARACTERS) for item in sorted(missing)]
        raise InputError(
            f"{', '.join(paths)}: no input with the id{_listed(ids)}; check the list of ids"
        )
    return sorted(keys)


def _read_or_noted(rows: Iterator[Row], unread: dict[int, str]) -> Iterator[Row]:
    """Yield the rows that could be read; of the others, note the rule that each line breaks."""
    for row in rows:
        if FAULT in row.fields:
            unread[row.line] = row.fields[FAULT][0].rule
        else:
            yield row


def _told(unread: dict[int, str]) -> list[str]:
    return [f"{line} ({rule})" for line, rule in sorted(unread.items())]


def _listed(values: Sequence[str], most: int = 10) -> str:
    """Return ``values`` as they follow a noun in the singular."""
    shown = ", ".join(values[:most])
    more = f" and {len(values) - most} more" if len(values) > most else ""
    return f"{'s' if len(values) > 1 else ''} {shown}{more}"


class _Counted:
    """Counts the rows that pass."""

    def __init__(self, rows: Iterator[Row]) -> None:
        self._rows = rows
        self.count = 0

    def __iter__(self) -> Iterator[Row]:
        for row in self._rows:
            self.count += 1
            yield row


def _readable(rows: _Counted, chunk: Chunk) -> Iterator[Row]:
    """Yield the rows that could be read; the others become rejects."""
    for row in rows:
        if FAULT in row.fields:
            rejected, text = row.fields[FAULT]
            chunk.reject(row, rejected, text)
        else:
            yield row


def _complete(example: Example, outputs: Outputs, row: int) -> Iterator[Example | Rejected]:
    if example.hypothesis is not None:
        yield example
        return
    found = outputs.of(example, row)
    if not found:
        yield Rejected("no_output", value=example.item, example=example)
    yield from outputs_of(example, ((system, text, None) for system, text in found))
