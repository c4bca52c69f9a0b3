"""One run at a time per dataset, so that two don't pay for the same calls.

On a local filesystem that is an advisory lock that the kernel releases with the process: a BSD
``flock`` on ``<dataset>/.lock``, gone with its holder even after ``kill -9``. On object stores it
is a lease, see ``transforms.publishing.claims``, below ``<dataset>/.lock/``: a killed holder's
expires after a minute, for which the next run waits.
"""

from __future__ import annotations

import atexit
import datetime
import json
import os
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

from transforms.errors import OutputError
from transforms.publishing import storage
from transforms.publishing.claims import HeldError, Lease

LOCK_NAME = ".lock"


@contextmanager
def lock_dataset(dataset_path: str, on_lost: Callable[[], object] | None = None) -> Iterator[None]:
    """Hold the dataset at ``dataset_path`` for this run; its directory is made.

    Args:
        dataset_path: the dataset's directory.
        on_lost: called, in another thread, when the dataset is no longer held although nobody gave
            it up: its store could not be written to for most of a minute. By default nothing is
            done, which suits work that several may do at once.

    Raises:
        OutputError: where another run holds it, or the directory can't be made.
    """
    hold = _flock if storage.is_local(dataset_path) else _lease
    with hold(dataset_path, on_lost or (lambda: None)):
        yield


@contextmanager
def _lease(dataset_path: str, on_lost: Callable[[], object]) -> Iterator[None]:
    lease = Lease(storage.join(dataset_path, LOCK_NAME), _this_process(), on_lost)
    try:
        lease.take()
    except HeldError as held:
        raise _in_use(dataset_path, held.body) from None
    # A run that is stopped ends without leaving this block.
    give_up = atexit.register(partial(_give_up, lease))
    try:
        yield
    finally:
        atexit.unregister(give_up)
        lease.release()


def _give_up(lease: Lease) -> None:
    from transforms.llm.engine import close_engines

    close_engines()  # what they still hold is in the cache before another run may begin
    lease.release()


@contextmanager
def _flock(dataset_path: str, on_lost: Callable[[], object]) -> Iterator[None]:
    import fcntl  # only POSIX has it

    path = os.path.join(dataset_path, LOCK_NAME)
    try:
        os.makedirs(dataset_path, exist_ok=True)
        file = open(path, "a+", encoding="utf-8")  # noqa: SIM115 - closed below
    except OSError as error:
        raise OutputError(
            f"can't write to {dataset_path}: {error.strerror}; give another --output"
        ) from error
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            file.seek(0)
            try:
                holder = json.load(file)
            except ValueError:  # read before its holder had written it
                holder = {}
            raise _in_use(dataset_path, holder) from error
        file.truncate(0)
        json.dump(_this_process(), file)
        file.flush()
        yield


def _this_process() -> dict[str, Any]:
    started = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
    return {"pid": os.getpid(), "host": socket.gethostname(), "started": started}


def _in_use(dataset_path: str, holder: Mapping[str, Any]) -> OutputError:
    try:
        told = f"process {holder['pid']} on {holder['host']}, started {holder['started']}"
    except (KeyError, TypeError):
        told = "which has only just started"
    return OutputError(
        f"{dataset_path} is in use by another run ({told}); "
        "wait for it to end, or give another --output"
    )
