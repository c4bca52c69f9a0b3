"""The cache of raw replies, beside the dataset, in segments by partition.

``<directory>/p-00003/<creation time>-<random>.jsonl``: one writer's records, one JSON object per
line. Nothing is ever changed in place, so that any number of processes may write at once, and a
killed one leaves at worst a torn last line. Where two segments answer the same request the older
segment counts, on every run. ``transforms.llm.folders`` says more, also on compacted segments.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections.abc import Callable, Sequence

from transforms.llm.folders import folder_path, read_folder
from transforms.llm.records import CacheFaults, Records, new_line
from transforms.llm.segments import LONGEST_SECONDS, SegmentWriter, segment_writer

#: From so many seconds on that the store takes no answer, no call is made for another one.
HOLD_SECONDS = 10.0
_LOOK_SECONDS = 0.2

#: What gives the records of a cache of others, loaded when it is called.
Layer = Callable[[], Records]

logger = logging.getLogger(__name__)


class PartitionCache:
    """The replies of one partition: what was there, and what this process adds.

    ``layers`` lie under it, the first one on top: what is not in the cache itself is looked for
    there; they are never written to. Safe to use from several threads.
    """

    def __init__(self, directory: str, partition: int, layers: Sequence[Layer] = ()) -> None:
        self.path = folder_path(directory, partition)
        self._records = Records()
        self._layers = layers
        self._below: list[Records] = []
        self._loaded = False
        self._lock = threading.Lock()
        self._writer: SegmentWriter | None = None

    @property
    def faults(self) -> CacheFaults:
        """What the partition's own segments held beside usable records."""
        return self._records.faults

    def load(self) -> None:
        """Read the partition's segments, once."""
        with self._lock:
            if self._loaded:
                return
            load_folder(self.path, self._records)
            self._below = [layer() for layer in self._layers]
            self._loaded = True

    def __len__(self) -> int:
        return len(self._records) + sum(map(len, self._below))

    def __contains__(self, key: str) -> bool:
        return key in self._records or any(key in records for records in self._below)

    def get(self, key: str) -> tuple[int, str] | None:
        """Return HTTP status and raw body of the reply to request ``key``, or None."""
        found = self._records.get(key)
        if found is None:
            for records in self._below:
                found = records.get(key)
                if found is not None:
                    return found
        return found

    def put(self, key: str, prompt: str, status: int, body: str) -> None:
        """Keep a reply; on a local path it is in the file when this returns.

        Raises:
            OSError: it could not be written.
        """
        line = new_line(key, prompt, status, body)
        with self._lock:
            if self._writer is None:
                self._writer = segment_writer(self.path)
            try:
                self._writer.write(line + b"\n")
            except OSError:
                # Whatever follows half a record would be lost with it: start another segment.
                writer, self._writer = self._writer, None
                with contextlib.suppress(OSError):
                    writer.close()
                raise
        self._records.put(key, line)

    @property
    def is_behind(self) -> bool:
        """Whether the store has taken nothing for so long that no more is to be paid for."""
        writer = self._writer
        return writer is not None and writer.behind > HOLD_SECONDS

    async def caught_up(self) -> None:
        """Wait until the store takes again what was put.

        Raises:
            OSError: it has taken nothing for LONGEST_SECONDS.
        """
        while self.is_behind:
            writer = self._writer
            if writer is not None and writer.behind > LONGEST_SECONDS:
                raise OSError(f"{self.path}: nothing could be written for {LONGEST_SECONDS:.0f} s")
            await asyncio.sleep(_LOOK_SECONDS)

    def close(self) -> None:
        """Finish this process's segment.

        Raises:
            OSError: what was still buffered could not be written.
        """
        with self._lock:
            writer, self._writer = self._writer, None
        if writer is not None:
            writer.close()


def load_folder(path: str, records: Records) -> None:
    """Add what the segments of the folder at ``path`` hold to ``records``; tell of faults."""
    folder = read_folder(path)
    before = CacheFaults(**vars(records.faults))
    for segment in folder.segments:
        records.add(segment.lines)
        records.faults.torn += segment.torn
    records.faults.foreign += len(folder.foreign)
    if records.faults != before:
        logger.warning(
            "cache %s: %d torn, %d foreign, %d duplicate records passed over",
            path,
            records.faults.torn - before.torn,
            records.faults.foreign - before.foreign,
            records.faults.duplicates - before.duplicates,
        )
