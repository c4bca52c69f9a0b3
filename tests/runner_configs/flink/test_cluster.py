"""The local cluster's bookkeeping, with processes that stand for its own; no Java is needed."""

from __future__ import annotations

import logging
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from runner_configs.flink.__main__ import main
from runner_configs.flink.cluster import FlinkCluster
from runner_configs.flink.ports import Ports
from runner_configs.flink.processes import ClusterError

SLEEP = "import time; print(flush=True); time.sleep(600)"
Start = Callable[..., "subprocess.Popen[bytes]"]


@pytest.fixture
def start() -> Iterator[Start]:
    """Yield a function that starts a process with the given arguments on its command line."""
    started: list[subprocess.Popen[bytes]] = []

    def begin(*arguments: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-c", SLEEP, *arguments]
        process = subprocess.Popen(command, stdout=subprocess.PIPE)
        started.append(process)
        assert process.stdout is not None
        process.stdout.readline()  # now it has its command line
        return process

    yield begin
    for process in started:
        process.kill()
        process.communicate()


def enter(directory: Path, name: str, process: int) -> None:
    (directory / "run").mkdir(exist_ok=True)
    (directory / "run" / f"{name}.pid").write_text(str(process))


def jars(directory: Path) -> Path:
    """Return a folder that says it holds the jars."""
    folder = directory / "jars"
    folder.mkdir()
    pom = Path(__file__).resolve().parents[3] / "runner_configs" / "flink" / "pom.xml"
    (folder / ".complete").write_bytes(pom.read_bytes())
    return folder


def test_only_processes_that_name_the_cluster_are_its_own_and_are_stopped(
    tmp_path: Path, start: Start
) -> None:
    mark = f"-Dremint.process={tmp_path}"
    own, other = start(f"{mark}/jobmanager"), start("-Dremint.process=/elsewhere/taskmanager-1")
    enter(tmp_path, "jobmanager", own.pid)
    enter(tmp_path, "taskmanager-1", other.pid)  # an id that was given to another program
    enter(tmp_path, "jobserver", 4_194_300)  # one that nothing has
    cluster = FlinkCluster(tmp_path)
    assert cluster.running() == {"jobmanager": own.pid}
    assert cluster.down() == ["jobmanager"]
    assert own.wait(10) == -signal.SIGTERM
    assert other.poll() is None
    assert cluster.running() == {}
    assert cluster.down() == []


def test_a_killed_process_is_the_clusters_no_more(tmp_path: Path, start: Start) -> None:
    own = start(f"-Dremint.process={tmp_path}/taskmanager-1")
    enter(tmp_path, "taskmanager-1", own.pid)
    cluster = FlinkCluster(tmp_path)
    cluster.kill("taskmanager-1")
    assert own.wait(10) == -signal.SIGKILL
    assert cluster.running() == {}
    with pytest.raises(ClusterError, match="taskmanager-1 does not run"):
        cluster.kill("taskmanager-1")


@pytest.mark.parametrize(("missing", "message"), [("java", "needs Java"), ("mvn", "Maven is")])
def test_what_is_missing_on_the_machine_is_named(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    missing: str,
    message: str,
) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in {"java", "mvn"} - {missing}:
        (programs / name).symlink_to("/bin/true")
    monkeypatch.setenv("PATH", str(programs))
    with caplog.at_level(logging.INFO, "remint.flink"):
        assert main(["up", "--directory", str(tmp_path / "flink")]) == 1
    assert message in caplog.messages[-1]
    assert not (tmp_path / "flink" / "run").exists()


def test_a_port_that_is_taken_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "java").symlink_to("/bin/true")
    monkeypatch.setenv("PATH", str(programs))
    ports = Ports.free()
    with socket.create_server(("127.0.0.1", ports.job)):
        cluster = FlinkCluster(tmp_path / "flink", ports, jars(tmp_path))
        with pytest.raises(ClusterError, match=rf"port {ports.job} \(job\) is taken"):
            cluster.up()


def test_a_process_that_ends_at_once_is_told_of_with_its_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "java").symlink_to("/bin/false")
    monkeypatch.setenv("PATH", str(programs))
    cluster = FlinkCluster(tmp_path / "flink", Ports.free(), jars(tmp_path))
    with pytest.raises(ClusterError, match=r"jobmanager has ended.*jobmanager\.log"):
        cluster.up()
    assert cluster.running() == {}


def test_status_of_a_cluster_that_does_not_run(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "remint.flink"):
        assert main(["status", "--directory", str(tmp_path)]) == 1
    assert "no cluster runs" in caplog.messages[-1]


def test_down_without_a_cluster_is_no_fault(tmp_path: Path) -> None:
    assert main(["down", "--directory", str(tmp_path)]) == 0
