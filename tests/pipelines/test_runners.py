"""Runners: how Beam's flags are understood."""

from __future__ import annotations

import pytest

from pipelines.runners import (
    Runner,
    Workers,
    beam_arguments,
    pipeline_options,
    runner_of,
    several_processes,
    worker_processes,
)
from runner_configs.worker import WORKING_DIRECTORY

COMMAND = '--environment_config={"command": "remint-worker"}'
ELSEWHERE = (
    *("--runner=PortableRunner", "--job_endpoint=jobs.example:8099"),
    *("--environment_type=PROCESS", COMMAND),
)
DATAFLOW = ("--runner=DataflowRunner", "--project=p", "--region=r", "--temp_location=gs://b/t")


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
        (
            (*DATAFLOW, "--template_location=gs://b/job"),
            Runner("DataflowRunner", Workers.CLOUD, describes=True),
        ),
    ],
)
def test_flags_describe_a_runner(flags: tuple[str, ...], expected: Runner) -> None:
    assert runner_of(flags) == expected
    assert expected.outlives_driver == (expected.workers is not Workers.HERE)


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


@pytest.mark.parametrize(
    ("flags", "workers"),
    [
        ((), 1),
        (("--direct_running_mode=multi_processing", "--direct_num_workers=3"), 3),
        ((*ELSEWHERE, "--parallelism=8"), 8),
        (ELSEWHERE, 1),
        ((*DATAFLOW, "--max_num_workers=4", "--machine_type=e2-standard-2"), 8),
        ((*DATAFLOW, "--num_workers=3"), 3),
    ],
)
def test_worker_processes_as_far_as_they_are_known(flags: tuple[str, ...], workers: int) -> None:
    assert worker_processes(flags) == workers
