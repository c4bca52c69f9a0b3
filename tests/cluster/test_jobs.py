"""Jobs whose driver is gone, and the key's way to the workers of a cluster."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest

from runner_configs.flink.cluster import FlinkCluster
from tests.cluster.runs import PORTABLE, PROSOCIAL, started
from transforms.errors import EndpointError, OutputError
from transforms.llm.fake_endpoint.latency import constant
from transforms.llm.fake_endpoint.server import FakeEndpoint
from transforms.publishing.jobs import JOB_NAME
from transforms.publishing.publish import Status

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]

KEY = "sk-remint-test-4d5e6f"


def test_a_job_without_its_driver_keeps_other_runs_off_until_it_has_published(
    tmp_path: Path, flink: FlinkCluster
) -> None:
    dataset = tmp_path / "prosocial"
    with FakeEndpoint(latency=constant(0.1)) as endpoint:
        with started(endpoint, tmp_path, flink, 4) as run:
            while endpoint.answered < 40:
                assert run.poll() is None
                time.sleep(0.01)
            run.send_signal(signal.SIGKILL)
            run.communicate(timeout=60)
        again = PROSOCIAL.arguments(endpoint.base_url, tmp_path)
        # The lock is gone with the driver; what was noted of its job is not.
        with pytest.raises(OutputError, match="whose driver is gone, may still work on"):
            PROSOCIAL.mint(again)
        while (dataset / JOB_NAME).exists():
            time.sleep(0.2)
        assert (dataset / "v0001" / "manifest.json").exists()
        calls = endpoint.requests
        assert PROSOCIAL.mint(again).status is Status.UNCHANGED
        assert endpoint.requests == calls


def test_workers_read_the_key_themselves_or_refuse(
    tmp_path: Path, flink: FlinkCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "key").write_text(KEY)
    cluster = (*PORTABLE, f"--job_endpoint={flink.job_endpoint}", f"--flink_master={flink.master}")
    with FakeEndpoint(key=KEY) as endpoint:
        arguments = PROSOCIAL.arguments(endpoint.base_url, tmp_path / "out", *cluster)
        monkeypatch.setenv("OPENAI_API_KEY", KEY)  # which the cluster was started without
        with pytest.raises(EndpointError, match="has no API key in env:OPENAI_API_KEY"):
            PROSOCIAL.mint(arguments)
        assert endpoint.answered == 0
        monkeypatch.delenv("OPENAI_API_KEY")
        result = PROSOCIAL.mint([*arguments, f"--api-key=file:{tmp_path}/key"])
        assert result.status is Status.PUBLISHED
        assert set(endpoint.statuses) == {200}
    places = [tmp_path / "out", flink.directory]
    files = [path for place in places for path in place.rglob("*") if path.is_file()]
    assert any(path.suffix == ".log" or "log" in path.name for path in files)
    assert not [path for path in files if KEY.encode() in path.read_bytes()]
