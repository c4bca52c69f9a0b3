"""Rows: the rows of a source's file, of any kind, with nested fields as they are.

Kinds go by extension, after that of a compression: ``.jsonl``, ``.json`` (an array, JSON lines, or
an object that the source unfolds), ``.csv``, ``.tsv`` (cells without quoting: a quote is content),
``.parquet``, ``.xml`` (which the source unfolds); ``hub:...`` is a dataset of the Hub, see
``hub``. Bytes are decoded, and quoted cells read, by ``transforms.reading``.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from typing import Any

import polars as pl

from pipelines.metricinstruct.sources.hub import HUB, hub_rows
from pipelines.metricinstruct.sources.source import Row, Source
from transforms.errors import InputError
from transforms.reading.decode import decode_rows, fault_of, printable, text_blocks
from transforms.reading.files import compression_of, open_bytes, reading
from transforms.reading.records import LINE
from transforms.reading.tables import header, read_table, table_format

_PARQUET_ROWS = 2048
#: Field under which a row that can't be read carries the rule it breaks, the value and the text.
FAULT = "\0fault"


def rows_of(path: str, source: Source) -> Iterator[Row]:
    """Yield the rows of ``path``; one that can't be read has the single field ``FAULT``.

    Raises:
        InputError: the file can't be read, is of no known kind, or isn't one of ``source``'s.
    """
    checked = False
    for row in _rows(path, source):
        if not checked and FAULT not in row.fields:
            _check_form(row, source)
            checked = True
        yield row
    if not checked:
        raise InputError(f"{path}: has no row that can be read; {source.name} reads {source.files}")


def kind_of(path: str, default: str | None = None) -> str:
    """Return the kind of file that ``path`` names: jsonl, json, csv, tsv, parquet, txt, xml or hub.

    Args:
        path: the file.
        default: kind of files with any other extension (``Table2Text.train``, ``primary.en``).

    Raises:
        InputError: its extension is none of those, and there is no default.
    """
    if path.startswith(HUB):
        return "hub"
    name = os.path.splitext(path)[0] if compression_of(path) else path
    kind = os.path.splitext(name)[1].lower().removeprefix(".")
    kind = {"ndjson": "jsonl", "pq": "parquet"}.get(kind, kind)
    if kind not in ("jsonl", "json", "csv", "tsv", "parquet", "txt", "xml"):
        if default:
            return default
        raise InputError(
            f"{path}: can't tell its kind; known are .jsonl .json .csv .tsv .parquet .txt .xml, "
            "each also compressed (.gz, .bz2, .zst, .xz)"
        )
    return kind


def lines_of(path: str) -> Iterator[tuple[int, str]]:
    """Yield the lines of a text file without their ends, and their numbers from 1."""
    for block in text_blocks(path):
        for number, text in enumerate(decode_rows(block.data)[:-1].split("\n"), block.line):
            yield number, text.removesuffix("\r")


def whole_json(path: str) -> Any:
    """Return the value of a JSON file.

    Raises:
        InputError: it is no JSON.
    """
    with reading(path), open_bytes(path) as file:
        data = file.read()
    try:
        return json.loads(data.decode("utf-8-sig", "surrogateescape"))
    except ValueError as error:
        raise InputError(f"{path}: is not JSON ({error}); fetch or write it again") from error


def _rows(path: str, source: Source) -> Iterator[Row]:
    kind = kind_of(path, "tsv" if source.columns else None)
    if kind == "jsonl":
        return _json_lines(path, source)
    if kind == "json":
        return _json(path, source)
    if kind == "csv":
        return _csv(path)
    if kind == "tsv":
        return _tsv(path, source)
    if kind == "parquet":
        return _parquet(path)
    if kind == "hub":
        return _numbered(path, hub_rows(path))
    if kind == "xml" and source.unfold:
        return _numbered(path, source.unfold(_xml(path)))
    raise InputError(f"{path}: {source.name} has no .{kind} form; it reads {source.files}")


def _check_form(row: Row, source: Source) -> None:
    if any(all(name in row.fields for name in names) for names in source.requires):
        return
    wanted = " or ".join(", ".join(names) for names in source.requires)
    raise InputError(
        f"{row.file}: is not a file of {source.name}: its rows lack the fields {wanted}; "
        f"{source.name} reads {source.files}"
    )


def _fault(path: str, line: int, rule: str, text: str, value: str | None = None) -> Row:
    return Row({FAULT: (rule, value, printable(text))}, path, line)


def _json_lines(path: str, source: Source) -> Iterator[Row]:
    for line, text in lines_of(path):
        if not text.strip():
            continue
        try:
            value = json.loads(text)
        except ValueError:
            yield _fault(path, line, fault_of(text) or "bad_json", text)
            continue
        if not isinstance(value, dict):
            yield _fault(path, line, "not_an_object", text)
        elif source.unfold:
            yield from (Row(fields, path, line) for fields in source.unfold(value))
        else:
            yield Row(value, path, line)


def _json(path: str, source: Source) -> Iterator[Row]:
    with reading(path), open_bytes(path) as file:
        head = file.read(4096).lstrip(b"\xef\xbb\xbf \t\r\n")
    lines = head.split(b"\n", 1)
    if head.startswith(b"{") and len(lines) == 2 and lines[0].rstrip().endswith(b"}"):
        return _json_lines(path, source)  # JSON lines under the name of JSON
    value = whole_json(path)
    if isinstance(value, list):
        return _numbered(path, value)
    if source.unfold:
        return _numbered(path, source.unfold(value))
    raise InputError(
        f"{path}: is one JSON value, not an array of objects; {source.name} reads {source.files}"
    )


def _numbered(path: str, values: Any) -> Iterator[Row]:
    for line, value in enumerate(values, 1):
        if isinstance(value, Mapping):
            yield Row(value, path, line)
        else:
            yield _fault(path, line, "not_an_object", str(value))


def _csv(path: str) -> Iterator[Row]:
    form = table_format(path)
    for chunk in read_table(path, form, dict.fromkeys(header(path, form), pl.String)):
        for fields in chunk.frame.iter_rows(named=True):
            yield Row(fields, path, fields[LINE])
        for fault in chunk.rejected.iter_rows(named=True):
            yield _fault(path, fault[LINE], fault["rule"], fault["text"], fault["value"])


def _tsv(path: str, source: Source) -> Iterator[Row]:
    """Yield rows of cells as they stand; a row may be shorter or longer than the header.

    Cells that are missing at a row's end are absent fields, cells beyond the header are dropped:
    which columns a row needs is for the source to say.
    """
    names = list(source.columns or ())
    for line, text in lines_of(path):
        if not text.strip():
            continue
        if not names:
            names = [name.strip() for name in text.split("\t")]
        elif fault := fault_of(text):
            yield _fault(path, line, fault, text)
        else:
            yield Row(dict(zip(names, text.split("\t"), strict=False)), path, line)


def _parquet(path: str) -> Iterator[Row]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    with reading(path), open_bytes(path) as stored:
        try:
            table = pq.ParquetFile(pa.BufferReader(stored.read()))
        except pa.ArrowInvalid as error:
            raise InputError(f"{path}: is not a parquet file ({error})") from error
    number = 0
    for batch in table.iter_batches(_PARQUET_ROWS):
        for fields in batch.to_pylist():
            number += 1
            yield Row(fields, path, number)


def _xml(path: str) -> Any:
    from xml.etree import ElementTree

    with reading(path), open_bytes(path) as file:
        try:
            return ElementTree.parse(file).getroot()
        except ElementTree.ParseError as error:
            raise InputError(f"{path}: is not XML ({error})") from error
