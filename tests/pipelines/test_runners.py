"""Runners: how Beam's flags are understood, and what is refused before a run begins."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from pipelines.runners import (
    Runner,
    Workers,
    beam_arguments,
    check_flags,
    check_parallelism,
    check_runner,
    pipeline_options,
    runner_of,
    several_processes,
)
from runner_configs.worker import WORKING_DIRECTORY
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


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        ((), Runner("FnApiRunner", Workers.HERE)),
        (("--runner=DirectRunner",), Runner("FnApiRunner", Workers.HERE)),
        (("--runner=PrismRunner",), Runner("PrismRunner", Workers.HERE)),
        (
            ("--runner=PortableRunner", "--job_endpoint=embed", "--environment_type=LOOPBACK"),
            Runner("PortableRunner", Workers.HERE),
        ),
        (
            ("--runner=PortableRunner", "--job_endpoint=localhost:1", "--environment_type=PROCESS"),
            Runner("PortableRunner", Workers.THIS_MACHINE, "localhost:1"),
        ),
        (
            (*ELSEWHERE, "--parallelism=8"),
            Runner("PortableRunner", Workers.OTHER_MACHINES, "jobs.example:8099", None, 8),
        ),
        (("--runner=FlinkRunner",), Runner("FlinkRunner", Workers.HERE)),
        (
            ("--runner=FlinkRunner", "--flink_master=https://f:8081", "--environment_type=DOCKER"),
            Runner("FlinkRunner", Workers.OTHER_MACHINES, None, "https://f:8081"),
        ),
        (DATAFLOW, Runner("DataflowRunner", Workers.CLOUD)),
    ],
)
def test_flags_describe_a_runner(flags: tuple[str, ...], expected: Runner) -> None:
    assert runner_of(flags) == expected
    assert expected.outlives_driver == (expected.workers is not Workers.HERE)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--runner=SparkRunner",), "has not been tried on it"),
        (("--runner=BundleBasedDirectRunner",), "has not been tried on it"),
        (("--streaming",), "it is a batch"),
        (("--runner=PortableRunner",), "needs --job_endpoint"),
        (("--runner=PortableRunner", "--job_endpoint=h:1"), "needs --environment_type"),
        (("--runner=FlinkRunner", "--flink_master=h:1"), "needs --environment_type"),
        ((*ELSEWHERE[:3],), "needs --environment_config"),
        ((*ELSEWHERE[:3], "--environment_config=remint-worker"), "needs --environment_config"),
        (("--s3_secret_access_key=geheim",), "would be shown and logged"),
        (("--s3_session_token=geheim",), "would be shown and logged"),
        (("--save_main_session",), "leave it out"),
        (("--direct_running_mode=multi_threading",), "loses rows in silence"),
    ],
)
def test_what_a_runner_cannot_do_is_refused(flags: tuple[str, ...], message: str) -> None:
    with pytest.raises(OptionError, match=message) as refusal:
        check_flags(flags, ())
    assert "geheim" not in str(refusal.value)


@pytest.mark.parametrize("flags", [ELSEWHERE, DATAFLOW])
@pytest.mark.parametrize("base_url", [LOOPBACK, None])
def test_workers_on_other_machines_reach_no_loopback(
    flags: tuple[str, ...], base_url: str | None
) -> None:
    with pytest.raises(OptionError, match="from this machine alone"):
        check_runner(flags, base_url, "gs://bucket/out", [])


def test_dataflow_reads_and_writes_object_stores_alone() -> None:
    check_runner(DATAFLOW, REMOTE, "gs://bucket/out", ["s3://bucket/seeds.csv"])
    with pytest.raises(OptionError, match=r"/data/seeds\.csv: the workers of DataflowRunner"):
        check_runner(DATAFLOW, REMOTE, "gs://bucket/out", ["/data/seeds.csv"])


def test_a_job_server_that_is_not_there_is_told_of(closed_port: int) -> None:
    flags = (
        *("--runner=PortableRunner", f"--job_endpoint=localhost:{closed_port}"),
        "--environment_type=LOOPBACK",
    )
    with pytest.raises(OptionError, match=r"no job server answers there; start it \(make flink-up"):
        check_runner(flags, LOOPBACK, "out", [], seconds=0.5)


def test_a_flink_that_is_not_there_is_told_of(
    closed_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shutil.which", lambda name: f"/usr/bin/{name}")
    flags = (
        *("--runner=FlinkRunner", f"--flink_master=localhost:{closed_port}"),
        *("--environment_type=PROCESS", COMMAND),
    )
    with pytest.raises(OptionError, match="no Flink answers there"):
        check_runner(flags, LOOPBACK, "out", [])


def test_flink_runner_needs_java(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda name: None)
    with pytest.raises(OptionError, match="needs Java"):
        check_runner(("--runner=FlinkRunner",), LOOPBACK, "out", [])


def test_loopback_workers_of_another_machines_job_server_are_refused() -> None:
    flags = (*ELSEWHERE[:2], "--environment_type=LOOPBACK")
    with pytest.raises(OptionError, match="has this process do the work"):
        check_runner(flags, REMOTE, "out", [])


def test_parallelism_goes_with_partitions() -> None:
    check_parallelism((*ELSEWHERE, "--parallelism=4"), 4)
    check_parallelism(ELSEWHERE, 1)
    with pytest.raises(OptionError, match="the dataset has 4 partitions"):
        check_parallelism((*ELSEWHERE, "--parallelism=5"), 4)


def test_workers_of_others_are_told_where_relative_paths_start(
    monkeypatch: pytest.MonkeyPatch, tmp_path: object
) -> None:
    monkeypatch.chdir(str(tmp_path))
    told = pipeline_options(ELSEWHERE, "out").get_all_options()
    assert told[WORKING_DIRECTORY] == str(tmp_path)
    assert WORKING_DIRECTORY not in pipeline_options((), "out").get_all_options(drop_default=True)


@pytest.mark.parametrize(
    ("flags", "expected"),
    [
        ((), ["--runner=FnApiRunner"]),
        (("--runner=DirectRunner",), ["--runner=FnApiRunner"]),
        (("--runner", "DirectRunner", "--streaming"), ["--runner=FnApiRunner", "--streaming"]),
        (("--runner=PortableRunner",), ["--runner=PortableRunner"]),
    ],
)
def test_the_local_runner_is_pinned(flags: tuple[str, ...], expected: list[str]) -> None:
    assert beam_arguments(flags) == expected


@pytest.mark.parametrize(
    ("flags", "several"),
    [
        ((), False),
        (("--runner=DirectRunner",), False),
        (("--direct_num_workers=2",), False),
        (("--direct_running_mode=multi_processing", "--direct_num_workers=2"), True),
        (("--runner", "FlinkRunner"), True),
        (("--runner=PortableRunner", "--job_endpoint=localhost:8099"), True),
    ],
)
def test_runners_with_several_processes(flags: tuple[str, ...], several: bool) -> None:
    assert several_processes(flags) is several
