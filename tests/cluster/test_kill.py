"""Disturbed runs on a Flink cluster: a TaskManager is killed, the run is stopped by a signal."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest

from runner_configs.flink.cluster import FlinkCluster, running_cluster
from tests.cluster.conftest import JARS
from tests.cluster.runs import PROSOCIAL, ledger, shard_bytes, started
from transforms.llm.fake_endpoint.latency import constant
from transforms.llm.fake_endpoint.server import FakeEndpoint

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]

#: Calls in flight of each of the two workers.
IN_FLIGHT = 4


def cached(output: Path) -> int:
    """Return how many answers are in the cache below ``output``."""
    return sum(path.read_bytes().count(b"\n") for path in output.rglob("*.jsonl"))


def test_a_killed_task_manager_is_replaced_and_no_finished_call_repeated(tmp_path: Path) -> None:
    undisturbed, output = tmp_path / "undisturbed", tmp_path / "output"
    with FakeEndpoint() as endpoint, running_cluster(tmp_path / "flink", 2, JARS) as cluster:
        expected = PROSOCIAL.mint(PROSOCIAL.arguments(endpoint.base_url, undisturbed))
        calls, asked = endpoint.requests, endpoint.seen.copy()
        endpoint.latency = lambda index: 0.1
        with started(endpoint, output, cluster, IN_FLIGHT) as run:
            while endpoint.answered < calls + calls // 3:
                assert run.poll() is None
                time.sleep(0.01)
            cluster.kill("taskmanager-1")
            assert endpoint.answered < 2 * calls
            cluster.start_task_manager()
            _, told = run.communicate(timeout=600)
        assert run.returncode == 0, told.decode()
        assert endpoint.seen.keys() == asked.keys()
        repeated = endpoint.seen - asked - asked
        # What was under way when it was killed, in its worker and in the one that had to start
        # over with it, was not finished.
        assert repeated.total() <= 2 * IN_FLIGHT
        assert cached(output) == calls == cached(undisturbed)
    version = output / "prosocial" / "v0001"
    assert shard_bytes(version) == shard_bytes(expected.path)
    assert ledger(version) == ledger(expected.path)


def test_a_stopped_run_cancels_its_job(tmp_path: Path, flink: FlinkCluster) -> None:
    def jobs(state: str) -> int:
        return int((flink.overview() or {})[f"jobs-{state}"])

    cancelled = jobs("cancelled")
    with FakeEndpoint(latency=constant(0.1)) as endpoint:
        with started(endpoint, tmp_path, flink, IN_FLIGHT) as run:
            while endpoint.answered < 40:
                assert run.poll() is None
                time.sleep(0.01)
            assert jobs("running") == 1
            run.send_signal(signal.SIGINT)
            _, told = run.communicate(timeout=60)
        assert run.returncode == 128 + signal.SIGINT
        assert told.decode().endswith("remint prosocial: stopped; run it again to carry on\n")
        while jobs("cancelled") == cancelled:
            time.sleep(0.1)
        assert jobs("running") == 0
        while endpoint.in_work:
            time.sleep(0.1)
        before = endpoint.requests
        time.sleep(2)
        assert endpoint.requests == before
