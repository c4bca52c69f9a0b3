"""Tables: one door to the rows of csv, tsv, jsonl, json and parquet files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import polars as pl

from transforms.errors import InputError
from transforms.frames import Schema
from transforms.reading.decode import TextBlock, decode_rows, text_blocks
from transforms.reading.delimited import header_record, read_delimited
from transforms.reading.files import PARQUET, compression_of, extension_of
from transforms.reading.json_records import json_fields, read_json_array, read_json_lines
from transforms.reading.parquet import parquet_columns, read_parquet
from transforms.reading.records import LINE, TableChunk, TableFormat

__all__ = ["TableChunk", "TableFormat", "header", "read_table", "table_format"]

_KINDS = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".tab": "tsv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "json",
    **dict.fromkeys(PARQUET, "parquet"),
}
_DELIMITERS = "\t,;|"
_HEAD_BYTES = 1 << 20


def table_format(
    path: str,
    *,
    delimiter: str | None = None,
    columns: Sequence[str] | None = None,
    quoted: bool = True,
) -> TableFormat:
    """Return the format of a file: its kind by extension, below one of a compression.

    The header line of csv and tsv tells the delimiter whatever the extension says; ``.json`` is
    one array of objects if it starts with a bracket, else one object a line.

    Args:
        path: the file.
        delimiter: of csv and tsv, where it is known.
        columns: names of the columns of a csv or tsv file that has no header line.
        quoted: whether cells of csv and tsv may be quoted.

    Raises:
        InputError: the extension is of no kind that is read, or the file can't be read.
    """
    extension = extension_of(path)
    kind = _KINDS.get(extension)
    if kind is None:
        raise InputError(
            f"{path}: can't tell its kind by the extension {extension!r}; name it "
            f"{', '.join(_KINDS)} (compressed: .csv.gz and the like)"
        )
    if kind == "parquet":
        if compression_of(path):
            raise InputError(f"{path}: parquet compresses by itself; unpack the file")
        return TableFormat(kind)
    if kind == "json":
        start = decode_rows(_first_block(path).data).lstrip()[:1]
        return TableFormat("json" if start == "[" else "jsonl")
    if kind == "jsonl":
        return TableFormat(kind)
    if delimiter is None:
        delimiter = "\t" if kind == "tsv" else ","
        if columns is None:
            delimiter = _delimiter_of(path, delimiter, quoted)
    if len(delimiter) != 1 or not delimiter.isascii() or delimiter in '"\r\n\0':
        raise InputError(f"{path}: delimiter {delimiter!r} is not one ASCII character")
    names = None if columns is None else tuple(columns)
    return TableFormat("tsv" if delimiter == "\t" else "csv", delimiter, quoted, names)


def header(path: str, form: TableFormat) -> list[str]:
    """Return the names of a file's columns, or of the fields that its first objects have.

    Raises:
        InputError: the file can't be read, is empty or not text, has no header line, or one that
            names a column twice; a file without a header line has another number of columns.
    """
    if form.kind == "parquet":
        names = parquet_columns(path)
    elif form.kind in ("json", "jsonl"):
        _first_block(path)
        names = json_fields(path, form.kind)
    else:
        cells, _ = header_record(_first_block(path), form, path)
        names = [cell.strip() for cell in cells]
        if form.columns is not None:
            if len(cells) != len(form.columns):
                raise InputError(
                    f"{path}: its first row has {len(cells)} cells, but {len(form.columns)} "
                    f"columns are named ({', '.join(form.columns)})"
                )
            names = list(form.columns)
    twice = sorted(name for name, count in Counter(names).items() if name and count > 1)
    if twice:
        raise InputError(f"{path}: names a column twice: {', '.join(twice)}; rename one of each")
    return names


def read_table(
    path: str, form: TableFormat, schema: Schema, optional: frozenset[str] = frozenset()
) -> Iterator[TableChunk]:
    """Return the rows of a file in chunks of about 8 MB, the wanted columns typed by ``schema``.

    What can't be taken is in each chunk's ``rejected``; the modules of the kinds tell the rules.
    Columns of csv and tsv can be String only. The header is checked before the first chunk.

    Args:
        path: the file.
        form: its format.
        schema: the wanted columns; String, Int64, Boolean and List(String) for JSON and parquet.
        optional: columns of ``schema`` that a file may lack; they are null then.

    Raises:
        InputError: a column is missing, or the file can't be read; later, too: it is damaged.
    """
    if LINE in schema:
        raise InputError(f"{path}: a column named {LINE!r} can't be read; rename it")
    names = header(path, form)
    missing = [name for name in schema if name not in names and name not in optional]
    if missing:
        raise InputError(
            f"{path}: lacks the column{'s' if len(missing) > 1 else ''} {', '.join(missing)}; "
            f"it has {_shortened(names)}"
        )
    if form.kind == "parquet":
        return read_parquet(path, schema)
    if form.kind == "json":
        return read_json_array(path, schema)
    if form.kind == "jsonl":
        return read_json_lines(path, schema)
    if any(dtype != pl.String for dtype in schema.values()):
        raise TypeError("columns of csv and tsv are text: ask for String")
    return _with_absent(
        read_delimited(
            path, form, names, {name: names.index(name) for name in schema if name in names}
        ),
        schema,
    )


def _with_absent(chunks: Iterator[TableChunk], schema: Schema) -> Iterator[TableChunk]:
    for chunk in chunks:
        absent = [
            pl.lit(None, dtype=dtype).alias(name)
            for name, dtype in schema.items()
            if name not in chunk.frame.columns
        ]
        frame = chunk.frame.with_columns(absent).select(LINE, *schema)
        yield TableChunk(frame, chunk.rejected, chunk.rows)


def _first_block(path: str) -> TextBlock:
    block = next(text_blocks(path, _HEAD_BYTES), None)
    if block is None:
        raise InputError(f"{path}: is empty; leave it out or write it again")
    return block


def _delimiter_of(path: str, default: str, quoted: bool) -> str:
    """Return the delimiter that parts the header into most cells and leaves no quote in them."""
    block = _first_block(path)

    def fitness(delimiter: str) -> tuple[bool, int, bool]:
        try:
            cells, _ = header_record(block, TableFormat("csv", delimiter, quoted), path)
        except InputError:
            return False, 0, delimiter == default
        return not any('"' in cell for cell in cells), len(cells), delimiter == default

    return max(_DELIMITERS, key=fitness)


def _shortened(names: list[str], most: int = 40) -> str:
    shown = ", ".join(name or "(no name)" for name in names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"
