"""Parquet: batches of rows of the wanted columns; the row's number stands for its line."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from transforms.errors import InputError
from transforms.frames import Schema
from transforms.reading.decode import BLOCK_BYTES
from transforms.reading.files import open_bytes, reading
from transforms.reading.records import LINE, RejectedRows, TableChunk


def parquet_columns(path: str) -> list[str]:
    """Return the names of a parquet file's columns."""
    with reading(path), open_bytes(path) as file:
        return list(_open(file, path).schema_arrow.names)


def read_parquet(path: str, schema: Schema) -> Iterator[TableChunk]:
    """Yield the rows of a parquet file, typed by ``schema``; rows with NUL in a text are rejected.

    Raises:
        InputError: the file is damaged, or a column's type is another one than the schema wants.
    """
    with reading(path), open_bytes(path) as file:
        table = _open(file, path)
        stored = table.schema_arrow
        wanted = [name for name in schema if name in stored.names]
        for name in wanted:
            _check_type(stored.field(name).type, schema[name], name, path)
        rows = max(1, table.metadata.num_rows)
        size = sum(
            table.metadata.row_group(index).total_byte_size
            for index in range(table.metadata.num_row_groups)
        )
        batch_rows = max(1, BLOCK_BYTES * rows // max(size, 1))
        first = 1
        try:
            for batch in table.iter_batches(batch_size=min(batch_rows, 200_000), columns=wanted):
                batch.validate(full=True)
                yield _chunk(batch, schema, first, path)
                first += batch.num_rows
        except pa.ArrowException as error:
            raise InputError(f"{path}: is damaged ({error}); write it again") from error


def _open(file: object, path: str) -> pq.ParquetFile:
    try:
        return pq.ParquetFile(file)
    except pa.ArrowException as error:
        raise InputError(f"{path}: is not a parquet file ({error})") from error


def _check_type(
    stored: pa.DataType, wanted: pl.DataType | type[pl.DataType], name: str, path: str
) -> None:
    if pa.types.is_dictionary(stored):
        stored = stored.value_type
    text = pa.types.is_string(stored) or pa.types.is_large_string(stored)
    integer = pa.types.is_integer(stored)
    fits = pa.types.is_null(stored)
    if wanted == pl.String:
        fits = fits or text or integer
    elif wanted == pl.Int64:
        fits = fits or (integer and stored != pa.uint64())
    elif wanted == pl.Boolean:
        fits = fits or pa.types.is_boolean(stored)
    elif wanted == pl.List(pl.String):
        inner = stored.value_type if _is_list(stored) else stored
        fits = fits or pa.types.is_string(inner) or pa.types.is_large_string(inner)
    if not fits:
        raise InputError(f"{path}: column {name} is {stored}, but {wanted} is wanted; convert it")


def _is_list(stored: pa.DataType) -> bool:
    return bool(pa.types.is_list(stored) or pa.types.is_large_list(stored))


def _chunk(batch: pa.RecordBatch, schema: Schema, first: int, path: str) -> TableChunk:
    frame = pl.DataFrame(pl.from_arrow(pa.Table.from_batches([batch])))
    columns = []
    for name, dtype in schema.items():
        if name not in frame.columns:
            columns.append(pl.lit(None, dtype=dtype).alias(name))
        elif dtype == pl.List(pl.String) and frame[name].dtype == pl.String:
            column = pl.col(name)
            columns.append(pl.when(column.is_not_null()).then(pl.concat_list(column)).alias(name))
        else:
            columns.append(pl.col(name).cast(dtype))
    numbers = pl.int_range(first, first + batch.num_rows, eager=True).alias(LINE)
    frame = frame.select(numbers, *columns)
    rejected = RejectedRows(path)
    texts = [name for name, dtype in schema.items() if dtype == pl.String]
    if texts:
        has_nul = pl.any_horizontal(
            pl.col(name).fill_null("").str.contains("\0", literal=True) for name in texts
        )
        for row in frame.filter(has_nul).iter_rows(named=True):
            field = next(name for name in texts if "\0" in (row[name] or ""))
            rejected.add(row[LINE], "nul_byte", row[field], field, row[field])
        frame = frame.filter(~has_nul)
    return TableChunk(frame, rejected.frame(), batch.num_rows)
