"""The same work on each runner of one machine: joins, filters, suites and shards, without a call.

    python benchmarks/runners.py [--dataset metricinstruct] [--json] [--size N]
        [--runners local multi_processing prism flink]

Makes up inputs with a warm cache as ``assemble.py`` does (a tenth of the release's size unless told
otherwise), runs remint with its suites once on each runner, and compares all rows with those of the
plain Polars script. Two workers each, of what has workers. ``prism`` and ``flink`` need what ``make
test-cluster`` installs; a cluster's own start is not in its time.

    seconds_RUNNER  of the whole run
    ratio_RUNNER    those / the seconds of the local runner, the default
    peak_gb_RUNNER  peak memory of its largest process, in units of 10^9 bytes; Flink's and Prism's
                    own processes are left out
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks.inputs import Inputs  # noqa: E402
from benchmarks.measured import (  # noqa: E402
    BENCHMARKS,
    check_equal,
    idle_endpoint,
    made_inputs,
    run_plain,
    run_remint,
)
from benchmarks.times import run_flink  # noqa: E402

PRISM = ROOT / ".cluster" / "bin" / "prism"
FLAGS = {
    "local": [],
    "multi_processing": ["--direct_running_mode=multi_processing", "--direct_num_workers=2"],
    "prism": ["--runner=PrismRunner", f"--prism_location={PRISM}"],
}
RUNNERS = (*FLAGS, "flink")


def run_on(runner: str, inputs: Inputs, directory: Path) -> tuple[float, float]:
    """Return the seconds of a run on ``runner``, and the peak of its largest process in GB."""
    if runner == "flink":
        cost, memory = run_flink(inputs, directory)
        return cost.wall, max(memory["worker_peak_gb"], memory["driver_peak_gb"])
    cost = run_remint(inputs, "all", *FLAGS[runner])
    return cost.wall, cost.peak / 1e9


def measure(dataset: str, directory: Path, size: int, runners: list[str]) -> dict[str, Any]:
    """Return all figures."""
    found = {}
    with idle_endpoint() as base_url:
        inputs = made_inputs(dataset, directory / "inputs", size, base_url)
        run_plain(inputs)
        for runner in runners:
            found[runner] = run_on(runner, inputs, directory / "flink")
            check_equal(inputs)
    figures: dict[str, Any] = {"dataset": dataset, BENCHMARKS[dataset].unit: size}
    for runner, (seconds, peak) in found.items():
        figures[f"seconds_{runner}"] = round(seconds, 1)
        figures[f"peak_gb_{runner}"] = round(peak, 2)
        if "local" in found:
            figures[f"ratio_{runner}"] = round(seconds / found["local"][0], 2)
    return figures


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--dataset", choices=sorted(BENCHMARKS), default="prosocial")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--size", type=int, help="dialogues or examples")
    parser.add_argument("--runners", nargs="+", choices=RUNNERS, default=RUNNERS)
    options = parser.parse_args()
    size = options.size or BENCHMARKS[options.dataset].size // 10
    with tempfile.TemporaryDirectory() as directory:
        figures = measure(options.dataset, Path(directory), size, options.runners)
    if options.json:
        print(json.dumps(figures))
        return
    for name, value in figures.items():
        print(f"{name}: {value}")


if __name__ == "__main__":
    main()
