"""EXTERNAL environments: a worker pool beside each TaskManager, as on Kubernetes."""

from __future__ import annotations

from pathlib import Path

import pytest

from runner_configs.flink.cluster import running_cluster
from tests.cluster.conftest import JARS
from tests.cluster.runs import PROSOCIAL, ledger, shard_bytes
from transforms.llm.fake_endpoint.server import FakeEndpoint

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]


def test_each_task_manager_gets_its_workers_from_its_own_pool(tmp_path: Path) -> None:
    with (
        FakeEndpoint() as endpoint,
        running_cluster(tmp_path / "flink", 2, JARS, worker_pools=True) as cluster,
    ):
        expected = PROSOCIAL.mint(PROSOCIAL.arguments(endpoint.base_url, tmp_path / "local"))
        calls = endpoint.requests
        flags = (
            *("--runner=PortableRunner", f"--job_endpoint={cluster.job_endpoint}"),
            *(f"--flink_master={cluster.master}", "--environment_cache_millis=20000"),
            *("--environment_type=EXTERNAL", f"--environment_config={cluster.pool_address}"),
            "--parallelism=2",
        )
        result = PROSOCIAL.mint(PROSOCIAL.arguments(endpoint.base_url, tmp_path / "pools", *flags))
        assert endpoint.requests == 2 * calls
        for number in (1, 2):
            log = cluster.directory / "log" / f"workerpool-{number}.log"
            assert "started worker 1-1" in log.read_text()
        assert "workerpool-2" in cluster.down()
        assert not cluster.running()
    assert shard_bytes(result.path) == shard_bytes(expected.path)
    # Both made the calls: their latencies are their own.
    assert ledger(result.path)["stages"] == ledger(expected.path)["stages"]
