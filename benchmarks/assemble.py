"""What a run costs beside the model's calls: the size of the release, from files to a version.

    python benchmarks/assemble.py [--dataset metricinstruct] [--json] [--rounds 2] [--size N]
        [--times 10] [--keep DIRECTORY]

Makes up the inputs of the release's size and of a tenth of it. For ``prosocial`` that is 58,137
dialogues of 165,681 rows with 497,043 votes: seeds, crowd files, and a cache with an answer to
every request. For ``metricinstruct`` it is 50,000 examples of six tasks and both channels: source
files, files of outputs, and the cache. On them it runs

* ``remint`` as a user would (local runner, 16 partitions): its peak memory, its time;
* the same without its expectation suites, so that what these cost is measured apart;
* a plain Polars script of the same work (``plain_polars.py`` of the dataset), which reads the same
  files and writes the same rows to as many zstd parquet files; that they are equal is checked, row
  for row;
* remint without suites on a tenth of the size.

Each run is a process of its own, with its start and its imports in its time, its CPU seconds and
its peak memory as the system counts them. Sides take turns, and each figure is the best of its
rounds, since the machine may be busy.

    ratio_to_polars  time of remint without suites / time of the plain script
    peak_gb          peak memory of remint with its suites, in units of 10^9 bytes
    growth_10x       time of the full size / of a tenth, start and imports taken off both
    validation_s     what the suites add: Great Expectations' import, the checks, their reports
    total_s          the whole run, with suites

``--times 10`` measures something else: how time and memory grow from that size to ten times as
much, once each, suites included, on the local runner, in the plain script, and on a standalone
Flink cluster of two TaskManagers (see ``times.py``).
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks.measured import (  # noqa: E402
    BENCHMARKS,
    Cost,
    check_equal,
    idle_endpoint,
    made_inputs,
    run_plain,
    run_remint,
)
from benchmarks.times import measure_times, show_times  # noqa: E402
from transforms.publishing.manifest import read_manifest  # noqa: E402

#: The figures of a run, in the order in which they are printed.
KEYS = ("ratio_to_polars", "peak_gb", "growth_10x", "validation_s", "total_s")


def best(rounds: int, *sides: Callable[[], Cost]) -> list[Cost]:
    """Return the quickest of each side's rounds; the sides take turns."""
    costs = [[side() for side in sides] for _ in range(rounds)]
    return [min(side, key=lambda cost: cost.wall) for side in zip(*costs, strict=True)]


def measure(dataset: str, directory: Path, size: int, rounds: int) -> dict[str, Any]:
    """Return all figures."""
    with idle_endpoint() as base_url:
        full = made_inputs(dataset, directory / "full", size, base_url)
        tenth = made_inputs(dataset, directory / "tenth", size // 10, base_url)
        plain, remint, small, imports = best(
            rounds,
            lambda: run_plain(full),
            lambda: run_remint(full, "without-suites"),
            lambda: run_remint(tenth, "without-suites"),
            lambda: run_remint(tenth, "imports"),
        )
        whole = run_remint(full, "all")
        rows = check_equal(full)
        manifest = read_manifest(str(full.output / dataset / "v0001"))
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
        "dataset": dataset,
        BENCHMARKS[dataset].unit: size,
        "published": {name: manifest.summary[name] for name in BENCHMARKS[dataset].published},
        "equal_rows": rows,
        "costs": {name: vars(cost) for name, cost in costs.items()},
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--dataset", choices=sorted(BENCHMARKS), default="prosocial")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--size", type=int, help="dialogues or examples; the release's by default")
    parser.add_argument("--keep", type=Path, help="a new directory for inputs and outputs")
    parser.add_argument("--times", type=int, help="so many times that size, against once")
    parser.add_argument(
        "--runners",
        nargs="+",
        choices=("local", "flink"),
        default=["local", "flink"],
        help="of --times",
    )
    options = parser.parse_args()
    benchmark = BENCHMARKS[options.dataset]
    size = options.size or benchmark.size
    with tempfile.TemporaryDirectory() as temporary:
        directory = options.keep or Path(temporary)
        if options.times:
            grown = measure_times(options.dataset, directory, size, options.times, options.runners)
            print(json.dumps(grown) if options.json else show_times(grown))
            return
        result = measure(options.dataset, directory, size, options.rounds)
    if options.json:
        print(json.dumps(result))
        return
    published = ", ".join(f"{name} {value:,}" for name, value in result["published"].items())
    print(
        f"{options.dataset}: {size:,} {benchmark.unit} in; published: {published}; "
        f"{result['equal_rows']:,} rows in all configurations, the same on both sides"
    )
    for name, cost in result["costs"].items():
        print(f"  {name:22} {Cost(**cost)}")
    for name in (*KEYS, "cpu_ratio_to_polars"):
        print(f"{name}: {result[name]}")


if __name__ == "__main__":
    main()
