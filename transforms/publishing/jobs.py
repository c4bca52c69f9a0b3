"""The job that works on a dataset, where it may outlive the process that started it.

On a cluster a job goes on when its driver is gone, and nothing the driver held tells of it. So
``<dataset>/.job.json`` is written before such a job is submitted, and removed when it has ended: by
its last step, or by a driver that saw its end. While it is there, no other run may begin; where
nobody can find out whether the job still works, ``remint unlock`` is for who knows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from transforms.errors import OutputError
from transforms.publishing import storage

JOB_NAME = ".job.json"


@dataclass(frozen=True)
class RunningJob:
    """A job that may be at work.

    Attributes:
        version: the directory of the version that it is to publish.
        runner: the runner's name.
        job: the job's name there.
        master: address of Flink's REST interface, where it is known.
    """

    version: str
    runner: str
    job: str
    master: str | None = None


def note_job(dataset: str, job: RunningJob) -> None:
    """Write down that ``job`` is about to work on the dataset at this path."""
    storage.write_bytes(_place(dataset), storage.json_bytes(asdict(job)), durable=True)


def forget_job(dataset: str, version: str) -> None:
    """Take down what ``note_job`` wrote, if it was the job that is to publish ``version``."""
    job = _noted(dataset)
    if job is not None and job.version == version:
        storage.remove_file(_place(dataset))


def check_no_job(dataset: str, has_ended: Callable[[RunningJob], bool]) -> None:
    """See that no job of an earlier run may still be at work on the dataset.

    Args:
        dataset: the dataset's directory; this process holds its lock.
        has_ended: tells whether it is certain that a job does not run any more.

    Raises:
        OutputError: there is one, or nobody can tell.
    """
    job = _noted(dataset)
    if job is None:
        return
    if not has_ended(job):
        raise OutputError(
            f"job {job.job!r} on {job.runner}, whose driver is gone, may still work on {dataset} "
            f"and pay for the same calls; let it end or cancel it there, and then, if this is said "
            f"again, run: remint unlock {dataset}"
        )
    storage.remove_file(_place(dataset))


def remove_job(dataset: str) -> RunningJob | None:
    """Take down whatever job was noted, and return it."""
    job = _noted(dataset)
    if job is not None:
        storage.remove_file(_place(dataset))
    return job


def _noted(dataset: str) -> RunningJob | None:
    place = _place(dataset)
    if not storage.exists(place):
        return None
    try:
        raw: Any = storage.read_json(place)
        return RunningJob(**raw)
    except (ValueError, TypeError) as error:
        raise OutputError(
            f"{place} can't be read, which tells of a job that may be at work; remove it when you "
            "know that none is"
        ) from error


def _place(dataset: str) -> str:
    return storage.join(dataset, JOB_NAME)
