"""JSON: one object a line, or one array of objects; fields typed as the schema wants them.

What can't be taken costs its own row only: ``bad_json`` (NaN, Infinity and cut-off lines too),
``not_an_object``, ``wrong_type``, ``duplicate_field``, ``lone_surrogate``, ``nul_byte`` (escaped as
well), ``invalid_bytes``, ``too_long``.

Lines that a regular expression proves to be plain objects go to Arrow together; the others, and all
of a block where Arrow finds a value of another type, are read one by one. Both give the same rows.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.json

from transforms.errors import InputError
from transforms.frames import Schema
from transforms.reading.decode import TextBlock, decode_rows, text_blocks, whole_text
from transforms.reading.json_values import (
    DECODER,
    MARK,
    RowError,
    field_readers,
    parse_row,
    reason,
    shown,
    typed_row,
)
from transforms.reading.records import LINE, RejectedRows, TableChunk

# A plain object: its fields are scalars, arrays of them or objects of both. It has no escaped NUL,
# no lone surrogate, no huge number, no escapes in keys, so that Arrow and Python can't differ.
_BLANK = r"[ \t]*"
_STRING = (
    r'"(?:[^"\\\x00-\x1f]|\\["\\/bfnrt]'
    r"|\\u(?:[1-9a-cA-CeEfF][0-9a-fA-F]{3}|0[1-9a-fA-F][0-9a-fA-F]{2}|00[1-9a-fA-F][0-9a-fA-F]"
    r"|000[1-9a-fA-F]|[dD][0-7][0-9a-fA-F]{2}"
    r'|[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}))*"'
)
_SCALAR = rf"(?:{_STRING}|-?(?:0|[1-9][0-9]{{0,18}})(?:\.[0-9]{{1,18}})?|true|false|null)"
_ARRAY = rf"\[{_BLANK}(?:{_SCALAR}{_BLANK}(?:,{_BLANK}{_SCALAR}{_BLANK})*)?\]"
_KEY = rf'"[^"\\\x00-\x1f]*"{_BLANK}:{_BLANK}'
_FLAT = rf"{_KEY}(?:{_SCALAR}|{_ARRAY}){_BLANK}"
_OBJECT = rf"\{{{_BLANK}(?:{_FLAT}(?:,{_BLANK}{_FLAT})*)?\}}"
_FIELD = rf"{_KEY}(?:{_SCALAR}|{_ARRAY}|{_OBJECT}){_BLANK}"
_PLAIN = rf"^{_BLANK}\{{{_BLANK}(?:{_FIELD}(?:,{_BLANK}{_FIELD})*)?\}}{_BLANK}\r?\n$"
_NO_RECORD = r"^\x{feff}?[ \t\r]*\n$"
_ARRAY_CHUNK_ROWS = 20_000


def json_fields(path: str, kind: str) -> list[str]:
    """Return the fields of a file's first objects, in order of appearance.

    Of JSON lines these are the objects in the first megabyte that has any.

    Raises:
        InputError: there is no object.
    """
    values: list[Any] = []
    if kind == "json":
        values = _array(path)
    else:
        for block in text_blocks(path, block_bytes=1 << 20):
            for _, text in _numbered_lines(block):
                with contextlib.suppress(RowError):
                    values.append(parse_row(text))
            if any(isinstance(value, dict) for value in values):
                break
    objects = [value for value in values if isinstance(value, dict)]
    if not objects:
        raise InputError(
            f"{path}: has no JSON object; write one object a line, or one array of objects "
            "in a file named .json"
        )
    return list(dict.fromkeys(field for value in objects for field in value))


def read_json_lines(path: str, schema: Schema) -> Iterator[TableChunk]:
    """Yield the rows of a file of one JSON object a line, typed by ``schema``."""
    for block in text_blocks(path):
        if block.too_long:
            rejected = RejectedRows(path)
            rejected.add(block.line, "too_long", decode_rows(block.data))
            yield TableChunk(_frame([], [], schema), rejected.frame(), 1)
        elif (chunk := _read_block(block, schema, path)).rows:
            yield chunk


def read_json_array(path: str, schema: Schema) -> Iterator[TableChunk]:
    """Yield the rows of a file that is one JSON array of objects, which is read as a whole."""
    values = _array(path)
    for start in range(0, len(values), _ARRAY_CHUNK_ROWS):
        part = values[start : start + _ARRAY_CHUNK_ROWS]
        frame, rejected = _rows_one_by_one(list(enumerate(part, start + 1)), schema, path)
        yield TableChunk(frame, rejected, len(part))


def _array(path: str) -> list[Any]:
    try:
        value = DECODER.decode(whole_text(path))
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: is not valid JSON ({reason(error)})") from error
    if not isinstance(value, list):
        raise InputError(f"{path}: is not a JSON array; write one, or one object a line")
    return value


def _read_block(block: TextBlock, schema: Schema, path: str) -> TableChunk:
    lines = _line_series(block.data)
    if lines is None:
        texts = _numbered_lines(block)
        frame, rejected = _rows_one_by_one(texts, schema, path, is_text=True)
        return TableChunk(frame, rejected, len(texts))
    table = pl.DataFrame(
        {
            LINE: pl.int_range(block.line, block.line + lines.len(), eager=True),
            "text": lines,
            "plain": lines.str.contains(_PLAIN),
        }
    )
    plain = table.filter("plain")
    others = table.filter(~pl.col("plain") & ~pl.col("text").str.contains(_NO_RECORD))
    rows = plain.height + others.height
    taken = read_plain(plain, schema, block.data if others.is_empty() else None)
    if taken is None:
        others = pl.concat([plain, others]).sort(LINE)
    rest, rejected = _rows_one_by_one(
        list(zip(others[LINE], others["text"].str.strip_suffix("\n"), strict=True)),
        schema,
        path,
        is_text=True,
    )
    frame = rest if taken is None else taken
    if taken is not None and not rest.is_empty():
        frame = pl.concat([taken, rest]).sort(LINE)
    return TableChunk(frame, rejected, rows)


def _line_series(data: bytes) -> pl.Series | None:
    """Return the lines with their ends, cut in one go; None where they are not UTF-8."""
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return None
    ends = np.flatnonzero(np.frombuffer(data, dtype=np.uint8) == ord("\n")) + 1
    offsets = np.concatenate(([0], ends)).astype(np.int32)
    return pl.Series(
        pa.StringArray.from_buffers(ends.size, pa.py_buffer(offsets), pa.py_buffer(data))
    )


def _numbered_lines(block: TextBlock) -> list[tuple[int, str]]:
    lines = decode_rows(block.data).removesuffix("\n").split("\n")
    return [
        (number, line)
        for number, line in enumerate(lines, block.line)
        if line.removeprefix(MARK).strip(" \t\r")
    ]


def read_plain(
    lines: pl.DataFrame, schema: Schema, data: bytes | None = None
) -> pl.DataFrame | None:
    """Return the fields of plain objects, or None where one has a value of an unexpected type.

    Args:
        lines: ``line`` and ``text``, each a plain object.
        schema: the fields wanted.
        data: the same lines as they stand in the file, if at hand; blank ones may be among them.
    """
    if lines.is_empty():
        return _frame([], [], schema)
    first = DECODER.decode(lines.item(0, "text"))
    stored = [(name, _stored_type(dtype, first.get(name))) for name, dtype in schema.items()]
    if data is None:
        data = "".join(lines["text"].to_list()).encode()
    try:
        table = pyarrow.json.read_json(
            io.BytesIO(data),
            read_options=pyarrow.json.ReadOptions(use_threads=False, block_size=len(data) + 1),
            parse_options=pyarrow.json.ParseOptions(
                explicit_schema=pa.schema(stored), unexpected_field_behavior="ignore"
            ),
        )
    except pa.ArrowInvalid:
        return None
    if table.num_rows != lines.height:
        return None
    frame = pl.DataFrame(table)
    columns: list[pl.Expr] = []
    for name, dtype in schema.items():
        column = pl.col(name)
        if dtype == pl.List(pl.String) and frame[name].dtype == pl.String:
            column = pl.when(column.is_not_null()).then(pl.concat_list(column)).alias(name)
        columns.append(column.cast(dtype))
    return frame.select(lines[LINE], *columns)


def _stored_type(dtype: pl.DataType | type[pl.DataType], example: Any) -> pa.DataType:
    """Return the Arrow type to expect of a field of which ``example`` is a value."""
    if dtype == pl.String:
        return pa.int64() if type(example) is int else pa.string()
    if dtype == pl.Int64:
        return pa.int64()
    if dtype == pl.Boolean:
        return pa.bool_()
    return pa.string() if isinstance(example, str) else pa.list_(pa.string())


def _rows_one_by_one(
    rows: Sequence[tuple[int, Any]], schema: Schema, path: str, is_text: bool = False
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return frame and rejects of numbered rows, which are JSON texts or parsed already."""
    rejected = RejectedRows(path)
    readers = field_readers(schema)
    taken: list[list[Any]] = []
    lines: list[int] = []
    for line, row in rows:
        try:
            taken.append(typed_row(parse_row(row) if is_text else row, readers))
            lines.append(line)
        except RowError as fault:
            text = row if is_text else shown(row)
            rejected.add(line, fault.rule, text, fault.field, fault.value)
    return _frame(lines, taken, schema), rejected.frame()


def _frame(lines: list[int], rows: list[list[Any]], schema: Schema) -> pl.DataFrame:
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(schema)
    series = [
        pl.Series(name, values, dtype=dtype)
        for (name, dtype), values in zip(schema.items(), columns, strict=True)
    ]
    return pl.DataFrame([pl.Series(LINE, lines, dtype=pl.Int64), *series])
