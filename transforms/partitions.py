"""Partitions as Beam elements: how frames travel, and the DoFns that carry pure functions.

Two forms of element occur. A *piece* is ``(partition, (name, bytes))``: one named frame of at most
8 MB, which is what shuffles move. *Packed frames* are ``(partition, {name: (bytes, ...)})``: all of
one partition, which is what steps between shuffles hand on. Stages themselves are plain functions
from named Polars frames to named Polars frames and know nothing of Beam.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import apache_beam as beam
import polars as pl

from transforms.frames import from_ipc, split_frame, to_ipc
from transforms.keys import partition_expression

Frames = dict[str, pl.DataFrame]
Piece = tuple[str, bytes]
Packed = dict[str, tuple[bytes, ...]]


def to_pieces(partition: int, frames: Mapping[str, pl.DataFrame]) -> Iterator[tuple[int, Piece]]:
    """Yield the frames of one partition as pieces; a frame without rows gives none."""
    for name, frame in frames.items():
        for part in split_frame(frame):
            yield partition, (name, to_ipc(part))


def scatter(
    name: str, frame: pl.DataFrame, partitions: int, column: str = "key"
) -> Iterator[tuple[int, Piece]]:
    """Yield the rows of ``frame`` as pieces by the partition of each row.

    Rows belong to the partition of the key in ``column``; rows without one (a line that could not
    be read) are spread by their ``line``, so that their place does not depend on the order of
    arrival.
    """
    if frame.height == 0:
        return
    by_line = pl.col("line").fill_null(0) if "line" in frame.columns else pl.lit(0, pl.Int64)
    place = by_line % partitions
    if column in frame.columns:
        place = pl.coalesce(partition_expression(partitions, column), place)
    placed = frame.with_columns(place.alias("__partition"))
    for (number,), rows in placed.partition_by(
        "__partition", as_dict=True, include_key=False
    ).items():
        yield from to_pieces(int(number), {name: rows})


def gather(pieces: Iterable[Piece]) -> Frames:
    """Return the frames that ``pieces`` hold, each in an order that arrival does not change."""
    parts: dict[str, list[pl.DataFrame]] = {}
    for name, data in sorted(pieces):
        parts.setdefault(name, []).append(from_ipc(data))
    return {name: pl.concat(frames, how="vertical") for name, frames in parts.items()}


def pack(frames: Mapping[str, pl.DataFrame]) -> Packed:
    """Return ``frames`` as packed bytes; a frame without rows is left out."""
    return {
        name: tuple(to_ipc(part) for part in split_frame(frame))
        for name, frame in frames.items()
        if frame.height
    }


def unpack(packed: Packed) -> Frames:
    """Return the frames that ``pack`` packed."""
    return {
        name: pl.concat([from_ipc(part) for part in parts], how="vertical")
        for name, parts in packed.items()
    }


class ReadToPartitions(beam.DoFn):  # type: ignore[misc]
    """Reads one input per element and yields its rows as pieces.

    Args:
        read: from an input to its named frames, a chunk at a time.
        partitions: the dataset's number of partitions.
    """

    def __init__(
        self, read: Callable[[Any], Iterator[tuple[str, pl.DataFrame]]], partitions: int
    ) -> None:
        self.read = read
        self.partitions = partitions

    def process(self, element: Any) -> Iterator[tuple[int, Piece]]:
        """Yield ``(partition, (name, bytes))`` for every chunk of the input."""
        for name, frame in self.read(element):
            yield from scatter(name, frame, self.partitions)


def gather_group(element: tuple[int, Mapping[str, Iterable[Piece]]]) -> tuple[int, Frames]:
    """Return one partition's frames from what a CoGroupByKey brought together."""
    partition, groups = element
    return partition, gather(piece for pieces in groups.values() for piece in pieces)


def on_partition(stage: Callable[..., Frames], *arguments: Any) -> Callable[[Any], Any]:
    """Return ``stage`` as a function on ``(partition, frames)`` elements."""

    def carry(element: tuple[int, Frames]) -> tuple[int, Frames]:
        number, frames = element
        return number, stage(frames, *arguments)

    return carry


def on_packed(stage: Callable[..., Frames]) -> Callable[..., Any]:
    """Return ``stage`` as a function on ``(partition, packed frames)`` and its other arguments."""

    def carry(element: tuple[int, Packed], *arguments: Any) -> tuple[int, Frames]:
        number, packed = element
        return number, stage(unpack(packed), *arguments)

    return carry


def pack_element(number: int, frames: Frames) -> tuple[int, Packed]:
    """Return a partition with its frames packed, as steps that are read twice hand them on."""
    return number, pack(frames)
