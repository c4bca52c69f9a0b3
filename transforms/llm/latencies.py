"""Latencies as counts in logarithmic buckets, which can be added up over processes and runs.

A bucket is a factor of 2^(1/8) wide, so a percentile is right to within 5 %. Counts stand among
the engine's others (``transforms.llm.statistics``) under the bucket's name.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

_BUCKETS_PER_DOUBLING = 8
_PREFIX = "latency_"
#: What is told of latencies: the percentile's name, and the share of calls that took no longer.
PERCENTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99}


def bucket(seconds: float) -> str:
    """Return the name of the bucket that ``seconds`` fall into; the first one ends at 1 ms."""
    milliseconds = max(1.0, 1000 * seconds)
    return f"{_PREFIX}{round(_BUCKETS_PER_DOUBLING * math.log2(milliseconds)):03d}"


def seconds_of(name: str) -> float | None:
    """Return the seconds that the bucket ``name`` stands for, None for another count's name."""
    if not name.startswith(_PREFIX):
        return None
    return float(2 ** (int(name.removeprefix(_PREFIX)) / _BUCKETS_PER_DOUBLING)) / 1000


def latencies(counts: Mapping[str, int]) -> dict[float, int]:
    """Return how many calls took how many seconds, the quickest first."""
    found = {
        seconds: count
        for name, count in counts.items()
        if count > 0 and (seconds := seconds_of(name)) is not None
    }
    return dict(sorted(found.items()))


def percentiles(counts: Mapping[str, int]) -> dict[str, float]:
    """Return ``PERCENTILES`` in seconds; nothing where no call was made."""
    by_seconds = latencies(counts)
    total = sum(by_seconds.values())
    return {
        name: round(_at(by_seconds, math.ceil(share * total)), 4)
        for name, share in PERCENTILES.items()
        if total
    }


def _at(by_seconds: Mapping[float, int], rank: int) -> float:
    """Return the latency of the call of that ``rank``, from 1."""
    for seconds, count in by_seconds.items():
        rank -= count
        if rank <= 0:
            return seconds
    raise ValueError("there are not so many calls")
