"""Model calls of a job whose partitions many workers share: each lane is one worker's at a time.

Where one process makes all calls, partitions stream through it as they come. Where several do, a
lane's partitions are brought together first: a runner hands the group to one worker, and only when
that has failed to another one. The limits are divided over the lanes (``transforms.llm.lanes``),
so no worker has to know of another. The group is of partitions' numbers alone, their frames wait
in the run's work folder: so a worker holds the partitions that it works on, not a lane's part of
the dataset.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any

import apache_beam as beam

from transforms.llm.lanes import lane_of
from transforms.llm.settings import EngineSettings
from transforms.llm.streaming import CallPartitions, PartitionWork
from transforms.llm.work_folder import leave_partition, take_partition
from transforms.partitions import PARTITION, Frames

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
            | "To lanes" >> beam.Map(_to_lane, lanes, _work_folder(self._settings))
            | "By lane" >> beam.GroupByKey()
            | "Make calls by lane" >> calls.with_output_types(PARTITION)
        )


def _to_lane(element: tuple[int, Frames], lanes: int, folder: str) -> tuple[int, int]:
    """Leave a partition for its lane, and return the lane with the partition's number."""
    number, frames = element
    leave_partition(folder, number, frames)
    return lane_of(number, lanes), number


def _work_folder(settings: EngineSettings) -> str:
    if settings.work is None:
        raise ValueError("with lanes the settings must name a work folder")
    return settings.work


class CallLanes(CallPartitions[tuple[int, Frames], Any, Any]):
    """Elements ``(lane, numbers of its partitions)`` to what ``work.finish`` makes of these.

    Lanes of a bundle are worked on at once, since each has its share of the limits; of a lane some
    partitions at a time.
    """

    def start_bundle(self) -> None:
        """Start with nothing held; see ``CallPartitions``."""
        super().start_bundle()
        self._waiting: dict[int, deque[int]] = {}

    def process(
        self,
        element: Any,
        timestamp: Any = beam.DoFn.TimestampParam,
        window: Any = beam.DoFn.WindowParam,
    ) -> Iterator[Any]:
        """Begin with one lane, and yield the outputs of the partitions that are done."""
        lane: int
        numbers: Iterable[int]
        lane, numbers = element
        with self._broken_off_by_failure():
            self._waiting[lane] = deque(sorted(numbers))
            for _ in range(_LANE_PARTITIONS):
                self._submit_next(lane, timestamp, (window,))
        yield from self._done(leave=len(self._held))

    def _follow(self, held: Any) -> None:
        lane = lane_of(held.number, self._settings.lane_count)
        self._submit_next(lane, held.timestamp, held.windows)

    def _submit_next(self, lane: int, timestamp: Any, windows: tuple[Any, ...]) -> None:
        if self._waiting[lane]:
            number = self._waiting[lane].popleft()
            frames = take_partition(_work_folder(self._settings), number)
            self._submit(number, (number, frames), timestamp, windows)
