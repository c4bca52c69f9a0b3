"""Claims on an object store, which has neither locks nor renames: whoever lists alone has won.

A claim is an object of its own, with a name that no other has. A claimant writes it and lists: the
claim holds if the listing shows no other one. Else it is withdrawn, and tried again after a random
pause. Two can't win: the one whose object was complete last listed after both were there. That asks
of the store what S3 and Google's promise, that a listing shows every object whose writing had ended
when it began; conditional writes, which many S3 servers take and ignore, are not needed.

A lease is a claim that its holder writes anew every few seconds. The store's own clock tells its
age, so clocks of different machines don't matter. One that is older than EXPIRY is its dead
holder's and is removed by the next claimant. The holder counts its own time from before it begins
to write, and after DEADLINE without a success says that its lease is lost.
"""

from __future__ import annotations

import json
import logging
import random
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from typing import Any

from transforms.publishing import storage

#: Seconds. A claimant waits for EXPIRY at most, and sees within RENEWAL that a holder lives.
RENEWAL, DEADLINE, EXPIRY = 10.0, 45.0, 60.0
#: Pauses of a claimant that meets others: at first others like it, which withdraw at once.
_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 3.0

logger = logging.getLogger("remint.claims")


class HeldError(Exception):
    """Another one's claim holds; ``body`` is what it says."""

    def __init__(self, body: Mapping[str, Any]) -> None:
        super().__init__()
        self.body = body


def new_claim(directory: str, begin: str = "") -> str:
    """Return the path of a claim that nobody else has; its name begins with ``begin``."""
    return storage.join(directory, f"{begin}{uuid.uuid4().hex}")


def claims(directory: str, begin: str = "") -> dict[str, storage.StoredFile]:
    """Return the claims in ``directory`` whose names begin with ``begin``, by path."""
    found = storage.stored_files(directory, begin)
    return {storage.join(directory, name): file for name, file in found.items()}


def claim_once(directory: str, begin: str) -> bool:
    """Claim, for good, what names that begin with ``begin`` stand for; return whether we have it.

    Where two try at once perhaps none has it: both try again, each after a random pause.
    """
    path = new_claim(directory, begin)
    storage.write_bytes(path, b"{}")
    if list(claims(directory, begin)) == [path]:
        return True
    storage.remove_file(path)
    return False


class Lease:
    """A lease on whatever ``directory`` stands for.

    Args:
        directory: of the claims.
        body: what others are told of the holder.
        on_lost: called, once and in another thread, when the lease has been lost.
    """

    def __init__(
        self, directory: str, body: Mapping[str, Any], on_lost: Callable[[], object]
    ) -> None:
        self._directory = directory
        self._body = storage.json_bytes(body)
        self._on_lost = on_lost
        self._path = ""
        self._over = threading.Event()
        self._begun = 0.0
        self._threads: list[threading.Thread] = []

    def take(self) -> None:
        """Take the lease; where a claim stands there, wait until it is renewed or has expired.

        Raises:
            HeldError: somebody else holds it.
            OSError: the store can't be used.
        """
        seen: dict[str, float] = {}
        pause = _FIRST_PAUSE
        while True:
            self._path = new_claim(self._directory)
            self._write()
            alive = self._alive()
            if not alive:
                self._renew_from_now_on()
                return
            storage.remove_file(self._path)
            for place, updated in alive.items():
                if updated > seen.setdefault(place, updated):
                    raise HeldError(_read(place))
            if pause < _LONGEST_PAUSE <= 2 * pause:
                logger.info(
                    "%s is claimed; seeing whether its holder lives, %d seconds at most",
                    self._directory.rpartition("/")[0],
                    EXPIRY,
                )
            time.sleep(pause * random.uniform(0.5, 1.0))
            pause = min(2 * pause, _LONGEST_PAUSE)

    def release(self) -> None:
        """Give it up."""
        if not self._over.is_set():
            self._over.set()
            for thread in self._threads:
                thread.join()
            try:
                storage.remove_file(self._path)
            except OSError as error:
                logger.warning("the lease could not be given up and has to expire (%s)", error)

    def _alive(self) -> dict[str, float]:
        """Return when each claim beside ours was last written, and remove what has expired."""
        found = claims(self._directory)
        own = found.pop(self._path, None)
        if own is None:
            raise OSError(f"{self._path} was written and is not listed; is it removed by others?")
        now = own.updated
        expired = [place for place, file in found.items() if now - file.updated > EXPIRY]
        storage.remove_stored(expired)
        return {place: file.updated for place, file in found.items() if place not in expired}

    def _write(self) -> None:
        begun = _now()
        storage.write_bytes(self._path, self._body)
        self._begun = begun

    def _renew_from_now_on(self) -> None:
        self._threads = [
            threading.Thread(target=run, name="remint-lease", daemon=True)
            for run in (self._renew, self._watch)
        ]
        for thread in self._threads:
            thread.start()

    def _renew(self) -> None:
        while not self._over.wait(RENEWAL):
            try:
                if not storage.exists(self._path):
                    self._lost()
                    return
                self._write()
            except OSError as error:
                logger.warning("the lease could not be renewed, trying again (%s)", error)

    def _watch(self) -> None:
        """See that the lease is renewed in time, also where writing hangs."""
        while not self._over.wait(max(0.0, self._begun + DEADLINE - _now())):
            if _now() - self._begun >= DEADLINE:
                self._lost()

    def _lost(self) -> None:
        if not self._over.is_set():
            self._over.set()
            self._on_lost()


def _read(path: str) -> Mapping[str, Any]:
    try:
        body: Mapping[str, Any] = json.loads(storage.read_bytes(path))
    except (OSError, ValueError):  # it was given up just now
        body = {}
    return body


def _now() -> float:
    """Return seconds that go on while the machine sleeps, where its clock can tell."""
    clock = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if clock is None else time.clock_gettime(clock)
