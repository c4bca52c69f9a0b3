"""Measured runs on the made-up inputs of either dataset: remint's, the plain script's."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from benchmarks.endpoint import fake_endpoint
from benchmarks.inputs import Inputs
from benchmarks.metricinstruct import synthesis as metricinstruct
from benchmarks.metricinstruct.sources import EXAMPLES
from benchmarks.prosocial import synthesis as prosocial
from benchmarks.replies import MODEL

ROOT = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class Benchmark:
    """What is measured of one dataset.

    Attributes:
        unit: what its size counts.
        size: the release's, in that unit.
        arguments: those with which remint reads its inputs.
        compared: directories of a version that the plain script writes too.
        published: numbers of the version's summary that are shown.
    """

    unit: str
    size: int
    arguments: Callable[[Inputs], list[str]]
    compared: tuple[str, ...]
    published: tuple[str, ...]


BENCHMARKS = {
    "prosocial": Benchmark(
        "dialogues",
        prosocial.RELEASED_DIALOGUES,
        prosocial.arguments,
        ("data", "provenance", "annotations", "rejected"),
        ("dialogues", "rows"),
    ),
    "metricinstruct": Benchmark(
        "examples",
        EXAMPLES,
        metricinstruct.arguments,
        ("data", "structured", "sft", "provenance", "rejected", "dead"),
        ("rows", "errors", "errors_per_row", "error_free_share", "major_share"),
    ),
}


@dataclass(frozen=True)
class Cost:
    """What a process cost: seconds on the clock and of CPU, and its peak memory in bytes."""

    wall: float
    cpu: float
    peak: int

    def __str__(self) -> str:
        return f"{self.wall:7.1f} s {self.cpu:7.1f} s CPU {self.peak / 1e9:6.2f} GB"


@contextlib.contextmanager
def idle_endpoint() -> Iterator[str]:
    """Run the fake endpoint and give its base URL.

    A warm run asks it for its models and makes no call; should one be made, the benchmark fails.
    """
    with fake_endpoint("--model", MODEL) as base_url:
        yield base_url
        with urllib.request.urlopen(base_url.removesuffix("/v1") + "/admin/counts") as response:
            calls = json.load(response)["requests"]
    if calls:
        raise SystemExit(f"the cache was not warm: {calls} calls were made")


def cost_of(command: Sequence[str]) -> Cost:
    """Run ``command`` to its end and return what it cost."""
    with tempfile.TemporaryFile() as output:
        started = time.perf_counter()
        process = subprocess.Popen(command, stdout=output, stderr=output, cwd=ROOT)
        _, status, usage = os.wait4(process.pid, 0)
        wall = time.perf_counter() - started
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            output.seek(0)
            raise SystemExit(output.read().decode(errors="replace")[-4000:])
    kilobyte = 1 if sys.platform == "darwin" else 1024  # of ru_maxrss
    return Cost(wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * kilobyte)


def made_inputs(dataset: str, directory: Path, size: int, base_url: str) -> Inputs:
    """Make up the inputs of a size.

    In a process of its own: the system counts what this one holds into its children's peaks.
    """
    _script(dataset, "synthesis", str(directory), str(size), base_url)
    return Inputs(dataset, directory, base_url)


def _script(dataset: str, name: str, *arguments: str) -> Cost:
    return cost_of([sys.executable, "-m", f"benchmarks.{dataset}.{name}", *arguments])


def run_remint(inputs: Inputs, what: str, *flags: str) -> Cost:
    """Measure remint on ``inputs``; ``what`` as ``remint_run.py`` takes it, Beam's ``flags``."""
    for version in (inputs.output / inputs.dataset).glob("v*"):
        shutil.rmtree(version)
    return cost_of(
        [
            *(sys.executable, "-m", "benchmarks.remint_run", what, inputs.dataset),
            *BENCHMARKS[inputs.dataset].arguments(inputs),
            *("--output", str(inputs.output), "--model", MODEL, "--base-url", inputs.base_url),
            *flags,
        ]
    )


def run_plain(inputs: Inputs) -> Cost:
    """Measure the plain script on ``inputs``."""
    shutil.rmtree(inputs.plain, ignore_errors=True)
    places = (str(inputs.directory), inputs.base_url, str(inputs.plain))
    return _script(inputs.dataset, "plain_polars", *places)


def check_equal(inputs: Inputs) -> int:
    """Return how many rows both sides wrote; they are equal, file by file and row by row."""
    version, plain = inputs.output / inputs.dataset / "v0001", inputs.plain
    rows = 0
    for directory in BENCHMARKS[inputs.dataset].compared:
        names = sorted(path.name for path in (version / directory).iterdir())
        if names != sorted(path.name for path in (plain / directory).iterdir()):
            raise SystemExit(f"{directory}: the two sides wrote different files")
        for name in names:
            ours, theirs = (pl.read_parquet(side / directory / name) for side in (version, plain))
            if not ours.equals(theirs):
                raise SystemExit(f"{directory}/{name}: the two sides wrote different rows")
            rows += ours.height
    return rows
