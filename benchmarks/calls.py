"""How fast the call engine is, beside bare clients and the tools that do the same work.

    python benchmarks/calls.py [--json] [--only remint curator ...] [--environments DIRECTORY]

Three loads, each from a cold start (connections, slow start), on ``remint fake-endpoint`` as a
process of its own, on this machine:

* 50 ms and 64 calls in flight;
* 1 s and 256 in flight;
* a heavy-tailed latency (lognormal, median 0.4 s, sigma 0.8) and 64 in flight, drawn from a
  request's messages: all sides meet the same latencies.

Then two kinds of trouble, at 50 ms and 64 in flight: an endpoint that lets in 600 requests a
minute and answers others with 429, a Retry-After and rate-limit headers, of which nobody was told,
asked 700 times; and one that cuts 5 % of its answers (finish_reason length).

Sides are processes of their own (``peers``), with the same prompts in the same run: remint's engine
with all of its work (rendering, keys, cache on disk, answers checked against their schema), bare
aiohttp, the bare openai package, and curator, distilabel, datatrove and Beam's RunInference, each
in a virtual environment that is made at the first run. Calls a second are counted until all rows
are there, and what a start and an end cost (measured with one round of calls at an endpoint that
answers at once) is taken off, from the CPU time of a call, too. Sides take turns; with ``--rounds``
the best figure of each counts, since the machine may be busy.

    ratio_50ms              remint's calls a second / those of bare aiohttp
    ratio_1s                remint's calls a second / (256 in flight / 1 s)
    ratio_heavy_tailed      remint's calls a second / those of bare aiohttp on the same latencies
    ratio_to_curator_50ms   remint's calls a second / those of curator, both at 50 ms
    ratio_to_openai         remint's calls a second / those of the openai package, both at 50 ms
    ratio_to_aiohttp        another name of ratio_50ms
    peers                   the same ratios and all figures of the others, or why there are none
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
sys.path.insert(0, str(ROOT / "benchmarks"))

from peers.environments import InstallationError, python_with  # noqa: E402
from peers.running import FailedError, Figures, Load, Side  # noqa: E402

FIXED = Load("50ms", 64, 3000, ("--latency", "constant:0.05"))
SLOW = Load("1s", 256, 10240, ("--latency", "constant:1"))
HEAVY_TAILED = Load("heavy_tailed", 64, 1500, ("--latency", "lognormal:0.4:0.8"))
LIMITED = Load("limited", 64, 700, ("--latency", "constant:0.05", "--rpm", "600"))
CUT = Load("cut", 64, 400, ("--latency", "constant:0.05", "--fault", "truncated=0.05"))
#: Calls by which a tool's rate is known, where not as many are needed to make up for a slow start.
CALLS_OF_PEERS = {FIXED: 1500, SLOW: 2048}

TROUBLES = LIMITED, CUT
OURS, BARE, PACKAGE = "remint", "aiohttp", "openai"
#: What each tool's environment has; Beam is the one that remint runs on.
PEERS = {
    "curator": ("bespokelabs-curator==0.1.31",),
    # It imports requests, which its dependencies don't bring any more.
    "distilabel": ("distilabel[openai]==1.5.3", "requests"),
    # What its extra "inference" has, without the 9 GB of vllm and sglang.
    "datatrove": ("datatrove[io]==0.10.1", "aiofiles", "aiosqlite", "httpx"),
    "run_inference": (
        f"apache-beam=={importlib.metadata.version('apache-beam')}",
        f"openai=={importlib.metadata.version('openai')}",
    ),
}
SIDES = (OURS, BARE, PACKAGE, *PEERS)


def measure(
    load: Load, sides: Mapping[str, Side], failures: dict[str, str], rounds: int = 1
) -> dict[str, Figures]:
    """Return the best figures of each side that can do it; the others go into ``failures``."""
    best: dict[str, Figures] = {}
    for _ in range(rounds):
        for name, side in sides.items():
            if name in failures:
                continue
            calls = CALLS_OF_PEERS.get(load, load.requests) if name in PEERS else load.requests
            try:
                figures = side.run(replace(load, requests=calls))
            except FailedError as failure:
                failures[name] = f"{load.name}: {failure}"
                print(f"no figures of {name}: {failures[name]}", file=sys.stderr, flush=True)
                best.pop(name, None)
                continue
            print(f"{load.name}: {name} {figures.rate} calls/s", file=sys.stderr, flush=True)
            if name not in best or figures.rate > best[name].rate:
                best[name] = figures
    return best


def installed(names: Sequence[str], directory: Path, failures: dict[str, str]) -> dict[str, Side]:
    """Return the sides of those names; the reason why one can't be had goes into ``failures``."""
    sides = {name: Side(name) for name in names if name not in PEERS}
    for name in names:
        if name in PEERS:
            print(f"environment: {name}", file=sys.stderr, flush=True)
            try:
                sides[name] = Side(name, python_with(name, PEERS[name], directory))
            except InstallationError as failure:
                failures[name] = f"not installed: {failure}"
    return sides


def ratios(name: str, found: Mapping[Load, Mapping[str, Figures]]) -> dict[str, float | None]:
    """Return the ratios of one side, None where it or what it is held against was not measured."""

    def ratio(load: Load, base: float | None) -> float | None:
        figures = found[load].get(name)
        return round(figures.rate / base, 3) if figures and base else None

    def bare(load: Load) -> float | None:
        return found[load][BARE].rate if BARE in found[load] else None

    return {
        "ratio_50ms": ratio(FIXED, bare(FIXED)),
        "ratio_1s": ratio(SLOW, SLOW.in_flight / 1.0),
        "ratio_heavy_tailed": ratio(HEAVY_TAILED, bare(HEAVY_TAILED)),
    }


def report(
    found: Mapping[Load, Mapping[str, Figures]], failures: Mapping[str, str]
) -> dict[str, Any]:
    """Return all that is known, by the keys that the module's docstring names."""

    def against(other: str) -> float | None:
        theirs, ours = found[FIXED].get(other), found[FIXED].get(OURS)
        return round(ours.rate / theirs.rate, 3) if theirs and ours else None

    def figures(name: str) -> dict[str, Any]:
        return {load.name: asdict(by[name]) for load, by in found.items() if name in by}

    ours = ratios(OURS, found)
    return {
        **ours,
        "ratio_to_curator_50ms": against("curator"),
        "ratio_to_openai": against(PACKAGE),
        "ratio_to_aiohttp": ours["ratio_50ms"],
        "figures": {name: figures(name) for name in (OURS, BARE, PACKAGE)},
        "peers": {
            name: {
                **ratios(name, found),
                **figures(name),
                **({"failure": failures[name]} if name in failures else {}),
            }
            for name in PEERS
            if figures(name) or name in failures
        },
    }


def show(found: Mapping[Load, Mapping[str, Figures]], failures: Mapping[str, str]) -> None:
    """Print the figures as tables."""
    for load, by_side in found.items():
        print(f"{load.name}: {' '.join(load.endpoint)}, {load.in_flight} in flight")
        for name, each in by_side.items():
            print(
                f"  {name:14}{each.rate:8.1f} calls/s {each.cpu:8.3f} ms CPU each "
                f"{each.peak / 1e6:7.0f} MB peak"
            )
            if load in TROUBLES:
                rows = ", ".join(f"{count} {what}" for what, count in each.rows.items() if count)
                print(f"{'':16}{rows}; {each.requests} requests, {each.refused} refused (429)")
            if each.ended:
                print(f"{'':16}ended early: {each.ended}")
    for name, reason in failures.items():
        print(f"no figures of {name}: {reason}")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--only", nargs="+", choices=SIDES, default=SIDES, metavar="SIDE")
    parser.add_argument("--rounds", type=int, default=1, help="at 50 ms, the best one counts")
    parser.add_argument(
        "--environments",
        type=Path,
        default=ROOT / ".peers",
        help="where the tools' virtual environments are, or will be",
    )
    options = parser.parse_args()
    failures: dict[str, str] = {}
    sides = installed(options.only, options.environments, failures)
    without_package = {name: side for name, side in sides.items() if name != PACKAGE}
    rated = {name: side for name, side in without_package.items() if name != BARE}
    found = {FIXED: measure(FIXED, sides, failures, options.rounds)}
    for load in (SLOW, HEAVY_TAILED):
        found[load] = measure(load, without_package, failures)
    for load in TROUBLES:
        found[load] = measure(load, rated, failures)
    result = report(found, failures)
    if options.json:
        print(json.dumps(result))
        return
    show(found, failures)
    for name, value in result.items():
        if name.startswith("ratio_"):
            print(f"{name}: {value}")


if __name__ == "__main__":
    main()
