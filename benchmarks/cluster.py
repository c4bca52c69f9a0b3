"""Two TaskManagers of a standalone Flink cluster against one, on work that waits for a model.

    python benchmarks/cluster.py [--json] [--dialogues 96] [--in-flight 16] [--latency 1.0]

A fake endpoint answers every call after the same time; ``remint prosocial --crowd llm`` makes all
calls of so many dialogues, on a cluster of its own for each side (Java 17 needed; its jars are
taken from ``.cluster/flink``, where ``make flink-up`` and ``make test-cluster`` put them).

``--concurrency`` is a limit of the job, divided over its lanes, and a worker works on all lanes
that it has at once. So more workers alone make no calls quicker: they carry more in flight. What is
fixed here is therefore what one worker carries: ``--in-flight`` calls. Two workers are given twice
that, over the same 16 lanes, so that a lane has one call in flight with one worker, two with two.

    ratio_two_workers  seconds of the calls with one worker / with two, from the first request that
                       the endpoint sees to its last answer: what the workers make of their calls
    ratio_with_start   the same of the whole runs, in which starting Python for the workers,
                       reading, writing and suites take as long on either side
    same_limit_ratio   as the first, of one worker that is given the limit of two: near 1 as long as
                       one worker can carry that
    largest_minute     the most requests that came in any minute with two workers, whose ``--rpm``
                       is ``rpm``: it is never exceeded
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks.prosocial.texts import scene  # noqa: E402
from runner_configs.flink.cluster import DIRECTORY, FlinkCluster, running_cluster  # noqa: E402
from transforms.llm.fake_endpoint.latency import constant  # noqa: E402
from transforms.llm.fake_endpoint.server import FakeEndpoint  # noqa: E402
from transforms.llm.fake_endpoint.windows import RateLimits  # noqa: E402

LANES, PARTITIONS = 16, 32
#: The rate limit of all sides is so much above what two workers can make: it is not the bound.
RATE_ROOM = 1.5


@dataclass(frozen=True)
class Side:
    """What a run took: seconds in all and of its calls, the calls, and the most in any minute."""

    wall: float
    calling: float
    calls: int
    largest_minute: int

    def __str__(self) -> str:
        rate = self.calls / self.calling
        return f"{self.wall:7.1f} s, calls {self.calling:7.1f} s: {self.calls} at {rate:.1f}/s"


class Watched:
    """The times of an endpoint's first request and last answer, seen from outside."""

    def __init__(self, endpoint: FakeEndpoint) -> None:
        self._endpoint = endpoint
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self.first = self.last = 0.0

    def __enter__(self) -> Watched:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        answered = 0
        while not self._over.wait(0.02):
            if self._endpoint.requests and not self.first:
                self.first = time.monotonic()
            if self._endpoint.answered > answered:
                answered, self.last = self._endpoint.answered, time.monotonic()


def run_side(
    directory: Path, seeds: Path, workers: int, concurrency: int, latency: float, rpm: float
) -> Side:
    """Measure a run with so many TaskManagers, on a cluster of its own."""
    directory.mkdir()
    with (
        FakeEndpoint(latency=constant(latency), limits=RateLimits(seconds=60.0)) as endpoint,
        running_cluster(directory / "flink", workers, ROOT / DIRECTORY / "jars") as cluster,
        Watched(endpoint) as watched,
    ):
        started = time.monotonic()
        command = [
            *(sys.executable, "-m", "pipelines.cli", "prosocial", "--seeds", f"scenes={seeds}"),
            *("--crowd", "llm", "--output", str(directory / "output")),
            *("--model", "fake", "--base-url", endpoint.base_url, "--rpm", str(rpm)),
            *("--partitions", str(PARTITIONS), "--lanes", str(LANES)),
            *("--concurrency", str(concurrency), *_flags(cluster, workers)),
        ]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        done = subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
        )
        wall = time.monotonic() - started
    if done.returncode:
        raise SystemExit(done.stderr[-4000:])
    largest = endpoint.windows.seen[0].greatest
    return Side(wall, watched.last - watched.first, endpoint.answered, largest)


def _flags(cluster: FlinkCluster, workers: int) -> list[str]:
    return [
        *("--runner=PortableRunner", f"--job_endpoint={cluster.job_endpoint}"),
        *(f"--flink_master={cluster.master}", f"--parallelism={workers}"),
        *("--environment_type=PROCESS", '--environment_config={"command": "remint-worker"}'),
        "--environment_cache_millis=30000",
    ]


def measure(directory: Path, dialogues: int, in_flight: int, latency: float) -> dict[str, Any]:
    """Return all figures."""
    seeds = directory / "seeds.jsonl"
    seeds.write_text(
        "".join(
            f"{json.dumps({'situation': scene(index).situation})}\n" for index in range(dialogues)
        )
    )
    rpm = round(RATE_ROOM * 2 * in_flight * 60 / latency)
    sides = {
        name: run_side(directory / name, seeds, workers, concurrency, latency, rpm)
        for name, workers, concurrency in (
            ("one_worker", 1, in_flight),
            ("two_workers", 2, 2 * in_flight),
            ("one_worker_same_limit", 1, 2 * in_flight),
        )
    }
    one, two, same = sides.values()
    if len({side.calls for side in sides.values()}) != 1:
        raise SystemExit("the sides made different numbers of calls")
    if two.largest_minute > rpm:
        raise SystemExit(f"the rate limit of {rpm} was exceeded: {two.largest_minute}")
    return {
        "ratio_two_workers": round(one.calling / two.calling, 3),
        "ratio_with_start": round(one.wall / two.wall, 3),
        "same_limit_ratio": round(same.calling / two.calling, 3),
        "largest_minute": two.largest_minute,
        "rpm": rpm,
        "dialogues": dialogues,
        "in_flight": in_flight,
        "latency": latency,
        "sides": {name: vars(side) for name, side in sides.items()},
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--dialogues", type=int, default=96)
    parser.add_argument("--in-flight", type=int, default=16, help="calls that a worker carries")
    parser.add_argument("--latency", type=float, default=1.0, help="seconds of every call")
    options = parser.parse_args()
    if options.in_flight < LANES:
        parser.error(f"--in-flight must be at least {LANES}, one for each lane")
    with tempfile.TemporaryDirectory() as temporary:
        result = measure(Path(temporary), options.dialogues, options.in_flight, options.latency)
    if options.json:
        print(json.dumps(result))
        return
    for name, side in result["sides"].items():
        print(f"  {name:22} {Side(**side)}")
    for name in ("ratio_two_workers", "ratio_with_start", "same_limit_ratio", "largest_minute"):
        print(f"{name}: {result[name]}")


if __name__ == "__main__":
    main()
