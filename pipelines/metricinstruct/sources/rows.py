"""Rows: the rows of a source's file, of any kind, with nested fields as they are.

Kinds go by extension, after that of a compression: ``.jsonl``, ``.json`` (an array, JSON lines, or
an object that the source unfolds), ``.csv``, ``.tsv`` (cells without quoting: a quote is content),
``.parquet``, ``.xml`` (which the source unfolds); ``hub:...`` is a dataset of the Hub, see
``hub``. Text is decoded, and quoted cells and JSON are read, by ``transforms.reading``; parquet by
Arrow, XML by Python's parser. Rows come in the order of the file, those that can't be read in
their places.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pipelines.metricinstruct.sources.hub import HUB, hub_rows
from pipelines.metricinstruct.sources.json_rows import json_file, json_lines, numbered, unfolded
from pipelines.metricinstruct.sources.source import Row, Source
from pipelines.metricinstruct.sources.text_files import all_lines
from pipelines.metricinstruct.sources.unreadable import FAULT, unreadable
from pipelines.metricinstruct.sources.values import Unusable
from transforms.errors import InputError
from transforms.reading.decode import fault_of
from transforms.reading.delimited import read_delimited
from transforms.reading.files import extension_of, open_bytes, reading
from transforms.reading.records import LINE
from transforms.reading.tables import header, table_format

_PARQUET_ROWS = 2048


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
    kind = extension_of(path).removeprefix(".")
    kind = {"ndjson": "jsonl", "pq": "parquet"}.get(kind, kind)
    if kind not in ("jsonl", "json", "csv", "tsv", "parquet", "txt", "xml"):
        if default:
            return default
        raise InputError(
            f"{path}: can't tell its kind; known are .jsonl .json .csv .tsv .parquet .txt .xml, "
            "each also compressed (.gz, .bz2, .zst, .xz)"
        )
    return kind


def _rows(path: str, source: Source) -> Iterator[Row]:
    kind = kind_of(path, "tsv" if source.columns else None)
    if kind == "jsonl":
        return json_lines(path, source)
    if kind == "json":
        return json_file(path, source)
    if kind == "csv":
        return _csv(path)
    if kind == "tsv":
        return _tsv(path, source)
    if kind == "parquet":
        return _parquet(path)
    if kind == "hub":
        return numbered(path, hub_rows(path))
    if kind == "xml" and source.unfold:
        return unfolded(path, source, source.unfold, _xml(path))
    raise InputError(f"{path}: {source.name} has no .{kind} form; it reads {source.files}")


def _check_form(row: Row, source: Source) -> None:
    if any(all(name in row.fields for name in names) for names in source.requires):
        return
    wanted = " or ".join(", ".join(names) for names in source.requires)
    raise InputError(
        f"{row.file}: is not a file of {source.name}: its rows lack the fields {wanted}; "
        f"{source.name} reads {source.files}"
    )


def _csv(path: str) -> Iterator[Row]:
    """Yield rows and rejects by their lines: outputs beside the file go by a row's place.

    Columns go by their places, so that they may have any name.
    """
    form = table_format(path)
    names = header(path, form)
    places = {str(index): index for index in range(len(names))}
    for chunk in read_delimited(path, form, names, places):
        rows = [
            Row(dict(zip(names, cells, strict=True)), path, line)
            for line, *cells in chunk.frame.iter_rows()
        ]
        for fault in chunk.rejected.iter_rows(named=True):
            unusable = Unusable(fault["rule"], fault["field"], fault["value"])
            rows.append(unreadable(path, fault[LINE], unusable, fault["text"]))
        yield from sorted(rows, key=lambda row: row.line)


def _tsv(path: str, source: Source) -> Iterator[Row]:
    """Yield rows of cells as they stand; a row may be shorter or longer than the header.

    Cells that are missing at a row's end are absent fields, cells beyond the header are dropped:
    which columns a row needs is for the source to say.
    """
    names = list(source.columns or ())
    for line in all_lines(path):
        if line.is_blank:
            continue
        cells = line.text.split("\t")
        rule = "too_long" if line.too_long else fault_of(line.text)
        if not names:
            names = [name.strip() for name in cells]
            _check_names(path, names)
        elif rule:
            yield unreadable(path, line.number, Unusable(rule), line.text)
        else:
            yield Row(dict(zip(names, cells, strict=False)), path, line.number)


def _check_names(path: str, names: list[str]) -> None:
    twice = sorted({name for name in names if name and names.count(name) > 1})
    if twice:
        raise InputError(f"{path}: names a column twice: {', '.join(twice)}; rename one of each")


def _parquet(path: str) -> Iterator[Row]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    with reading(path), open_bytes(path) as stored:
        try:
            table = pq.ParquetFile(pa.BufferReader(stored.read()))
        except pa.ArrowException as error:
            raise InputError(f"{path}: is not a parquet file ({error})") from error
    _check_names(path, table.schema_arrow.names)
    number = 0
    with reading(path):
        try:
            for batch in table.iter_batches(_PARQUET_ROWS):
                batch.validate(full=True)
                for fields in batch.to_pylist():
                    number += 1
                    yield Row(fields, path, number)
        # ValueError, OverflowError: a time that Python can't hold.
        except (pa.ArrowException, ValueError, OverflowError) as error:
            raise InputError(f"{path}: is damaged ({error}); write it again") from error


def _xml(path: str) -> Any:
    from xml.etree import ElementTree

    with reading(path), open_bytes(path) as file:
        try:
            return ElementTree.parse(file).getroot()
        except (ElementTree.ParseError, ValueError, LookupError) as error:
            raise InputError(f"{path}: is not XML ({error})") from error
