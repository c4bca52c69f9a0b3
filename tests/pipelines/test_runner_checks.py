"""Checks of the runner: what is seen before a run begins."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from pipelines.runner_checks import check_parallelism, check_paths, check_runner
from transforms.errors import OptionError

REMOTE = "https://api.openai.com/v1"
LOOPBACK = "http://127.0.0.1:8000/v1"
COMMAND = '--environment_config={"command": "remint-worker"}'
ELSEWHERE = (
    *("--runner=PortableRunner", "--job_endpoint=jobs.example:8099"),
    *("--environment_type=PROCESS", COMMAND),
)
DATAFLOW = ("--runner=DataflowRunner", "--project=p", "--region=r", "--temp_location=gs://b/t")


@pytest.fixture
def closed_port() -> Iterator[int]:
    """Yield a port on which nothing listens as long as the test runs."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield held.getsockname()[1]


@pytest.mark.parametrize("flags", [ELSEWHERE, DATAFLOW])
@pytest.mark.parametrize("base_url", [LOOPBACK, ""])
def test_workers_on_other_machines_reach_no_loopback(flags: tuple[str, ...], base_url: str) -> None:
    with pytest.raises(OptionError, match="from this machine alone"):
        check_runner(flags, [REMOTE, base_url], "gs://bucket/out", [])


def test_dataflow_reads_and_writes_object_stores_alone() -> None:
    check_runner(DATAFLOW, [REMOTE], "gs://bucket/out", ["s3://bucket/seeds.csv"])
    with pytest.raises(OptionError, match=r"/data/seeds\.csv: the workers of DataflowRunner"):
        check_runner(DATAFLOW, [REMOTE], "gs://bucket/out", ["/data/seeds.csv"])
    with pytest.raises(OptionError, match="out: the workers of DataflowRunner"):
        check_paths(DATAFLOW, "out", [])


def test_a_job_server_that_is_not_there_is_told_of(closed_port: int) -> None:
    flags = (
        *("--runner=PortableRunner", f"--job_endpoint=localhost:{closed_port}"),
        "--environment_type=LOOPBACK",
    )
    with pytest.raises(OptionError, match=r"no job server answers there; start it \(make flink-up"):
        check_runner(flags, [LOOPBACK], "out", [], seconds=0.5)


def test_a_flink_that_is_not_there_is_told_of(
    closed_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shutil.which", lambda name: f"/usr/bin/{name}")
    flags = (
        *("--runner=FlinkRunner", f"--flink_master=localhost:{closed_port}"),
        *("--environment_type=PROCESS", COMMAND),
    )
    with pytest.raises(OptionError, match="no Flink answers there"):
        check_runner(flags, [LOOPBACK], "out", [])


def test_flink_runner_needs_java(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda name: None)
    with pytest.raises(OptionError, match="needs Java"):
        check_runner(("--runner=FlinkRunner",), [LOOPBACK], "out", [])


def test_loopback_workers_of_another_machines_job_server_are_refused() -> None:
    flags = (*ELSEWHERE[:2], "--environment_type=LOOPBACK")
    with pytest.raises(OptionError, match="has this process do the work"):
        check_runner(flags, [REMOTE], "out", [])


def test_parallelism_goes_with_partitions() -> None:
    check_parallelism((*ELSEWHERE, "--parallelism=4"), 4)
    check_parallelism(ELSEWHERE, 1)
    with pytest.raises(OptionError, match="the dataset has 4 partitions"):
        check_parallelism((*ELSEWHERE, "--parallelism=5"), 4)
