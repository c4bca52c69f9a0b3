"""A TaskManager is killed with -9 while it makes calls, and replaced."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from runner_configs.flink.cluster import running_cluster
from tests.cluster.conftest import JARS
from tests.cluster.runs import PROSOCIAL, ROOT, ledger, shard_bytes
from tests.fake_endpoint import FakeEndpoint

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]

#: Calls in flight of each of the two workers.
IN_FLIGHT = 4
PORTABLE = (
    *("--runner=PortableRunner", "--parallelism=2", "--environment_type=PROCESS"),
    '--environment_config={"command": "remint-worker"}',
)


def cached(output: Path) -> int:
    """Return how many answers are in the cache below ``output``."""
    return sum(path.read_bytes().count(b"\n") for path in output.rglob("*.jsonl"))


def test_a_killed_task_manager_is_replaced_and_no_finished_call_repeated(tmp_path: Path) -> None:
    undisturbed, output = tmp_path / "undisturbed", tmp_path / "output"
    with FakeEndpoint() as endpoint, running_cluster(tmp_path / "flink", 2, JARS) as cluster:
        expected = PROSOCIAL.mint(PROSOCIAL.arguments(endpoint.base_url, undisturbed))
        calls, asked = endpoint.requests, endpoint.seen.copy()
        endpoint.latency = lambda index: 0.1
        arguments = PROSOCIAL.arguments(
            endpoint.base_url,
            output,
            *("--concurrency", str(IN_FLIGHT), *PORTABLE),
            f"--job_endpoint={cluster.job_endpoint}",
        )
        command = [sys.executable, "-m", "pipelines.cli", "prosocial", *arguments]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        with subprocess.Popen(command, cwd=ROOT, env=environment, stderr=subprocess.PIPE) as run:
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
