"""Frames between stages: Polars tables that travel through Beam as Arrow IPC streams.

A frame is at most ``MAX_FRAME_BYTES`` large, so that a partition travels as several elements and no
runner has to move one huge value (Flink, Prism and the FnApiRunner were all measured with such
frames; see ARCHITECTURE.md).
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl
import pyarrow as pa

MAX_FRAME_BYTES = 8 * 1024 * 1024

Schema = Mapping[str, pl.DataType | type[pl.DataType]]


def to_ipc(frame: pl.DataFrame) -> bytes:
    """Return ``frame`` as one lz4-compressed Arrow IPC stream."""
    buffer = io.BytesIO()
    # Polars' own string views would be written with all the texts of the frame that this one is
    # a part of: for a tenth of a frame that takes three times as long and four times the room.
    frame.rechunk().write_ipc_stream(
        buffer, compression="lz4", compat_level=pl.CompatLevel.oldest()
    )
    return buffer.getvalue()


def from_ipc(data: bytes) -> pl.DataFrame:
    """Return the frame that ``to_ipc`` wrote."""
    return pl.read_ipc_stream(io.BytesIO(data))


def split_frame(frame: pl.DataFrame, max_bytes: int = MAX_FRAME_BYTES) -> Iterator[pl.DataFrame]:
    """Yield ``frame`` in row slices of at most ``max_bytes``; nothing for no rows.

    A slice may be larger only where it is one row.
    """
    if frame.height == 0:
        return
    slices = min(frame.height, max(1, -(-int(frame.estimated_size()) // max_bytes)))
    rows = -(-frame.height // slices)
    for start in range(0, frame.height, rows):
        part = frame.slice(start, rows)
        if slices > 1 and part.height > 1 and part.estimated_size() > max_bytes:
            yield from split_frame(part, max_bytes)  # its rows are larger than others
        else:
            yield part


def concat(frames: Iterable[pl.DataFrame], schema: Schema) -> pl.DataFrame:
    """Return the frames one below the other, with ``schema`` even where there is no frame."""
    parts = list(frames)
    if not parts:
        return pl.DataFrame(schema=dict(schema))
    return pl.concat(parts, how="vertical").select(list(schema))


def from_rows(rows: Iterable[Sequence[Any]], schema: Schema) -> pl.DataFrame:
    """Return the frame of ``rows``, each with the values of ``schema``'s columns in their order."""
    by_column = list(zip(*rows, strict=True))
    if not by_column:
        return pl.DataFrame(schema=dict(schema))
    return pl.DataFrame(
        [
            _series(name, values, kind)
            for (name, kind), values in zip(schema.items(), by_column, strict=True)
        ]
    )


def _series(name: str, values: Sequence[Any], kind: pl.DataType | type[pl.DataType]) -> pl.Series:
    if not isinstance(kind, pl.List):
        return pl.Series(name, values, dtype=kind)
    # Polars makes a series of every single list, which takes ten times as long.
    empty = pl.DataFrame(schema={name: kind}).to_arrow(compat_level=pl.CompatLevel.oldest())
    return pl.Series(name, pa.array(values, empty.schema.field(0).type)).cast(kind)


@dataclass(frozen=True)
class NamedFrames:
    """The frames that a pipeline's stages hand on: each name with the schema it stands for."""

    schemas: Mapping[str, Schema]

    def named(self, frames: Mapping[str, pl.DataFrame], name: str) -> pl.DataFrame:
        """Return the frame called ``name``, empty where there is none."""
        found = frames.get(name)
        return pl.DataFrame(schema=dict(self.schemas[name])) if found is None else found

    def together(self, name: str, *parts: pl.DataFrame) -> pl.DataFrame:
        """Return ``parts`` one below the other, as the frame called ``name``."""
        return concat(parts, self.schemas[name])


def polars_schema(schema: pa.Schema) -> dict[str, pl.DataType]:
    """Return the Polars schema of a pyarrow ``schema``, in the same column order."""
    frame = pl.from_arrow(schema.empty_table())
    assert isinstance(frame, pl.DataFrame)  # noqa: S101 - a table never becomes a Series
    return dict(frame.schema)
