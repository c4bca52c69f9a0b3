"""The worker pool, asked by its service as a runner asks it."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from apache_beam.portability.api import beam_fn_api_pb2, beam_fn_api_pb2_grpc, endpoints_pb2

from runner_configs import worker_pool
from runner_configs.worker_pool import WorkerPool, serve

#: Stands for a worker: tells what it was called with, then waits for its end.
PROGRAM = """
import pathlib, sys, time
pathlib.Path(sys.argv[1], sys.argv[2].partition("=")[2]).write_text(" ".join(sys.argv[2:]))
time.sleep(600)
"""


@pytest.fixture
def pool(tmp_path: Path) -> Iterator[WorkerPool]:
    made = WorkerPool([sys.executable, "-c", PROGRAM, str(tmp_path)])
    yield made
    made.close()


@pytest.fixture
def runner(pool: WorkerPool) -> Iterator[Any]:
    """Yield what a runner asks the pool by."""
    server, port = serve(pool, "127.0.0.1", 0)
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        yield beam_fn_api_pb2_grpc.BeamFnExternalWorkerPoolStub(channel)
    server.stop(None)


def start(runner: Any, number: str, folder: Path) -> str:
    """Ask for a worker and return the arguments that it got."""
    request = beam_fn_api_pb2.StartWorkerRequest(
        worker_id=number,
        provision_endpoint=endpoints_pb2.ApiServiceDescriptor(url="localhost:7"),
        control_endpoint=endpoints_pb2.ApiServiceDescriptor(url="localhost:8"),
    )
    told = folder / number
    told.unlink(missing_ok=True)
    assert not runner.StartWorker(request).error
    while not (told.exists() and told.read_text()):
        time.sleep(0.01)
    return told.read_text()


def test_a_worker_is_started_with_its_number_and_ended(
    pool: WorkerPool, runner: Any, tmp_path: Path
) -> None:
    assert start(runner, "1-1", tmp_path) == "--id=1-1 --provision_endpoint=localhost:7"
    process = pool._workers["1-1"]
    runner.StopWorker(beam_fn_api_pb2.StopWorkerRequest(worker_id="1-1"))
    assert process.returncode == -signal.SIGTERM
    runner.StopWorker(beam_fn_api_pb2.StopWorkerRequest(worker_id="1-1"))


def test_another_worker_of_a_number_ends_the_first(
    pool: WorkerPool, runner: Any, tmp_path: Path
) -> None:
    start(runner, "1-1", tmp_path)
    start(runner, "2-1", tmp_path)
    first, other = pool._workers["1-1"], pool._workers["2-1"]
    start(runner, "1-1", tmp_path)
    assert first.returncode == -signal.SIGTERM
    assert other.poll() is None
    pool.close()
    assert other.returncode == -signal.SIGTERM


def test_a_worker_that_cannot_be_started_is_told_of() -> None:
    pool = WorkerPool(["/no/such/program"])
    request = beam_fn_api_pb2.StartWorkerRequest(worker_id="1-1")
    assert "No such file" in pool.StartWorker(request, None).error


def test_a_second_pool_on_a_port_is_refused(
    pool: WorkerPool, capsys: pytest.CaptureFixture[str]
) -> None:
    server, port = serve(pool, "127.0.0.1", 0)
    assert worker_pool.main(["--port", str(port)]) == 1
    assert f"127.0.0.1:{port} is taken" in capsys.readouterr().err
    server.stop(None)


def test_a_pool_ends_at_a_signal() -> None:
    command = [sys.executable, "-m", "runner_configs.worker_pool", "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            # Beam may have remarks of its own before.
            assert any("ready at 127.0.0.1:" in line for line in process.stderr)
            process.terminate()
            assert process.wait(60) == 128 + signal.SIGTERM
        finally:
            process.kill()
