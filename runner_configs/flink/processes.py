"""Processes of a cluster that outlive the program which starts them.

Each has a file with its id. A process is taken for the cluster's only if its command line names
the cluster's directory, so that an id which the system has given to another one meanwhile is left
alone.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from transforms.errors import RemintError

START_SECONDS, STOP_SECONDS = 120.0, 15.0


class ClusterError(RemintError):
    """The cluster can't be started or stopped; the message says what to do."""


class Processes:
    """The processes that belong to ``directory``, by name."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def mark(self, name: str) -> str:
        """Return what the command line of the process has to hold."""
        return f"remint.process={self.directory}/{name}"

    def start(self, name: str, command: Sequence[str]) -> None:
        """Start the process unless it runs; ``command`` holds its mark."""
        if name in self.running():
            return
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

    def wait(self, name: str, ready: Callable[[], bool]) -> None:
        """Wait until a process that was started is ``ready``.

        Raises:
            ClusterError: it has ended, or does not get ready in time.
        """
        until = time.monotonic() + START_SECONDS
        while not ready():
            if name not in self.running():
                raise ClusterError(f"{name} has ended; its log says why: {self.log(name)}")
            if time.monotonic() > until:
                raise ClusterError(f"{name} does not get ready; see its log: {self.log(name)}")
            time.sleep(0.2)

    def running(self) -> dict[str, int]:
        """Return the id of each process that lives, by name."""
        found = {}
        for file in sorted((self.directory / "run").glob("*.pid")):
            text = file.read_text(encoding="ascii").strip()
            if text.isdigit() and self._is_ours(file.stem, int(text)):
                found[file.stem] = int(text)
        return found

    def kill(self, name: str) -> None:
        """Kill one process with signal 9: it gets no chance to tell anyone.

        Raises:
            ClusterError: it does not run.
        """
        process = self.running().get(name)
        if process is None:
            raise ClusterError(f"{name} does not run")
        os.kill(process, signal.SIGKILL)
        self._ends(name, process)
        self._pid_file(name).unlink(missing_ok=True)

    def stop(self, order: Callable[[str], int]) -> list[str]:
        """Stop all of them, those with the smallest ``order`` first, and return their names.

        Raises:
            ClusterError: one of them does not end.
        """
        running = self.running()
        for name in sorted(running, key=order):
            os.kill(running[name], signal.SIGTERM)
        for name, process in running.items():
            if not self._ends(name, process):
                os.kill(process, signal.SIGKILL)
                if not self._ends(name, process):
                    raise ClusterError(f"{name} (process {process}) does not end")
        for left in (self.directory / "run").glob("*.pid"):
            left.unlink()
        return sorted(running)

    def log(self, name: str) -> Path:
        """Return the log of a process."""
        return self.directory / "log" / f"{name}.log"

    def _pid_file(self, name: str) -> Path:
        return self.directory / "run" / f"{name}.pid"

    def _is_ours(self, name: str, process: int) -> bool:
        return self.mark(name) in _command_line(process)

    def _ends(self, name: str, process: int) -> bool:
        return _until(lambda: not self._is_ours(name, process), STOP_SECONDS)


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


def _until(condition: Callable[[], bool], seconds: float) -> bool:
    """Wait for ``condition``, at most so many seconds; return whether it holds."""
    until = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > until:
            return False
        time.sleep(0.05)
    return True
