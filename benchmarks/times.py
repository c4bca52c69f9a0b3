"""How time and memory grow with the input: a size, and so many times as much.

Each run is measured once, with its suites: on the local runner, on a standalone Flink cluster of
two TaskManagers of one slot each, and the plain Polars script.

    growth    seconds of the larger size / of the smaller one; of remint's start and imports are
              taken off both
    peak_gb   peak memory of the larger size, in units of 10^9 bytes: of the process, on Flink of
              the largest worker (its TaskManager, a JVM of fixed size, beside it)
"""

from __future__ import annotations

import shutil
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.inputs import Inputs
from benchmarks.measured import (
    BENCHMARKS,
    ROOT,
    Cost,
    check_equal,
    idle_endpoint,
    made_inputs,
    run_plain,
    run_remint,
)
from runner_configs.flink.cluster import DIRECTORY, FlinkCluster, running_cluster

TASK_MANAGERS = 2
#: The system keeps a process's peak itself; it has only to be read before the process ends.
_EVERY = 0.2


class WorkerPeaks:
    """The peak memory of each process that a cluster's TaskManagers started; reads ``/proc``.

    Attributes:
        bytes: by the process's id.
        task_managers: of the TaskManagers themselves.
    """

    def __init__(self, cluster: FlinkCluster) -> None:
        self._cluster = cluster
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self.bytes: dict[int, int] = {}
        self.task_managers: dict[int, int] = {}

    def __enter__(self) -> WorkerPeaks:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        running = self._cluster.running().items()
        ours = {process for name, process in running if name.startswith("taskmanager")}
        while not self._over.wait(_EVERY):
            parents = _parents()
            for process in parents:
                ancestors = _ancestors(process, parents)
                if process in ours:
                    self._note(self.task_managers, process)
                elif ancestors & ours:
                    self._note(self.bytes, process)

    def _note(self, peaks: dict[int, int], process: int) -> None:
        peaks[process] = max(peaks.get(process, 0), _peak(process))


def _parents() -> dict[int, int]:
    found = {}
    for place in Path("/proc").glob("[0-9]*"):
        try:
            # Behind the command's name, which may hold blanks and brackets.
            state = (place / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it has ended
        found[int(place.name)] = int(state[1])
    return found


def _ancestors(process: int, parents: Mapping[int, int]) -> set[int]:
    found: set[int] = set()
    while (parent := parents.get(process, 0)) and parent not in found:
        found.add(parent)
        process = parent
    return found


def _peak(process: int) -> int:
    try:
        status = Path(f"/proc/{process}/status").read_text()
    except OSError:
        return 0
    lines = (line.split() for line in status.splitlines() if line.startswith("VmHWM:"))
    return next((1024 * int(line[1]) for line in lines), 0)


def run_flink(inputs: Inputs, directory: Path) -> tuple[Cost, dict[str, float]]:
    """Measure remint on a cluster of its own, and what its workers' memory came to."""
    with (
        running_cluster(directory, TASK_MANAGERS, ROOT / DIRECTORY / "jars") as cluster,
        WorkerPeaks(cluster) as peaks,
    ):
        cost = run_remint(
            inputs,
            "all",
            *("--runner=PortableRunner", f"--job_endpoint={cluster.job_endpoint}"),
            *(f"--flink_master={cluster.master}", f"--parallelism={TASK_MANAGERS}"),
            "--environment_type=PROCESS",
            '--environment_config={"command": "remint-worker"}',
            "--environment_cache_millis=30000",
        )
    return cost, {
        "worker_peak_gb": round(max(peaks.bytes.values()) / 1e9, 3),
        "task_manager_peak_gb": round(max(peaks.task_managers.values()) / 1e9, 3),
        "driver_peak_gb": round(cost.peak / 1e9, 3),
    }


def measure_times(
    dataset: str, directory: Path, size: int, times: int, runners: Sequence[str]
) -> dict[str, Any]:
    """Return all figures of ``size`` and of ``times`` as much, on ``runners`` and of the script."""
    figures: dict[str, Any] = {}
    costs: dict[str, dict[str, Cost]] = {}
    with idle_endpoint() as base_url:
        for name, amount in (("once", size), ("times", times * size)):
            inputs = made_inputs(dataset, directory / name, amount, base_url)
            costs[name] = {"polars": run_plain(inputs)}
            _tell(name, "polars", costs[name]["polars"])
            if name == "once":
                imports = run_remint(inputs, "imports")
            if "local" in runners:
                costs[name]["local"] = run_remint(inputs, "all")
                _tell(name, "local", costs[name]["local"])
                check_equal(inputs)
            if "flink" in runners:
                cost, memory = run_flink(inputs, directory / f"flink-{name}")
                costs[name]["flink"] = cost
                _tell(name, "flink", cost)
                figures[f"flink_memory_{name}"] = memory
                check_equal(inputs)
            shutil.rmtree(inputs.directory)
    for side in ("polars", *runners):
        once, many = (costs[name][side] for name in ("once", "times"))
        start = Cost(0, 0, 0) if side == "polars" else imports
        growth = (many.wall - start.wall) / (once.wall - start.wall)
        figures[f"growth_{side}"] = round(growth, 2)
        if side != "flink":
            figures[f"peak_gb_{side}"] = round(many.peak / 1e9, 3)
            figures[f"peak_growth_{side}"] = round(many.peak / once.peak, 2)
    if "flink" in runners:
        figures["peak_gb_flink"] = figures["flink_memory_times"]["worker_peak_gb"]
        figures["peak_growth_flink"] = round(
            figures["peak_gb_flink"] / figures["flink_memory_once"]["worker_peak_gb"], 2
        )
    return {
        "dataset": dataset,
        BENCHMARKS[dataset].unit: size,
        "times": times,
        **figures,
        "costs": {
            name: {side: vars(cost) for side, cost in sides.items()}
            for name, sides in costs.items()
        },
    }


def _tell(name: str, side: str, cost: Cost) -> None:
    """Say what was measured already: the whole takes long, and may yet fail."""
    print(f"  {name:6} {side:8} {cost}", file=sys.stderr, flush=True)


def show_times(figures: Mapping[str, Any]) -> str:
    """Return the figures as text for a terminal."""
    lines = []
    for name, sides in figures["costs"].items():
        lines += [f"  {name:6} {side:8} {Cost(**cost)}" for side, cost in sides.items()]
    lines += [f"{name}: {value}" for name, value in figures.items() if name != "costs"]
    return "\n".join(lines)
