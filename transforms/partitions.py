"""Partitions as Beam elements: how frames travel, and the DoFns that carry pure functions.

Two forms of element occur. A *piece* is ``(partition, (name, bytes))``: one named frame of at most
8 MB, which is what shuffles move. Steps between shuffles hand on ``(partition, {name: frame})``,
all of one partition; they say so by the type hint ``PARTITION``, so that ``FrameCoder`` is used.
Where a runner can't run two steps as one (the second waits for a side input), ``InPieces`` stands
between them, for else a whole partition would travel as one value.
Stages themselves are plain functions from named Polars frames to named Polars frames and know
nothing of Beam.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import apache_beam as beam
import polars as pl
from apache_beam.transforms.window import GlobalWindows

from transforms.background import Ahead
from transforms.frames import from_ipc, split_frame, to_ipc
from transforms.keys import partition_expression

#: Inputs that are read, each in a thread of its own, while an earlier one's rows are handed on.
INPUTS_AHEAD = 1
#: Pieces that are held of each; a chunk of a file gives one for each partition.
PIECES_AHEAD = 64

Frames = dict[str, pl.DataFrame]
Piece = tuple[str, bytes]
FramePiece = tuple[str, int, bytes]

#: The type hint of steps that yield partitions.
PARTITION = tuple[int, dict[str, pl.DataFrame]]


class FrameCoder(beam.coders.Coder):  # type: ignore[misc]
    """Frames as Arrow IPC streams.

    Beam asks for the size of most elements that go from one step to the next; without a coder that
    knows it, it pickles each of them to see, which took a quarter of a warm run.
    """

    def encode(self, value: pl.DataFrame) -> bytes:
        """Return the frame's stream."""
        return to_ipc(value)

    def decode(self, encoded: bytes) -> pl.DataFrame:
        """Return the frame of a stream."""
        return from_ipc(encoded)

    def estimate_size(self, value: pl.DataFrame) -> int:
        """Return the bytes that the frame has in memory."""
        return int(value.estimated_size())

    def is_deterministic(self) -> bool:
        """Frames are no keys."""
        return False


def register_frame_coder() -> None:
    """Let Beam use ``FrameCoder`` for frames; before a pipeline is built."""
    beam.coders.registry.register_coder(pl.DataFrame, FrameCoder)


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


def frame_pieces(frames: Mapping[str, pl.DataFrame]) -> Iterator[FramePiece]:
    """Yield frames, those without rows too, in pieces: name, number of the piece, Arrow IPC."""
    for name, frame in frames.items():
        for part, rows in enumerate(list(split_frame(frame)) or [frame]):
            yield name, part, to_ipc(rows)


def frames_of(pieces: Iterable[FramePiece]) -> Frames:
    """Return the frames whose pieces these are, as they were, in whatever order these come."""
    parts: dict[str, list[pl.DataFrame]] = {}
    for name, _, data in sorted(pieces):
        parts.setdefault(name, []).append(from_ipc(data))
    return {name: pl.concat(frames, how="vertical") for name, frames in parts.items()}


class InPieces(beam.PTransform):  # type: ignore[misc]
    """Partitions as they are, by way of a shuffle that moves them in pieces.

    Args:
        joining: pieces of frames that partitions get on the way.
    """

    def __init__(self, *joining: beam.PCollection) -> None:
        super().__init__()
        self._joining = joining

    def expand(self, partitions: beam.PCollection) -> beam.PCollection:
        """Add the shuffle."""
        pieces = (
            partitions | "To pieces" >> beam.FlatMapTuple(_numbered_pieces),
            *(
                more | f"Joining {place}" >> beam.MapTuple(_joining_piece)
                for place, more in enumerate(self._joining)
            ),
        )
        together = beam.MapTuple(lambda number, pieces: (number, frames_of(pieces)))
        return (
            pieces
            | "All pieces" >> beam.Flatten()
            | "Together" >> beam.GroupByKey()
            | "To frames" >> together.with_output_types(PARTITION)
        )


def _numbered_pieces(number: int, frames: Frames) -> Iterator[tuple[int, FramePiece]]:
    for piece in frame_pieces(frames):
        yield number, piece


def _joining_piece(number: int, piece: Piece) -> tuple[int, FramePiece]:
    name, data = piece
    return number, (name, 0, data)


class ReadToPartitions(beam.DoFn):  # type: ignore[misc]
    """Reads one input per element and yields its rows as pieces.

    Args:
        read: from an input to its named frames, a chunk at a time.
        partitions: the dataset's number of partitions.
    """

    def __init__(
        self, read: Callable[[Any], Iterator[tuple[str, pl.DataFrame]]], partitions: int
    ) -> None:
        super().__init__()
        self.read = read
        self.partitions = partitions
        self._reading: deque[Iterator[tuple[int, Piece]]] = deque()

    def start_bundle(self) -> None:
        """Start with nothing being read."""
        self._reading.clear()

    def process(self, element: Any) -> Iterator[tuple[int, Piece]]:
        """Yield ``(partition, (name, bytes))`` for every chunk of an input read by now."""
        self._reading.append(Ahead(self._pieces(element), PIECES_AHEAD))
        while len(self._reading) > INPUTS_AHEAD:
            yield from self._reading.popleft()

    def finish_bundle(self) -> Iterator[Any]:
        """Yield the pieces of the inputs that are left."""
        while self._reading:
            yield from map(GlobalWindows.windowed_value, self._reading.popleft())

    def _pieces(self, element: Any) -> Iterator[tuple[int, Piece]]:
        for name, frame in self.read(element):
            yield from scatter(name, frame, self.partitions)


def gather_group(element: tuple[int, Mapping[str, Iterable[Piece]]]) -> tuple[int, Frames]:
    """Return one partition's frames from what a CoGroupByKey brought together."""
    partition, groups = element
    return partition, gather(piece for pieces in groups.values() for piece in pieces)


def on_partition(stage: Callable[..., Frames]) -> Callable[..., tuple[int, Frames]]:
    """Return ``stage`` as a function on ``(partition, frames)`` and the stage's other arguments."""

    def carry(element: tuple[int, Frames], *arguments: Any) -> tuple[int, Frames]:
        number, frames = element
        return number, stage(frames, *arguments)

    return carry
