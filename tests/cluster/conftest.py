"""What the tests on clusters share: a Flink, Prism, and the endpoints that they call.

``make test-cluster`` installs what they need; what is missing fails them, it does not skip them.
"""

from __future__ import annotations

import contextlib
import re
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from pipelines.runners import use_filesystems
from runner_configs.flink.cluster import FlinkCluster, running_cluster
from tests.cluster.runs import ROOT
from transforms.llm.fake_endpoint.server import FakeEndpoint

TOOLS = ROOT / ".cluster"
JARS = TOOLS / "flink" / "jars"
S3_KEY, S3_SECRET = "remint", "remint-secret"


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


@pytest.fixture(scope="session")
def s3_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Yield the URL of an S3 server over a folder, which has an empty bucket ``remint``."""
    path = TOOLS / "bin" / "versitygw"
    assert path.exists(), f"{path} is not there: make test-cluster installs it"
    root = tmp_path_factory.mktemp("s3")
    (root / "remint").mkdir()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    server = subprocess.Popen(
        [path, "--port", address, "--quiet", "posix", root],
        env={"ROOT_ACCESS_KEY": S3_KEY, "ROOT_SECRET_KEY": S3_SECRET},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        while True:
            assert server.poll() is None
            with contextlib.suppress(OSError), socket.create_connection(address.split(":")):
                break
            time.sleep(0.05)
        yield f"http://{address}"
    finally:
        server.terminate()
        server.wait()


@pytest.fixture
def s3(s3_server: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return a place on the S3 server that is this test's own; the environment leads there."""
    for name, value in {
        "AWS_ACCESS_KEY_ID": S3_KEY,
        "AWS_SECRET_ACCESS_KEY": S3_SECRET,
        "AWS_ENDPOINT_URL": s3_server,
        "AWS_DEFAULT_REGION": "us-east-1",
    }.items():
        monkeypatch.setenv(name, value)
    use_filesystems([])
    return "s3://remint/" + re.sub(r"\W", "-", request.node.name)
