"""One run at a time per dataset: an advisory lock that the kernel releases with the process.

The lock is a BSD ``flock`` on ``<dataset>/.lock``, held by the process that drives the run, and is
gone with it, even after ``kill -9``. Filesystems other than local ones have no such lock: there,
two runs on one dataset are kept apart only by claiming different version numbers.
"""

from __future__ import annotations

import datetime
import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager

from transforms.errors import OutputError
from transforms.publishing.storage import is_local

LOCK_NAME = ".lock"


@contextmanager
def lock_dataset(dataset_path: str) -> Iterator[None]:
    """Hold the dataset at ``dataset_path`` for this run; its directory is made.

    Raises:
        OutputError: where another run holds it, or the directory can't be made.
    """
    if not is_local(dataset_path):
        yield
        return
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
            raise OutputError(
                f"{dataset_path} is in use by another run ({_holder(file.read())}); "
                "wait for it to end, or give another --output"
            ) from error
        file.truncate(0)
        started = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
        json.dump({"pid": os.getpid(), "host": socket.gethostname(), "started": started}, file)
        file.flush()
        yield


def _holder(text: str) -> str:
    try:
        holder = json.loads(text)
        return f"process {holder['pid']} on {holder['host']}, started {holder['started']}"
    except (ValueError, KeyError, TypeError):  # read before its holder had written it
        return "which has only just started"
