"""The cache of raw replies, beside the dataset, in segments by partition.

``<directory>/p-00003/<creation time>-<random>.jsonl``: one writer's records, one JSON object per
line. Nothing is ever changed in place, so that any number of processes may write at once, and a
killed one leaves at worst a torn last line. Where two segments answer the same request the older
segment counts, on every run.
"""

from __future__ import annotations

import json
import logging
import threading
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timezone

from apache_beam.io.filesystems import FileSystems

from transforms.llm.parsing import parse_json
from transforms.llm.segments import SegmentWriter, segment_writer

#: Goes up whenever a record is written in another form; others are passed over and counted.
FORMAT_VERSION = 1

_HEAD = b'{"version":%d,"key":"' % FORMAT_VERSION
_KEY = slice(len(_HEAD), len(_HEAD) + 64)
_AFTER = slice(_KEY.stop, _KEY.stop + 11)

logger = logging.getLogger(__name__)


@dataclass
class CacheFaults:
    """What a partition's segments held beside usable records."""

    torn: int = 0  # lines cut off, or damaged
    foreign: int = 0  # lines of another format, files that are no segments
    duplicates: int = 0  # further answers to the same request

    def __bool__(self) -> bool:
        return bool(self.torn or self.foreign or self.duplicates)


class PartitionCache:
    """The replies of one partition: what was there, and what this process adds.

    Records are kept as the lines they are and parsed when they are asked for. Safe to use from
    several threads.
    """

    def __init__(self, directory: str, partition: int) -> None:
        self.path = FileSystems.join(directory, f"p-{partition:05d}")
        self.faults = CacheFaults()
        self._lines: dict[bytes, bytes] = {}
        self._later: dict[bytes, list[bytes]] = {}
        self._loaded = False
        self._lock = threading.Lock()
        self._writer: SegmentWriter | None = None

    def load(self) -> None:
        """Read the partition's segments, once."""
        with self._lock:
            if self._loaded:
                return
            for name, data in _segments(self.path, self.faults):
                self._index(name, data)
            self._loaded = True
        if self.faults:
            logger.warning(
                "cache %s: %d torn, %d foreign, %d duplicate records passed over",
                self.path,
                self.faults.torn,
                self.faults.foreign,
                self.faults.duplicates,
            )

    def _index(self, name: str, data: bytes) -> None:
        lines = data.split(b"\n")
        if lines.pop():
            self.faults.torn += 1  # what follows the last line break is a record cut off
        for line in lines:
            if line.startswith(_HEAD) and line[_AFTER] == b'","prompt":' and line[-2:] == b'"}':
                if self._lines.setdefault(line[_KEY], line) is not line:
                    self._later.setdefault(line[_KEY], []).append(line)
                    self.faults.duplicates += 1
            elif line.startswith(_HEAD):
                self.faults.torn += 1
            else:
                self.faults.foreign += 1

    def __len__(self) -> int:
        return len(self._lines)

    def __contains__(self, key: str) -> bool:
        return key.encode() in self._lines

    def get(self, key: str) -> tuple[int, str] | None:
        """Return HTTP status and raw body of the reply to request ``key``, or None."""
        name = key.encode()
        while (line := self._lines.get(name)) is not None:
            try:
                record = parse_json(line)
                return int(record["status"]), str(record["body"])
            except (ValueError, KeyError, TypeError):
                self.faults.torn += 1
                # An earlier run has asked again for what is damaged here: its answer counts.
                later = self._later.get(name)
                if later:
                    self._lines[name] = later.pop(0)
                else:
                    del self._lines[name]
        return None

    def put(self, key: str, prompt: str, status: int, body: str) -> None:
        """Keep a reply; on a local path it is in the file when this returns.

        Raises:
            OSError: it could not be written.
        """
        created = datetime.now(timezone.utc).isoformat(timespec="seconds")
        record = {
            "version": FORMAT_VERSION,
            "key": key,
            "prompt": prompt,
            "created": created,
            "status": status,
            "body": body,
        }
        line = json.dumps(record, separators=(",", ":")).encode()
        with self._lock:
            if self._writer is None:
                name = f"{time.time_ns() // 1000:016x}-{uuid.uuid4().hex[:12]}"
                self._writer = segment_writer(FileSystems.join(self.path, name))
            try:
                self._writer.write(line + b"\n")
            except OSError:
                # Whatever follows half a record would be lost with it: start another segment.
                self._writer = None
                raise
        self._lines.setdefault(key.encode(), line)

    def close(self) -> None:
        """Finish this process's segment.

        Raises:
            OSError: what was still buffered could not be written.
        """
        with self._lock:
            writer, self._writer = self._writer, None
        if writer is not None:
            writer.close()


def _segments(path: str, faults: CacheFaults) -> Iterator[tuple[str, bytes]]:
    found = FileSystems.match([FileSystems.join(path, "*")])[0].metadata_list
    for name in sorted(metadata.path for metadata in found):
        if not name.endswith(".jsonl"):
            faults.foreign += 1
            continue
        with FileSystems.open(name) as file:
            yield name, file.read()
