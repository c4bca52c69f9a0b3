"""Model calls of a job whose partitions many workers share: each lane is one worker's at a time.

Where one process makes all calls, partitions stream through it as they come. Where several do, a
lane's partitions are brought together first: a runner hands the group to one worker, and only when
that has failed to another one. The limits are divided over the lanes (``transforms.llm.lanes``),
so no worker has to know of another.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any

import apache_beam as beam

from transforms.frames import from_ipc, split_frame, to_ipc
from transforms.llm.lanes import lane_of
from transforms.llm.settings import EngineSettings
from transforms.llm.streaming import CallPartitions, PartitionWork
from transforms.partitions import PARTITION, Frames

#: A part of one frame: partition, name of the frame, number of the part, Arrow IPC.
LanePiece = tuple[int, str, int, bytes]

#: Partitions of a lane that are worked on at once: the next one while the last has stragglers.
_LANE_PARTITIONS = 2


class MakeCalls(beam.PTransform):  # type: ignore[misc]
    """From partitions ``(number, frames)`` to what ``work`` makes of each, with its model calls."""

    def __init__(self, settings: EngineSettings, work: PartitionWork[Any, Any, Any]) -> None:
        super().__init__()
        self._settings = settings
        self._work = work

    def expand(self, partitions: beam.PCollection) -> beam.PCollection:
        """Add the steps: with lanes a shuffle before the calls, without them none."""
        lanes = self._settings.lanes
        if lanes is None:
            number = beam.Map(lambda element: (element[0], element))
            calls = beam.ParDo(CallPartitions(self._settings, self._work))
            return (
                partitions
                | "Number partitions" >> number.with_output_types(tuple[int, PARTITION])
                | "Make calls" >> calls.with_output_types(PARTITION)
            )
        calls = beam.ParDo(CallLanes(self._settings, self._work))
        return (
            partitions
            | "To lanes" >> beam.FlatMap(to_lane, lanes)
            | "By lane" >> beam.GroupByKey()
            | "Make calls by lane" >> calls.with_output_types(PARTITION)
        )


def to_lane(element: tuple[int, Frames], lanes: int) -> Iterator[tuple[int, LanePiece]]:
    """Yield a partition's frames, with and without rows, as pieces for its lane."""
    number, frames = element
    for name, frame in frames.items():
        for part, rows in enumerate(list(split_frame(frame)) or [frame]):
            yield lane_of(number, lanes), (number, name, part, to_ipc(rows))


def partitions_of(pieces: Iterable[LanePiece]) -> Iterator[tuple[int, list[LanePiece]]]:
    """Yield the partitions that ``pieces`` are of, by number, each with its pieces in order."""
    found: dict[int, list[LanePiece]] = {}
    for piece in pieces:
        found.setdefault(piece[0], []).append(piece)
    for number in sorted(found):
        yield number, sorted(found[number], key=lambda piece: piece[1:3])


def frames_of(pieces: Iterable[LanePiece]) -> Frames:
    """Return the frames whose pieces these are, as they were."""
    frames: Frames = {}
    for _, name, _, data in pieces:
        frame = from_ipc(data)
        frames[name] = frames[name].vstack(frame) if name in frames else frame
    return frames


class CallLanes(CallPartitions[tuple[int, Frames], Any, Any]):
    """Elements ``(lane, pieces of its partitions)`` to what ``work.finish`` makes of partitions.

    Lanes of a bundle are worked on at once, since each has its share of the limits; of a lane some
    partitions at a time. What waits is held as Arrow IPC.
    """

    def start_bundle(self) -> None:
        """Start with nothing held."""
        super().start_bundle()
        self._waiting: dict[int, deque[tuple[int, list[LanePiece]]]] = {}

    def process(
        self,
        element: Any,
        timestamp: Any = beam.DoFn.TimestampParam,
        window: Any = beam.DoFn.WindowParam,
    ) -> Iterator[Any]:
        """Begin with one lane, and yield the outputs of the partitions that are done."""
        lane: int
        pieces: Iterable[LanePiece]
        lane, pieces = element
        self._waiting[lane] = deque(partitions_of(pieces))
        for _ in range(_LANE_PARTITIONS):
            self._submit_next(lane, timestamp, (window,))
        yield from self._done(leave=len(self._held))

    def _follow(self, held: Any) -> None:
        lane = lane_of(held.number, self._settings.lane_count)
        self._submit_next(lane, held.timestamp, held.windows)

    def _submit_next(self, lane: int, timestamp: Any, windows: tuple[Any, ...]) -> None:
        if self._waiting[lane]:
            number, pieces = self._waiting[lane].popleft()
            self._submit(number, (number, frames_of(pieces)), timestamp, windows)
