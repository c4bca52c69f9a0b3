"""What the tests on clusters share: a Flink, Prism, and the endpoints that they call.

``make test-cluster`` installs what they need; what is missing fails them, it does not skip them.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from runner_configs.flink.cluster import FlinkCluster, running_cluster
from tests.cluster.runs import ROOT
from transforms.llm.fake_endpoint.server import FakeEndpoint

TOOLS = ROOT / ".cluster"
JARS = TOOLS / "flink" / "jars"


@pytest.fixture(autouse=True)
def _offline(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")


@pytest.fixture(scope="session")
def prism() -> Path:
    """Return the Prism binary."""
    path = TOOLS / "bin" / "prism"
    assert path.exists(), f"{path} is not there: make test-cluster installs it"
    return path


@pytest.fixture(scope="session")
def embedded_flink(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FlinkCluster]:
    """Yield a job server that has a Flink in its own process."""
    with running_cluster(tmp_path_factory.mktemp("embedded"), 0, JARS) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def flink(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FlinkCluster]:
    """Yield a standalone cluster with two TaskManagers."""
    with running_cluster(tmp_path_factory.mktemp("flink"), 2, JARS) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def endpoints() -> Iterator[dict[str, FakeEndpoint]]:
    """Yield the endpoint that each dataset calls."""
    with FakeEndpoint() as prosocial, FakeEndpoint() as metricinstruct:
        yield {"prosocial": prosocial, "metricinstruct": metricinstruct}
