"""What a run costs beside the model's calls: the size of the release, from files to a version.

    python benchmarks/assemble.py [--json] [--rounds 2] [--dialogues 58137] [--keep DIRECTORY]

Makes up the inputs of the release's size (58,137 dialogues of 165,681 rows with 497,043 votes:
seeds, crowd files, and a cache with an answer to every request) and of a tenth of it, and runs

* ``remint prosocial`` as a user would (local runner, 16 partitions): its peak memory, its time;
* the same without its expectation suites, so that what these cost is measured apart;
* a plain Polars script of the same work (``plain_polars.py``), which reads the same files and
  writes the same rows to as many zstd parquet files; that they are equal is checked, row for row;
* remint without suites on a tenth of the size.

Each run is a process of its own, with its start and its imports in its time, its CPU seconds and
its peak memory as the system counts them. Sides take turns, and each figure is the best of its
rounds, since the machine may be busy.

    ratio_to_polars  time of remint without suites / time of the plain script
    peak_gb          peak memory of remint with its suites, in units of 10^9 bytes
    growth_10x       time of the full size / of a tenth, start and imports taken off both
    validation_s     what the suites add: Great Expectations' import, the checks, their reports
    total_s          the whole run, with suites
"""

from __future__ import annotations

import argparse
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
from typing import Any

import polars as pl

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
sys.path.insert(0, str(ROOT / "benchmarks"))

from endpoint import fake_endpoint  # noqa: E402
from synthesis import MODEL, RELEASED_DIALOGUES, Inputs  # noqa: E402

from pipelines.prosocial.publication import DATASET  # noqa: E402
from transforms.publishing.manifest import read_manifest  # noqa: E402

#: Directories of a version that the plain script writes too.
COMPARED = ("data", "provenance", "annotations", "rejected")


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


def made_inputs(directory: Path, dialogues: int, base_url: str) -> Inputs:
    """Make up the inputs of so many dialogues.

    In a process of its own: the system counts what this one holds into its children's peaks.
    """
    script = str(ROOT / "benchmarks" / "synthesis.py")
    cost_of([sys.executable, script, str(directory), str(dialogues), base_url])
    return Inputs(directory, base_url)


def run_remint(inputs: Inputs, what: str) -> Cost:
    """Measure remint on ``inputs``; ``what`` as ``remint_run.py`` takes it."""
    for version in (inputs.output / DATASET).glob("v*"):
        shutil.rmtree(version)
    return cost_of(
        [
            *(sys.executable, str(ROOT / "benchmarks" / "remint_run.py"), what, "prosocial"),
            *("--seeds", f"socialchemistry={inputs.seeds}", "--output", str(inputs.output)),
            *("--responses", inputs.files("responses")),
            *("--annotations", inputs.files("annotations")),
            *("--model", MODEL, "--base-url", inputs.base_url),
        ]
    )


def plain_output(inputs: Inputs) -> Path:
    """Return where the plain script writes."""
    return inputs.directory / "plain"


def run_plain(inputs: Inputs) -> Cost:
    """Measure the plain script on ``inputs``."""
    shutil.rmtree(plain_output(inputs), ignore_errors=True)
    script = str(ROOT / "benchmarks" / "plain_polars.py")
    places = (str(inputs.directory), inputs.base_url, str(plain_output(inputs)))
    return cost_of([sys.executable, script, *places])


def check_equal(inputs: Inputs) -> int:
    """Return how many rows both sides wrote; they are equal, file by file and row by row."""
    version, plain = inputs.output / DATASET / "v0001", plain_output(inputs)
    rows = 0
    for directory in COMPARED:
        names = sorted(path.name for path in (version / directory).iterdir())
        if names != sorted(path.name for path in (plain / directory).iterdir()):
            raise SystemExit(f"{directory}: the two sides wrote different files")
        for name in names:
            ours, theirs = (pl.read_parquet(side / directory / name) for side in (version, plain))
            if not ours.equals(theirs):
                raise SystemExit(f"{directory}/{name}: the two sides wrote different rows")
            rows += ours.height
    return rows


def best(rounds: int, *sides: Callable[[], Cost]) -> list[Cost]:
    """Return the quickest of each side's rounds; the sides take turns."""
    costs = [[side() for side in sides] for _ in range(rounds)]
    return [min(side, key=lambda cost: cost.wall) for side in zip(*costs, strict=True)]


def measure(directory: Path, dialogues: int, rounds: int) -> dict[str, Any]:
    """Return all figures."""
    with idle_endpoint() as base_url:
        full = made_inputs(directory / "full", dialogues, base_url)
        tenth = made_inputs(directory / "tenth", dialogues // 10, base_url)
        plain, remint, small, imports = best(
            rounds,
            lambda: run_plain(full),
            lambda: run_remint(full, "without-suites"),
            lambda: run_remint(tenth, "without-suites"),
            lambda: run_remint(tenth, "imports"),
        )
        whole = run_remint(full, "all")
        rows = check_equal(full)
        manifest = read_manifest(str(full.output / DATASET / "v0001"))
    costs = {
        "remint": whole,
        "remint_without_suites": remint,
        "polars": plain,
        "tenth_without_suites": small,
        "imports": imports,
    }
    return {
        "ratio_to_polars": round(remint.wall / plain.wall, 3),
        "peak_gb": round(whole.peak / 1e9, 3),
        "growth_10x": round((remint.wall - imports.wall) / (small.wall - imports.wall), 2),
        "validation_s": round(whole.wall - remint.wall, 2),
        "total_s": round(whole.wall, 2),
        "cpu_ratio_to_polars": round(remint.cpu / plain.cpu, 3),
        "dialogues": dialogues,
        "published": {name: manifest.summary[name] for name in ("dialogues", "rows")},
        "equal_rows": rows,
        "costs": {name: vars(cost) for name, cost in costs.items()},
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--dialogues", type=int, default=RELEASED_DIALOGUES)
    parser.add_argument("--keep", type=Path, help="a new directory for inputs and outputs")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        result = measure(options.keep or Path(temporary), options.dialogues, options.rounds)
    if options.json:
        print(json.dumps(result))
        return
    published = result["published"]
    print(
        f"{result['dialogues']:,} dialogues in; {published['dialogues']:,} with "
        f"{published['rows']:,} rows published; {result['equal_rows']:,} rows in all "
        "configurations, the same on both sides"
    )
    for name, cost in result["costs"].items():
        print(f"  {name:22} {Cost(**cost)}")
    for name in ("ratio_to_polars", "peak_gb", "growth_10x", "validation_s", "total_s"):
        print(f"{name}: {result[name]}")


if __name__ == "__main__":
    main()
