"""What each process of a run tells of its calls while they are made, for who watches the run.

    <work folder>/reports/<host>-<process id>.json   {"counts": {"calls_sent": 12}, "in_flight": 3}

A process writes its own file anew, every few seconds and when it is done with a partition for which
it made calls. What a dead one told stays: its calls were made. Nothing hangs on the files but what
is shown.
"""

from __future__ import annotations

import json
import os
import socket
import threading
import time
from collections import Counter

from transforms.llm.folders import list_folder
from transforms.llm.statistics import statistics
from transforms.publishing import storage

#: Seconds between two writings of a file, and between two looks at all; a store is paid for each.
_SECONDS, _SECONDS_AT_STORE = 2.0, 10.0


def _seconds(folder: str) -> float:
    return _SECONDS if storage.is_local(folder) else _SECONDS_AT_STORE


def _place(folder: str) -> str:
    return storage.join(folder, "reports")


def _own_name() -> str:
    return f"{socket.gethostname()}-{os.getpid()}.json"


class WorkerReport:
    """Writes this process's file; what was counted before this was made is left out.

    Args:
        folder: the run's work folder; None: nothing is written, since nobody else makes calls.
    """

    def __init__(self, folder: str | None) -> None:
        self._folder = folder
        self._before = statistics.counts()
        self._lock = threading.Lock()
        self._last = b""
        self._jobs = 0
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        if folder is not None:
            self._thread = threading.Thread(
                target=self._run, args=(folder,), name="remint-report", daemon=True
            )
            self._thread.start()

    def begin(self) -> None:
        """Take note that a partition's calls are begun."""
        with self._lock:
            self._jobs += 1

    def end(self) -> None:
        """Write how things stand when a partition's calls are done; the last writes the end."""
        with self._lock:
            self._jobs -= 1
            if self._folder is not None:
                self._write(self._folder)

    def close(self) -> None:
        """End the thread."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self, folder: str) -> None:
        while not self._ended.wait(_seconds(folder)):
            with self._lock:
                if self._jobs:
                    self._write(folder)

    def _write(self, folder: str) -> None:
        counts = statistics.counts()
        counts.subtract(self._before)
        told = {
            "counts": {name: count for name, count in sorted(counts.items()) if count},
            "in_flight": statistics.in_flight,
        }
        data = json.dumps(told).encode()
        if data == self._last:
            return
        try:
            storage.write_bytes(storage.join(_place(folder), _own_name()), data)
        except OSError:
            return  # what is shown is not worth a run; the next time it may do
        self._last = data


class OtherReports:
    """What the other processes of a run have told so far.

    Args:
        folder: the run's work folder; None: there are no others.
    """

    def __init__(self, folder: str | None) -> None:
        self._folder = folder
        self._told: dict[str, tuple[Counter[str], int]] = {}
        self._read = float("-inf")

    def read(self, *, now: bool = False) -> tuple[Counter[str], int]:
        """Return the sums of their counts and of their calls in flight.

        The files are looked at every few seconds, or ``now``.
        """
        if self._folder is not None:
            time_now = time.monotonic()
            if now or time_now - self._read >= _seconds(self._folder):
                self._look(_place(self._folder))
                self._read = time_now
        counts = Counter[str]()
        for each, _ in self._told.values():
            counts.update(each)
        return counts, sum(in_flight for _, in_flight in self._told.values())

    def _look(self, place: str) -> None:
        for name in _others_in(place):
            try:
                told = storage.read_json(storage.join(place, name))
            except (OSError, ValueError):
                continue  # what it told before stands
            self._told[name] = Counter(told["counts"]), told["in_flight"]


def _others_in(place: str) -> list[str]:
    try:
        return [name for name in list_folder(place) if name != _own_name()]
    except OSError:
        return []
