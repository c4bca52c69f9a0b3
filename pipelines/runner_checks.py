"""Checks of the runner before a call is paid.

What a runner can't do shows itself late: when a worker can't find a file, reach the model or be
started, a job has been submitted and may have paid for calls. So everything that can be known
beforehand is asked beforehand.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Sequence

from pipelines.flink_jobs import running_jobs
from pipelines.runners import Workers, job_name, runner_of, with_scheme
from transforms.errors import OptionError
from transforms.llm.settings import is_loopback

SECONDS = 10.0
_REMEDY = "start it (make flink-up has one on this machine), or put its address right"


def check_runner(
    flags: Sequence[str],
    base_urls: Sequence[str],
    dataset: str,
    files: Iterable[str],
    seconds: float = SECONDS,
) -> None:
    """See that the runner is there, and that its workers reach the model and the paths of a run.

    Args:
        flags: Beam's, checked.
        base_urls: of the endpoints that are called; "" for the embedded model.
        dataset: the dataset's directory.
        files: every input file.
        seconds: how long a job server may take to answer.

    Raises:
        OptionError: with the remedy.
    """
    runner = runner_of(flags)
    away = runner.workers in (Workers.OTHER_MACHINES, Workers.CLOUD)
    near = [base_url for base_url in base_urls if not base_url or is_loopback(base_url)]
    if away and near:
        raise OptionError(
            f"{near[0] or 'the embedded model'} is reached from this machine alone, and the "
            f"workers of {runner.name} are on others; give --model and a --base-url that they reach"
        )
    check_paths(flags, dataset, files)
    if runner.name == "FlinkRunner" and shutil.which("java") is None:
        raise OptionError(
            "FlinkRunner starts Beam's job server, which needs Java, and there is no java on PATH; "
            "install it, or name a job server that runs with --runner=PortableRunner "
            "--job_endpoint=HOST:PORT"
        )
    if runner.workers is Workers.HERE and not all(
        is_loopback(with_scheme(place)) for place in (runner.job_endpoint, runner.master) if place
    ):
        raise OptionError(
            "--environment_type=LOOPBACK has this process do the work, which a cluster on other "
            "machines does not reach; use PROCESS or EXTERNAL"
        )
    if runner.job_endpoint is not None:
        _check_job_server(runner.job_endpoint, seconds)
    if runner.master is not None:
        _check_flink(runner.master, dataset, seconds)


def check_paths(flags: Sequence[str], dataset: str, files: Iterable[str]) -> None:
    """See that workers find the paths of a run, or of its rehearsal.

    Args:
        flags: Beam's, checked.
        dataset: the dataset's directory.
        files: every input file.

    Raises:
        OptionError: with the remedy.
    """
    runner = runner_of(flags)
    if runner.workers is not Workers.CLOUD:
        return
    for path in (dataset, *files):
        if "://" not in path:
            raise OptionError(
                f"{path}: the workers of {runner.name} have no folder in common with this "
                "machine; put it on an object store (gs://, s3://)"
            )


def check_parallelism(flags: Sequence[str], partitions: int) -> None:
    """See that there is a partition for every slot that a run takes.

    Raises:
        OptionError: slots would stay empty for the whole run.
    """
    parallelism = runner_of(flags).parallelism
    if parallelism is not None and parallelism > partitions:
        raise OptionError(
            f"--parallelism={parallelism}, but the dataset has {partitions} partitions, each of "
            "which is one worker's at a time; lower it, or begin another dataset with several "
            "--partitions for each slot"
        )


def _check_job_server(endpoint: str, seconds: float) -> None:
    """See that Beam's job server is there.

    Raises:
        OptionError: it is not.
    """
    import grpc

    with grpc.insecure_channel(endpoint) as channel:
        try:
            grpc.channel_ready_future(channel).result(timeout=seconds)
        except grpc.FutureTimeoutError as error:
            raise OptionError(
                f"--job_endpoint={endpoint}: no job server answers there; {_REMEDY}"
            ) from error


def _check_flink(master: str, dataset: str, seconds: float) -> None:
    """See that Flink is there, and that no job of an earlier run works on the dataset.

    Raises:
        OptionError: it is not, or there is one.
    """
    try:
        running = running_jobs(master, job_name(dataset), seconds)
    except OSError as error:
        raise OptionError(f"--flink_master={master}: no Flink answers there; {_REMEDY}") from error
    if running:
        raise OptionError(
            f"job {running[0]} of an earlier run still works on {dataset}; wait for it to end, or "
            f"cancel it at {with_scheme(master)}, and run again: no call is repeated"
        )
