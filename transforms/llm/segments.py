"""Writing a cache segment: record by record on a local disk, in small objects elsewhere."""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import time
import uuid
from typing import Protocol

from apache_beam.io.filesystems import FileSystems

from transforms.publishing import storage

FLUSH_SECONDS = 0.5
FLUSH_BYTES = 1024 * 1024
#: From so many bytes on a writer's objects become one.
MERGE_BYTES = 32 * 1024 * 1024
#: A store may refuse a record for so long, in seconds.
LONGEST_SECONDS = 90.0
#: The longest pause between two attempts at a store that takes nothing, in seconds.
_LONGEST_PAUSE = 5.0

logger = logging.getLogger(__name__)


class SegmentWriter(Protocol):
    """Takes whole records, each with its line break."""

    @property
    def behind(self) -> float:
        """Seconds that the store has taken nothing of what it was given."""
        ...  # pragma: no cover - protocol

    def write(self, record: bytes) -> None:
        """Take one record."""
        ...  # pragma: no cover - protocol

    def close(self) -> None:
        """Write what is left; nothing may be written afterwards."""
        ...  # pragma: no cover - protocol


def segment_writer(folder: str) -> SegmentWriter:
    """Return the writer of a new segment in ``folder``."""
    if FileSystems.get_scheme(folder) is None:
        return LocalSegment(folder)
    return RemoteSegments(folder)


def new_name() -> str:
    """Return a name (without its ending) that no other has, and that sorts by the time of now."""
    return f"{time.time_ns() // 1000:016x}-{uuid.uuid4().hex[:12]}"


class LocalSegment:
    """One file, one unbuffered write per record: a killed process loses nothing it was told.

    The file is locked as long as it is written, by a lock that the kernel releases with the
    process: a compaction sees by it which segments are finished.
    """

    behind = 0.0

    def __init__(self, folder: str) -> None:
        os.makedirs(folder, exist_ok=True)
        while True:
            path = os.path.join(folder, f"{new_name()}.jsonl")
            self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND)
            if self._is_ours():
                return
            os.close(self._file)  # a compaction found it before it was locked, and removes it

    def _is_ours(self) -> bool:
        try:
            return _lock(self._file) and bool(os.fstat(self._file).st_nlink)
        except OSError:
            return True  # a filesystem without locks, where nothing can be compacted

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
        _unlock(self._file)  # a forked child may hold it open
        os.close(self._file)


def remove_finished(path: str, *, only_empty: bool = False) -> bool:
    """Remove the local segment at ``path`` unless it is being written; return whether it is gone.

    Args:
        path: the file.
        only_empty: and unless it holds anything.
    """
    try:
        file = _open_to_lock(path)
    except FileNotFoundError:
        return True
    try:
        if not _lock(file) or (only_empty and os.fstat(file).st_size):
            return False
        os.unlink(path)
        return True
    finally:
        os.close(file)


def is_being_written(path: str) -> bool:
    """Return whether a process is writing the local segment at ``path``."""
    file = _open_to_lock(path)
    try:
        return not _lock(file)
    finally:
        os.close(file)


def _open_to_lock(path: str) -> int:
    """Open a file for a lock: NFS gives an exclusive one only on what is open for writing."""
    try:
        return os.open(path, os.O_RDWR)
    except PermissionError:
        return os.open(path, os.O_RDONLY)


def _lock(file: int) -> bool:
    """Lock an open file, and return False where another process has."""
    import fcntl  # only POSIX has it

    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _unlock(file: int) -> None:
    import fcntl

    with contextlib.suppress(OSError):
        fcntl.flock(file, fcntl.LOCK_UN)


class RemoteSegments:
    """Objects that hold half a second of records each, written by a thread of their own.

    Object stores append to nothing, so every flush makes a new object. What could not be written
    is tried again and again; nothing is given up before it was tried for LONGEST_SECONDS, and
    whoever pays for the records can see by ``behind`` when to wait with further ones. A killed
    process loses the records of its last FLUSH_SECONDS and of the write or merge under way. In the
    end, or when they are many, the records are written once more, into one object in place of the
    small ones, which would take long to read. Its name sorts after theirs, so that no listing
    misses both; whoever reads both finds the same records twice.
    """

    def __init__(self, folder: str) -> None:
        self._path = FileSystems.join(folder, new_name())
        self._objects = 0
        self._written: list[str] = []
        self._records: list[bytes] = []
        self._trying_since: float | None = None  # of the first of the attempts at one write
        self._flushed: list[bytes] = []
        self._bytes = 0
        self._closing = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="remint-cache", daemon=True)
        self._thread.start()

    @property
    def behind(self) -> float:
        """Seconds that the store has taken nothing of what it was given.

        What waits for a merge counts for nothing: removing a thousand objects takes minutes on a
        store that is in the best of health.
        """
        since = self._trying_since
        return 0.0 if since is None else time.monotonic() - since

    def write(self, record: bytes) -> None:
        """Take one record; it is in an object some seconds later."""
        with self._changed:
            self._records.append(record)
            self._bytes += len(record)
            if self._bytes >= FLUSH_BYTES:
                self._changed.notify()

    def close(self) -> None:
        """Write what is left, trying for as long as it may wait.

        Raises:
            OSError: it could not be written.
        """
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._thread.join()
        pause = FLUSH_SECONDS
        while True:
            try:
                self._flush()
                break
            except OSError as error:
                if self.behind + pause > LONGEST_SECONDS:
                    raise OSError(
                        f"{self._path}: {len(self._records)} answers are lost, nothing could be "
                        f"written for {self.behind:.0f} s"
                    ) from error
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)
        self._merge()

    def _run(self) -> None:
        pause = FLUSH_SECONDS
        while True:
            with self._changed:
                self._changed.wait_for(
                    lambda: self._closing or self._bytes >= FLUSH_BYTES, FLUSH_SECONDS
                )
                if self._closing:
                    return
            try:
                self._flush()
                pause = FLUSH_SECONDS
            except OSError:
                logger.warning("cache segment %s: write failed, trying again", self._path)
                # A full buffer would wake this thread at once, again and again.
                with self._changed:
                    self._changed.wait_for(lambda: self._closing, pause)
                pause = min(2 * pause, _LONGEST_PAUSE)

    def _flush(self) -> None:
        with self._changed:
            records = list(self._records)
        if not records:
            return
        path = f"{self._path}-{self._objects:06d}.jsonl"
        # Also what failed may have been written, and a name must never come twice: a compaction
        # may have replaced its first object.
        self._objects += 1
        if self._trying_since is None:
            self._trying_since = time.monotonic()
        storage.write_bytes(path, b"".join(records))
        self._trying_since = None
        with self._changed:
            del self._records[: len(records)]
            self._bytes -= sum(map(len, records))
        self._written.append(path)
        self._flushed += records
        if sum(map(len, self._flushed)) >= MERGE_BYTES:
            self._merge()

    def _merge(self) -> None:
        written, flushed = self._written, self._flushed
        self._written, self._flushed = [], []
        if len(written) < 2:
            return
        path = written[-1].removesuffix(".jsonl") + ".merged.jsonl"
        try:
            storage.write_bytes(path, b"".join(flushed))
            storage.remove_stored(written)
        except OSError:
            logger.warning("cache segment %s: left in several objects", self._path)
