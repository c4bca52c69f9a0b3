"""Writing a cache segment: record by record on a local disk, in small objects elsewhere."""

from __future__ import annotations

import logging
import os
import threading
from typing import Protocol

from apache_beam.io.filesystem import CompressionTypes
from apache_beam.io.filesystems import FileSystems

FLUSH_SECONDS = 2.0
FLUSH_BYTES = 1024 * 1024

logger = logging.getLogger(__name__)


class SegmentWriter(Protocol):
    """Takes whole records, each with its line break."""

    def write(self, record: bytes) -> None:
        """Take one record."""
        ...  # pragma: no cover - protocol

    def close(self) -> None:
        """Write what is left; nothing may be written afterwards."""
        ...  # pragma: no cover - protocol


def segment_writer(path: str) -> SegmentWriter:
    """Return the writer of the segment called ``path`` (without its ending)."""
    if FileSystems.get_scheme(path) is None:
        return LocalSegment(path)
    return RemoteSegments(path)


class LocalSegment:
    """One file, one unbuffered write per record: a killed process loses nothing it was told."""

    def __init__(self, path: str) -> None:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        self._path = path
        self._file = os.open(f"{path}.jsonl", os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND)

    def write(self, record: bytes) -> None:
        """Write one record.

        Raises:
            OSError: it is not, or not wholly, in the file.
        """
        left = memoryview(record)
        while left:
            left = left[os.write(self._file, left) :]

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)


class RemoteSegments:
    """Objects that hold some seconds of records each, written by a thread of their own.

    Object stores append to nothing, so every flush makes a new object. What could not be written
    is tried again with the next flush.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._objects = 0
        self._records: list[bytes] = []
        self._bytes = 0
        self._closing = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="remint-cache", daemon=True)
        self._thread.start()

    def write(self, record: bytes) -> None:
        """Take one record; it is in an object some seconds later."""
        with self._changed:
            self._records.append(record)
            self._bytes += len(record)
            if self._bytes >= FLUSH_BYTES:
                self._changed.notify()

    def close(self) -> None:
        """Write what is left.

        Raises:
            OSError: it could not be written.
        """
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._thread.join()
        self._flush()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(
                    lambda: self._closing or self._bytes >= FLUSH_BYTES, FLUSH_SECONDS
                )
                if self._closing:
                    return
            try:
                self._flush()
            except OSError:
                logger.warning("cache segment %s: write failed, trying again", self._path)
                # A full buffer would wake this thread at once, again and again.
                with self._changed:
                    self._changed.wait_for(lambda: self._closing, FLUSH_SECONDS)

    def _flush(self) -> None:
        with self._changed:
            records = list(self._records)
        if not records:
            return
        path = f"{self._path}-{self._objects:06d}.jsonl"
        with FileSystems.create(path, compression_type=CompressionTypes.UNCOMPRESSED) as file:
            file.write(b"".join(records))
        with self._changed:
            del self._records[: len(records)]
            self._bytes -= sum(map(len, records))
        self._objects += 1
