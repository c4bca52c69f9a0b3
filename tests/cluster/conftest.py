"""What the tests on clusters share: a Flink, Prism, and the endpoints that they call.

``make test-cluster`` installs what they need; what is missing fails them, it does not skip them.
"""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from pipelines.runners import use_filesystems
from runner_configs.flink.cluster import FlinkCluster, running_cluster
from runner_configs.flink.ports import free_ports, listens
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


@contextlib.contextmanager
def serving(command: Sequence[str | Path], port: int, **environment: str) -> Iterator[str]:
    """Run a server as long as the block, from when it listens at ``port``; yield its URL."""
    server = subprocess.Popen(
        command,
        env={"PATH": os.defpath, **environment},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        while not listens(port):
            assert server.poll() is None
            time.sleep(0.05)
        yield f"http://127.0.0.1:{port}"
    finally:
        server.terminate()
        server.wait()


@pytest.fixture(scope="session")
def s3_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Yield the URL of an S3 server over a folder, which has an empty bucket ``remint``."""
    path = TOOLS / "bin" / "versitygw"
    assert path.exists(), f"{path} is not there: make test-cluster installs it"
    root = tmp_path_factory.mktemp("s3")
    (root / "remint").mkdir()
    (port,) = free_ports(1)
    command = [path, "--port", f"127.0.0.1:{port}", "--quiet", "posix", root]
    keys = {"ROOT_ACCESS_KEY": S3_KEY, "ROOT_SECRET_KEY": S3_SECRET}
    with serving(command, port, **keys) as url:
        yield url


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


@pytest.fixture(scope="session")
def gs_server() -> Iterator[str]:
    """Yield the URL of a server of Google's storage API with an empty bucket ``remint``."""
    path = TOOLS / "gs" / "bin" / "gcp-storage-emulator"
    assert path.exists(), f"{path} is not there: make test-cluster installs it"
    (port,) = free_ports(1)
    command = [path, "start", "--host", "127.0.0.1", "--port", str(port), "--in-memory"]
    with serving([*command, "--default-bucket", "remint"], port) as url:
        yield url


@pytest.fixture
def gs(gs_server: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return a place on that server that is this test's own; the environment leads there."""
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", gs_server)
    monkeypatch.setenv("NO_GCE_CHECK", "true")  # there are no credentials to be looked for
    return "gs://remint/" + re.sub(r"\W", "-", request.node.name)


@pytest.fixture(params=["s3", "gs"])
def store(request: pytest.FixtureRequest) -> str:
    """Return a place on a store of either kind that is this test's own.

    The server of Google's API answers one request after the other, so what hangs on how soon an
    object is written is tried on S3 alone.
    """
    place: str = request.getfixturevalue(request.param)
    return place
