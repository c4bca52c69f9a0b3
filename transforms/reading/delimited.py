"""CSV and TSV: records of quoted and unquoted cells, some of which are broken.

The rules are those of RFC 4180 with any delimiter: a cell is quoted only when its first character
is the quote, a quote within is doubled, and a quoted cell may hold delimiters and line ends. Empty
cells are null, blank lines are no records. What breaks the rules costs its own row only:

- ``ragged_row``: more or fewer cells than there are columns (value: ``found/expected``);
- ``stray_quote``: text behind the closing quote, on the line where the cell began;
- ``unclosed_quote``: a quoted cell that never ends, or only in the midst of another line's text;
- ``too_long``: a line longer than ``MAX_RECORD_BYTES``;
- ``nul_byte``, ``invalid_bytes``: what is not text;
- ``repeated_header``: the header once more, as where files were put one behind the other.

After a broken quote reading resumes on the line after the one where that quote stands.

A block that breaks none of them, as most do, goes to Polars whole; any other is read cell by cell.
Both give the same rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import polars as pl

from transforms.errors import InputError
from transforms.reading.cells import Layout, clean_layout, split_records
from transforms.reading.decode import (
    MAX_RECORD_BYTES,
    TextBlock,
    decode_rows,
    encode_rows,
    fault_of,
    text_blocks,
)
from transforms.reading.records import LINE, RejectedRows, TableChunk, TableFormat


def header_record(block: TextBlock, form: TableFormat, path: str) -> tuple[list[str], int]:
    """Return the cells of the first record of a file's first block, and the bytes up to its end.

    Raises:
        InputError: there is no record, or it is broken.
    """
    if block.too_long:
        raise InputError(f"{path}: its first line is longer than {MAX_RECORD_BYTES} bytes")
    text = decode_rows(block.data)
    for record in split_records(text, form, final=True):
        if record.rule:
            raise InputError(f"{path}: broken quotes in its first row ({record.rule}); mend it")
        if fault := fault_of(text[record.begin : record.end]):
            raise InputError(f"{path}: its first row is not text ({fault}); save it as UTF-8")
        if record.cells:
            return record.cells, len(encode_rows(text[: record.end]))
    raise InputError(f"{path}: has no header line, only blank ones")


def read_delimited(
    path: str, form: TableFormat, names: list[str], wanted: Mapping[str, int]
) -> Iterator[TableChunk]:
    """Yield the rows of a csv or tsv file.

    Args:
        path: the file.
        form: its format.
        names: names of all its columns.
        wanted: the columns to return, in order, with their index in ``names``.
    """
    reader = RecordReader(path, form, names, wanted)
    pending, line = b"", 1
    in_header = form.columns is None
    for block in text_blocks(path):
        data = block.data
        if in_header:
            _, start = header_record(block, form, path)
            line += data.count(b"\n", 0, start)
            data, in_header = data[start:], False
        if block.too_long:
            if pending:
                yield reader.read(pending, line, final=True)[0]
            pending, line = b"", block.line + 1
            yield reader.too_long(block)
            continue
        data = pending + data
        chunk, end = reader.read(data, line, final=False)
        line += data.count(b"\n", 0, end)
        pending = data[end:]
        if chunk.rows:
            yield chunk
    if pending:
        yield reader.read(pending, line, final=True)[0]


class RecordReader:
    """Reads blocks of one file's records into chunks."""

    def __init__(
        self, path: str, form: TableFormat, names: list[str], wanted: Mapping[str, int]
    ) -> None:
        self._path = path
        self._form = form
        self._names = names
        self._wanted = dict(wanted)

    def read(self, data: bytes, line: int, final: bool) -> tuple[TableChunk, int]:
        """Return the rows of the whole records in ``data`` and how many bytes they take."""
        layout = clean_layout(data, self._form, len(self._names))
        if layout and not (final and layout.end < len(data)):
            if layout.end == 0 and len(data) <= MAX_RECORD_BYTES:
                return self._chunk([[] for _ in self._wanted], [], RejectedRows(self._path), 0), 0
            if layout.end and (chunk := self.read_clean(data, line, layout)):
                return chunk, layout.end
        return self.read_cells(data, line, final)

    def too_long(self, block: TextBlock) -> TableChunk:
        """Return the chunk of one line that is longer than any may be."""
        rejected = RejectedRows(self._path)
        rejected.add(block.line, "too_long", decode_rows(block.data))
        return self._chunk([[] for _ in self._wanted], [], rejected, 1)

    def read_clean(self, data: bytes, line: int, layout: Layout) -> TableChunk | None:
        """Return the rows of a block of that layout; None where a row may be the header again."""
        names = [str(index) for index in range(len(self._names))]
        content = data[: layout.end]
        frame = pl.read_csv(
            content,
            has_header=False,
            separator=self._form.delimiter,
            quote_char='"' if self._form.quoted and b'"' in content else None,
            schema=dict.fromkeys(names, pl.String),
            columns=sorted(set(self._wanted.values())),
        )
        if b'""' in content:
            frame = frame.select(pl.when(pl.all() != "").then(pl.all()))
        frame = frame.select(
            pl.Series(LINE, layout.lines + line, dtype=pl.Int64),
            *(pl.col(str(index)).alias(name) for name, index in self._wanted.items()),
        )
        if frame.height != layout.lines.size or self._may_repeat_header(frame):
            return None
        rows = int(layout.lines.size)
        return TableChunk(frame, RejectedRows(self._path).frame(), rows)

    def _may_repeat_header(self, frame: pl.DataFrame) -> bool:
        if self._form.columns is not None:
            return False
        same = [
            pl.col(name).str.strip_chars() == self._names[index]
            for name, index in self._wanted.items()
        ]
        return not same or not frame.filter(pl.all_horizontal(same)).is_empty()

    def _is_header(self, cells: list[str]) -> bool:
        if self._form.columns is not None or not cells or cells[0].strip() != self._names[0]:
            return False
        return [cell.strip() for cell in cells] == self._names

    def read_cells(self, data: bytes, line: int, final: bool) -> tuple[TableChunk, int]:
        """Return what ``read`` does, by walking through the block."""
        text = decode_rows(data)
        width = len(self._names)
        may_be_faulty = fault_of(text) is not None
        columns: list[list[str | None]] = [[] for _ in self._wanted]
        lines: list[int] = []
        rejected = RejectedRows(self._path)
        rows = end = 0
        for record in split_records(text, self._form, final, width):
            rule, end = record.rule, record.end
            value = f"{len(record.cells)}/{width}" if rule == "ragged_row" else None
            if may_be_faulty and (fault := fault_of(text[record.begin : end])):
                rule, value = fault, None
            if not rule and self._is_header(record.cells):
                rule = "repeated_header"
            if rule:
                rejected.add(line, rule, text[record.begin : end].rstrip("\r\n"), value=value)
                rows += 1
            elif record.cells:
                for column, index in zip(columns, self._wanted.values(), strict=True):
                    column.append(record.cells[index] or None)
                lines.append(line)
                rows += 1
            line += text.count("\n", record.begin, end)
        chunk = self._chunk(columns, lines, rejected, rows)
        return chunk, len(encode_rows(text[:end])) if end < len(text) else len(data)

    def _chunk(
        self, columns: list[list[str | None]], lines: list[int], rejected: RejectedRows, rows: int
    ) -> TableChunk:
        frame = pl.DataFrame(
            [
                pl.Series(LINE, lines, dtype=pl.Int64),
                *(
                    pl.Series(name, column, dtype=pl.String)
                    for name, column in zip(self._wanted, columns, strict=True)
                ),
            ]
        )
        return TableChunk(frame, rejected.frame(), rows)
