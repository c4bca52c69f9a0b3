"""Lanes: how a job's limits are kept by many workers that know nothing of each other.

A limit is divided over a fixed number of lanes, a partition belongs to one of them, and its calls
use that lane's share alone. Between the workers a lane's partitions travel as one group (see
``transforms.llm.lane_streaming``), so that one worker at a time works on a lane: whatever the
number of workers, together they never exceed the whole.
"""

from __future__ import annotations

from dataclasses import dataclass

from transforms.llm.settings import EngineSettings

#: Where several processes make calls; so many of them can do so at a time.
DEFAULT_LANES = 8
#: Tokens a minute of a lane: a call that needs more than its lane has can't be made.
_LEAST_TOKENS = 10_000


@dataclass(frozen=True)
class LaneLimits:
    """A lane's share of a job's limits; None where there is none.

    Attributes:
        concurrency: calls in flight.
        requests: calls a minute.
        tokens: tokens a minute.
        turn: when its turn comes, as a part of a round of all lanes.
    """

    concurrency: int
    requests: float | None
    tokens: float | None
    turn: float


def lane_of(partition: int, lanes: int) -> int:
    """Return the lane of a partition."""
    return partition % lanes


def lanes_for(wanted: int, partitions: int, settings: EngineSettings) -> int:
    """Return how many lanes there can be: each has a partition, and enough of every limit.

    Args:
        wanted: the lanes that were asked for.
        partitions: the dataset's.
        settings: with the limits of the whole job.
    """
    bounds = [wanted, partitions]
    for each in settings.endpoints:
        bounds.append(each.concurrency)
        if each.rpm is not None:
            bounds.append(int(each.rpm))
        if each.tpm is not None:
            bounds.append(int(each.tpm / _LEAST_TOKENS))
    return max(1, min(bounds))


def share(lane: int, settings: EngineSettings) -> LaneLimits:
    """Return one lane's share of the limits in ``settings``; all add up to the whole."""
    lanes, requests, tokens = settings.lane_count, settings.rpm, settings.tpm
    whole, left = divmod(settings.concurrency, lanes)
    return LaneLimits(
        concurrency=whole + (lane < left),
        requests=None if requests is None else requests / lanes,
        tokens=None if tokens is None else tokens / lanes,
        turn=lane / lanes,
    )
