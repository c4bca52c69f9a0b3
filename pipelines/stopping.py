"""Stopping a run: at SIGINT or SIGTERM no further call is paid, and what was answered is kept.

Beam takes an interrupt within a step for a failure of that step and goes on with the others, which
go on calling; and Polars has SIGINT restart what it interrupts, so that Python's own handlers run
only when the main thread wakes by itself. Hence a thread of its own that is told by the wakeup file
descriptor. A stopped run is carried on like a killed one, so the process simply ends; its children
(the embedded model, Beam's workers) end with it, and a job that runs elsewhere is cancelled first.
"""

from __future__ import annotations

import atexit
import logging
import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

SIGNALS = (signal.SIGINT, signal.SIGTERM)
#: So long cancelling may take, and then an engine that writes what an object store has not got yet.
SECONDS = 10.0

logger = logging.getLogger("remint.run")

_at_stop: list[Callable[[], object]] = []


@contextmanager
def at_stop(action: Callable[[], object]) -> Iterator[None]:
    """Have ``action`` done, should a signal end the process while the ``with`` block runs."""
    _at_stop.append(action)
    try:
        yield
    finally:
        _at_stop.remove(action)


@contextmanager
def stopping_at_signals(program: str) -> Iterator[None]:
    """End the process at SIGINT and SIGTERM, with one line and 128 plus the signal's number.

    Args:
        program: what the line begins with.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    told, tell = os.pipe()
    os.set_blocking(tell, False)
    watcher = threading.Thread(target=_watch, args=(told, program), daemon=True)
    watcher.start()
    tell_before = signal.set_wakeup_fd(tell)
    before = {number: signal.signal(number, lambda *_: None) for number in SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(tell_before)
        os.close(tell)
        watcher.join()
        os.close(told)


def stop_run() -> None:
    """Stop this process as a signal would: another run may have its dataset now."""
    logger.error("the dataset is no longer held by this run, since its store can't be written to")
    os.kill(os.getpid(), signal.SIGTERM)


def _watch(told: int, program: str) -> None:
    while numbers := os.read(told, 1):
        if numbers[0] in SIGNALS:
            # What is broken off here is no news of Beam's.
            logging.disable(logging.CRITICAL)
            threading.excepthook = lambda _: None
            os.write(2, f"{program}: stopped; run it again to carry on\n".encode())
            # The functions for the process's end close engines, and job servers of Beam's own.
            for action in (*_at_stop, atexit._run_exitfuncs):
                ending = threading.Thread(target=_quietly, args=(action,), daemon=True)
                ending.start()
                ending.join(SECONDS)
            os._exit(128 + numbers[0])


def _quietly(action: Callable[[], object]) -> None:
    """Do ``action`` on the way out, where nobody can be told that it failed."""
    with suppress(Exception):
        action()
