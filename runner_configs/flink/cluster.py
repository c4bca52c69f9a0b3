"""A local standalone Flink cluster: one JobManager, TaskManagers, and Beam's job server.

    python -m runner_configs.flink up      # make flink-up
    python -m runner_configs.flink down    # make flink-down

It is a real cluster of processes of their own, for trying out and for tests. Everything it has lies
in one directory: jars, settings, logs, ids of its processes.

Workers are started by the TaskManagers and have their environment: what ``up`` was called with,
OPENAI_API_KEY included, and this Python's folder first on PATH, so that ``remint-worker`` is found.
Or there is a worker pool beside each TaskManager. All of them are asked for by one address, and on
one machine all pools would listen there; so each TaskManager has a hosts file of its own, in which
that name is the address of its own pool, as ``localhost`` is on machines of their own.
"""

from __future__ import annotations

import json
import shutil
import socket
import sys
import time
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from runner_configs.flink import jars as flink_jars
from runner_configs.flink.ports import Ports, listens
from runner_configs.flink.processes import ClusterError, Processes

HERE = Path(__file__).parent
DIRECTORY = Path(".cluster/flink")
#: The name by which a TaskManager knows its own worker pool.
POOL_HOST = "worker-pool"

_JOB_MANAGER = "org.apache.flink.runtime.entrypoint.StandaloneSessionClusterEntrypoint"
_TASK_MANAGER = "org.apache.flink.runtime.taskexecutor.TaskManagerRunner"
_JOB_SERVER = "org.apache.beam.runners.flink.FlinkJobServerDriver"
_OPENED = (
    "java.lang", "java.util", "java.net", "java.io", "java.nio", "java.time",
    "java.util.concurrent", "sun.nio.ch",
)  # fmt: skip
#: Megabytes. Beam keeps up to a hundred messages of 10 MB from a TaskManager's worker.
_HEAPS = {_JOB_MANAGER: 384, _TASK_MANAGER: 1536, _JOB_SERVER: 384}


class FlinkCluster:
    """A cluster in ``directory``; made anew for the same directory it is the same cluster.

    Args:
        directory: where it keeps everything.
        ports: where it is to listen when it is started.
        jars: the folder of its jars, where that is not its own.
        worker_pools: whether a TaskManager that is started gets a worker pool beside it.
    """

    def __init__(
        self,
        directory: Path = DIRECTORY,
        ports: Ports | None = None,
        jars: Path | None = None,
        worker_pools: bool = False,
    ) -> None:
        self.directory = directory.resolve()
        self._processes = Processes(self.directory)
        self._worker_pools = worker_pools
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
        flink_jars.fetch(self._jars)

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
            self._start_java("jobmanager", _JOB_MANAGER, *options)
            self._processes.wait("jobmanager", lambda: self.overview() is not None)
            names = [name for name in self.running() if name.startswith("taskmanager")]
            for _ in range(task_managers - len(names)):
                self.start_task_manager()
        self._start_java(
            "jobserver",
            _JOB_SERVER,
            f"--flink-master={self.master if task_managers else '[local]'}",
            f"--job-port={ports.job}",
            f"--artifact-port={ports.artifact}",
            f"--expansion-port={ports.expansion}",
            f"--artifacts-dir={self.directory / 'artifacts'}",
        )
        self._processes.wait("jobserver", lambda: listens(ports.job))
        if task_managers:
            self.await_task_managers(task_managers)

    def start_task_manager(self) -> str:
        """Start one more TaskManager and return its name; it registers by itself.

        Raises:
            ClusterError: its worker pool does not come up.
        """
        running = self.running()
        number = next(n for n in range(1, 1000) if f"taskmanager-{n}" not in running)
        name = f"taskmanager-{number}"
        work = self.directory / "work" / name
        work.mkdir(parents=True, exist_ok=True)
        hosts = self._start_pool(number) if self._worker_pools else ()
        self._start_java(
            name,
            _TASK_MANAGER,
            *("--configDir", str(self._conf)),
            *("-D", f"io.tmp.dirs={work}"),
            *("-D", f"taskmanager.resource-id={name}-{time.time_ns():x}"),
            flags=hosts,
        )
        return name

    def await_task_managers(self, number: int) -> None:
        """Wait until exactly ``number`` TaskManagers are registered.

        Raises:
            ClusterError: they are not in time.
        """
        names = [name for name in self.running() if name.startswith("taskmanager")]
        self._processes.wait(
            names[-1] if names else "jobmanager",
            lambda: (self.overview() or {}).get("taskmanagers") == number,
        )

    def kill(self, name: str) -> None:
        """Kill one process with signal 9: it gets no chance to tell anyone.

        Raises:
            ClusterError: it does not run.
        """
        self._processes.kill(name)

    def down(self) -> list[str]:
        """Stop the cluster's own processes and return their names; nothing else is touched.

        Raises:
            ClusterError: one of them does not end.
        """
        stopped = self._processes.stop(lambda name: name.startswith("taskmanager"))
        (self.directory / "ports.json").unlink(missing_ok=True)
        for folder in ("work", "artifacts"):
            shutil.rmtree(self.directory / folder, ignore_errors=True)
        return stopped

    def running(self) -> dict[str, int]:
        """Return the id of each process of the cluster that lives, by name."""
        return self._processes.running()

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

    @property
    def pool_address(self) -> str:
        """What ``--environment_config`` is to be for an EXTERNAL environment."""
        return f"{POOL_HOST}:{self.ports.pool}"

    @property
    def _conf(self) -> Path:
        return self.directory / "conf"

    def _set_up(self) -> None:
        """Write the settings of a cluster that is about to be started."""
        ports = self._chosen or Ports()
        for name, port in vars(ports).items():
            if listens(port):
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

    def _start_pool(self, number: int) -> tuple[str]:
        """Start the worker pool of a TaskManager; return the flag that has it found there."""
        name, address = f"workerpool-{number}", _pool_address(number)
        hosts = self._conf / f"hosts-{number}"
        hosts.write_text(
            f"127.0.0.1 localhost {socket.gethostname()}\n{address} {POOL_HOST}\n",
            encoding="utf-8",
        )
        command = [
            *(sys.executable, "-X", self._processes.mark(name), "-m", "runner_configs.worker_pool"),
            *("--host", address, "--port", str(self.ports.pool)),
        ]
        self._processes.start(name, command)
        self._processes.wait(name, lambda: listens(self.ports.pool, address))
        return (f"-Djdk.net.hosts.file={hosts}",)

    def _start_java(
        self, name: str, main: str, *arguments: str, flags: tuple[str, ...] = ()
    ) -> None:
        command = [
            *("java", f"-D{self._processes.mark(name)}", f"-Xmx{_HEAPS[main]}m"),
            *("-XX:MaxDirectMemorySize=512m", "-XX:+UseSerialGC", *flags),
            # By default only the thread ends that had no memory, and the job waits for it for ever.
            "-XX:+ExitOnOutOfMemoryError",
            "-Dorg.slf4j.simpleLogger.showDateTime=true",
            *(f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in _OPENED),
            *("-cp", f"{self._jars}/*", main, *arguments),
        ]
        self._processes.start(name, command)


@contextmanager
def running_cluster(
    directory: Path, task_managers: int = 2, jars: Path | None = None, worker_pools: bool = False
) -> Iterator[FlinkCluster]:
    """Yield a cluster on free ports that runs as long as the ``with`` block."""
    cluster = FlinkCluster(directory, Ports.free(), jars, worker_pools)
    try:
        cluster.up(task_managers)
        yield cluster
    finally:
        cluster.down()


def _pool_address(number: int) -> str:
    """Return the loopback address of a TaskManager's own; Linux has a whole network of them."""
    return f"127.0.1.{number}"
