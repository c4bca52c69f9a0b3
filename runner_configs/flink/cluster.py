"""A local standalone Flink cluster: one JobManager, TaskManagers, and Beam's job server.

    python -m runner_configs.flink.cluster up      # make flink-up
    python -m runner_configs.flink.cluster down    # make flink-down

It is a real cluster of processes of their own, for trying out and for tests; Maven resolves its
jars from ``pom.xml``. Everything it has lies in one directory: jars, settings, logs, and a file for
each process with its id. A process is taken for the cluster's only if its command line names that
directory, so that an id which the system has given to another one meanwhile is left alone.

Workers are started by the TaskManagers and have their environment: what ``up`` was called with,
OPENAI_API_KEY included, and this Python's folder first on PATH, so that ``remint-worker`` is found.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from transforms.errors import RemintError

HERE = Path(__file__).parent
DIRECTORY = Path(".cluster/flink")
JAVA = 17
START_SECONDS, STOP_SECONDS = 120.0, 15.0

_JOB_MANAGER = "org.apache.flink.runtime.entrypoint.StandaloneSessionClusterEntrypoint"
_TASK_MANAGER = "org.apache.flink.runtime.taskexecutor.TaskManagerRunner"
_JOB_SERVER = "org.apache.beam.runners.flink.FlinkJobServerDriver"
_OPENED = (
    "java.lang", "java.util", "java.net", "java.io", "java.nio", "java.time",
    "java.util.concurrent", "sun.nio.ch",
)  # fmt: skip
_HEAPS = {_JOB_MANAGER: 384, _TASK_MANAGER: 512, _JOB_SERVER: 384}

logger = logging.getLogger("remint.flink")


class ClusterError(RemintError):
    """The cluster can't be started or stopped; the message says what to do."""


@dataclass(frozen=True)
class Ports:
    """Where the cluster listens, on loopback alone."""

    rest: int = 8081
    rpc: int = 6123
    job: int = 8099
    artifact: int = 8098
    expansion: int = 8097

    @classmethod
    def free(cls) -> Ports:
        """Return ports that nothing listens on."""
        sockets = [socket.socket() for _ in range(5)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        ports = cls(*(each.getsockname()[1] for each in sockets))
        for each in sockets:
            each.close()
        return ports


class FlinkCluster:
    """A cluster in ``directory``; made anew for the same directory it is the same cluster.

    Args:
        directory: where it keeps everything.
        ports: where it is to listen when it is started.
        jars: the folder of its jars, where that is not its own.
    """

    def __init__(
        self, directory: Path = DIRECTORY, ports: Ports | None = None, jars: Path | None = None
    ) -> None:
        self.directory = directory.resolve()
        self._jars = jars.resolve() if jars else self.directory / "jars"
        self._chosen = ports

    @property
    def ports(self) -> Ports:
        """Where it listens: as it was started, else as it will be."""
        known = self.directory / "ports.json"
        if known.exists():
            return Ports(**json.loads(known.read_text(encoding="utf-8")))
        return self._chosen or Ports()

    @property
    def job_endpoint(self) -> str:
        """What ``--job_endpoint`` is to be."""
        return f"localhost:{self.ports.job}"

    @property
    def master(self) -> str:
        """What ``--flink_master`` is to be."""
        return f"localhost:{self.ports.rest}"

    def fetch(self) -> None:
        """Fetch the jars, unless they are there.

        Raises:
            ClusterError: Java or Maven is missing, or the jars can't be had.
        """
        _check_java()
        done = self._jars / ".complete"
        pom = HERE / "pom.xml"
        if done.exists() and done.read_bytes() == pom.read_bytes():
            return
        maven = shutil.which("mvn")
        if maven is None:
            raise ClusterError(
                "Maven is needed to fetch Flink, and there is no mvn on PATH; install it "
                "(apt-get install maven, brew install maven) and try again"
            )
        logger.info("fetching Flink and Beam's job server (160 MB, once) into %s", self._jars)
        shutil.rmtree(self._jars, ignore_errors=True)
        command = [
            *(maven, "--quiet", "--batch-mode", "--file", str(pom)),
            *("dependency:copy-dependencies", "-DincludeScope=runtime"),
            f"-DoutputDirectory={self._jars}",
        ]
        fetched = subprocess.run(command, capture_output=True, text=True, check=False)
        if fetched.returncode != 0:
            said = (fetched.stdout + fetched.stderr).strip().splitlines()
            reason = next((line for line in said if "ERROR" in line), "no reason given")
            raise ClusterError(f"Maven could not fetch Flink: {reason}")
        done.write_bytes(pom.read_bytes())

    def up(self, task_managers: int = 2) -> None:
        """Start what does not run yet, and wait until ``task_managers`` have registered.

        With none of them the job server alone is started, which then has a Flink in its own
        process (Flink's embedded cluster).

        Raises:
            ClusterError: Java or Maven is missing, a port is taken, or a process does not come up.
        """
        self.fetch()
        if not self.running():
            self._set_up()
        ports = self.ports
        if task_managers:
            options = ("--configDir", str(self._conf), "--executionMode", "cluster")
            self._start("jobmanager", _JOB_MANAGER, *options)
            self._await("jobmanager", lambda: self.overview() is not None)
            names = [name for name in self.running() if name.startswith("taskmanager")]
            for _ in range(task_managers - len(names)):
                self.start_task_manager()
        self._start(
            "jobserver",
            _JOB_SERVER,
            f"--flink-master={self.master if task_managers else '[local]'}",
            f"--job-port={ports.job}",
            f"--artifact-port={ports.artifact}",
            f"--expansion-port={ports.expansion}",
            f"--artifacts-dir={self.directory / 'artifacts'}",
        )
        self._await("jobserver", lambda: _listens(ports.job))
        if task_managers:
            self.await_task_managers(task_managers)

    def start_task_manager(self) -> str:
        """Start one more TaskManager and return its name; it registers by itself.

        Raises:
            ClusterError: its process can't be started.
        """
        running = self.running()
        number = next(n for n in range(1, 1000) if f"taskmanager-{n}" not in running)
        name = f"taskmanager-{number}"
        work = self.directory / "work" / name
        work.mkdir(parents=True, exist_ok=True)
        self._start(
            name,
            _TASK_MANAGER,
            *("--configDir", str(self._conf)),
            *("-D", f"io.tmp.dirs={work}"),
            *("-D", f"taskmanager.resource-id={name}-{time.time_ns():x}"),
        )
        return name

    def await_task_managers(self, number: int) -> None:
        """Wait until exactly ``number`` TaskManagers are registered.

        Raises:
            ClusterError: they are not in time.
        """
        names = [name for name in self.running() if name.startswith("taskmanager")]
        self._await(
            names[-1] if names else "jobmanager",
            lambda: (self.overview() or {}).get("taskmanagers") == number,
        )

    def kill(self, name: str) -> None:
        """Kill one process with signal 9: it gets no chance to tell anyone."""
        process = self.running().get(name)
        if process is None:
            raise ClusterError(f"{name} does not run")
        os.kill(process, signal.SIGKILL)
        self._ends(name, process)
        self._pid_file(name).unlink(missing_ok=True)

    def down(self) -> list[str]:
        """Stop the cluster's own processes and return their names; nothing else is touched.

        Raises:
            ClusterError: one of them does not end.
        """
        running = self.running()
        for name in sorted(running, key=lambda name: name.startswith("taskmanager")):
            os.kill(running[name], signal.SIGTERM)
        for name, process in running.items():
            if not self._ends(name, process):
                os.kill(process, signal.SIGKILL)
                if not self._ends(name, process):
                    raise ClusterError(f"{name} (process {process}) does not end")
        for left in (self.directory / "run").glob("*.pid"):
            left.unlink()
        (self.directory / "ports.json").unlink(missing_ok=True)
        for folder in ("work", "artifacts"):
            shutil.rmtree(self.directory / folder, ignore_errors=True)
        return sorted(running)

    def running(self) -> dict[str, int]:
        """Return the id of each process of the cluster that lives, by name."""
        found = {}
        for file in sorted((self.directory / "run").glob("*.pid")):
            text = file.read_text(encoding="ascii").strip()
            if text.isdigit() and self._is_ours(file.stem, int(text)):
                found[file.stem] = int(text)
        return found

    def overview(self) -> Mapping[str, Any] | None:
        """Return Flink's own overview (taskmanagers, slots-total, jobs-running), None if down."""
        return self.ask("/overview")

    def ask(self, path: str) -> Mapping[str, Any] | None:
        """Return what Flink's REST interface answers at ``path``, None where it does not."""
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(f"http://{self.master}{path}", timeout=5) as response:
                answer: Mapping[str, Any] = json.load(response)
                return answer
        except (OSError, ValueError):
            return None

    def log(self, name: str) -> Path:
        """Return the log of a process."""
        return self.directory / "log" / f"{name}.log"

    @property
    def _conf(self) -> Path:
        return self.directory / "conf"

    def _pid_file(self, name: str) -> Path:
        return self.directory / "run" / f"{name}.pid"

    def _mark(self, name: str) -> str:
        return f"-Dremint.process={self.directory}/{name}"

    def _is_ours(self, name: str, process: int) -> bool:
        return self._mark(name) in _command_line(process)

    def _ends(self, name: str, process: int) -> bool:
        return _until(lambda: not self._is_ours(name, process), STOP_SECONDS)

    def _set_up(self) -> None:
        """Write the settings of a cluster that is about to be started."""
        ports = self._chosen or Ports()
        for name, port in vars(ports).items():
            if _listens(port):
                raise ClusterError(
                    f"port {port} ({name}) is taken by another program; stop that one, or start "
                    "the cluster with --free-ports"
                )
        for folder in ("run", "log", "conf", "work", "artifacts"):
            (self.directory / folder).mkdir(parents=True, exist_ok=True)
        (self.directory / "ports.json").write_text(json.dumps(vars(ports)), encoding="utf-8")
        settings = (HERE / "config.yaml").read_text(encoding="utf-8")
        settings += f"jobmanager.rpc.port: {ports.rpc}\nrest.port: {ports.rest}\n"
        settings += f"rest.bind-port: {ports.rest}\nio.tmp.dirs: {self.directory / 'work'}\n"
        (self._conf / "config.yaml").write_text(settings, encoding="utf-8")

    def _start(self, name: str, main: str, *arguments: str) -> None:
        if name in self.running():
            return
        heap = _HEAPS[main]
        command = [
            *("java", self._mark(name), f"-Xmx{heap}m", "-XX:MaxDirectMemorySize=512m"),
            *("-XX:+UseSerialGC", "-Dorg.slf4j.simpleLogger.showDateTime=true"),
            *(f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in _OPENED),
            *("-cp", f"{self._jars}/*", main, *arguments),
        ]
        path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
        with self.log(name).open("wb") as log:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self.directory,
                env={**os.environ, "PATH": path},
                start_new_session=True,
            )
        self._pid_file(name).write_text(str(process.pid), encoding="ascii")
        # Between fork and exec the process has not got its command line yet.
        _until(lambda: self._is_ours(name, process.pid) or process.poll() is not None, 10.0)

    def _await(self, name: str, ready: Callable[[], bool]) -> None:
        until = time.monotonic() + START_SECONDS
        while not ready():
            if name not in self.running():
                raise ClusterError(f"{name} has ended; its log says why: {self.log(name)}")
            if time.monotonic() > until:
                raise ClusterError(f"{name} does not get ready; see its log: {self.log(name)}")
            time.sleep(0.2)


@contextmanager
def running_cluster(
    directory: Path, task_managers: int = 2, jars: Path | None = None
) -> Iterator[FlinkCluster]:
    """Yield a cluster on free ports that runs as long as the ``with`` block."""
    cluster = FlinkCluster(directory, Ports.free(), jars)
    try:
        cluster.up(task_managers)
        yield cluster
    finally:
        cluster.down()


def _check_java() -> None:
    if shutil.which("java") is None:
        raise ClusterError(
            f"Flink needs Java {JAVA}, and there is no java on PATH; install it (apt-get install "
            f"openjdk-{JAVA}-jre-headless, brew install openjdk@{JAVA}) and try again"
        )


def _command_line(process: int) -> str:
    """Return the command line of a process, empty where there is none or it is a zombie."""
    place = Path(f"/proc/{process}/cmdline")
    if place.parent.parent.joinpath("self").exists():
        try:
            return place.read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
        except OSError:
            return ""
    shown = subprocess.run(
        ["ps", "-ww", "-o", "command=", "-p", str(process)],
        capture_output=True,
        text=True,
        check=False,
    )
    return shown.stdout


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _until(condition: Callable[[], bool], seconds: float) -> bool:
    """Wait for ``condition``, at most so many seconds; return whether it holds."""
    until = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > until:
            return False
        time.sleep(0.05)
    return True


def main(arguments: list[str] | None = None) -> int:
    """Run the command; return the process's exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m runner_configs.flink.cluster", description="A Flink cluster on this machine"
    )
    parser.add_argument("command", choices=("fetch", "up", "down", "status"))
    parser.add_argument("--directory", type=Path, default=DIRECTORY, help=f"default {DIRECTORY}")
    parser.add_argument("--task-managers", type=int, default=2, metavar="N")
    parser.add_argument("--free-ports", action="store_true", help="not Flink's usual ports")
    options = parser.parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    cluster = FlinkCluster(options.directory, Ports.free() if options.free_ports else None)
    try:
        if options.command == "fetch":
            cluster.fetch()
            return 0
        if options.command == "up":
            cluster.up(options.task_managers)
        elif options.command == "down":
            stopped = cluster.down()
            logger.info("stopped: %s", ", ".join(stopped) or "nothing, it was not running")
            return 0
    except ClusterError as error:
        logger.error("%s", error)
        return 1
    processes, overview = cluster.running(), cluster.overview()
    if not overview:
        logger.info("no cluster runs in %s", cluster.directory)
        return 1
    logger.info(
        "%s; %s TaskManagers with %s slots; --job_endpoint=%s --flink_master=%s",
        ", ".join(f"{name} {process}" for name, process in processes.items()),
        overview["taskmanagers"],
        overview["slots-total"],
        cluster.job_endpoint,
        cluster.master,
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
