"""How fast the calls of a run are getting on, and how long what is ahead will take."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass

from transforms.llm.statistics import CACHED, KEYS, KEYS_BEGUN, PARTITIONS_BEGUN, SENT

#: Seconds over which a rate is taken.
_LATELY = 60.0


@dataclass(frozen=True)
class Snapshot:
    """How things stand at one moment.

    Attributes:
        counts: what was counted since the work began, see ``transforms.llm.statistics``.
        in_flight: calls sent and not answered.
        seconds: since the work began.
        rate: calls sent a second, lately.
        keys: keys there will be, as far as can be told from the partitions that came.
        left: seconds until all of them are done at the present rate; None: can't be told.
    """

    counts: Mapping[str, int]
    in_flight: int
    seconds: float
    rate: float
    keys: int
    left: float | None

    @property
    def worked(self) -> bool:
        """Whether any call was made or answered from the cache."""
        return bool(self.counts.get(SENT) or self.counts.get(CACHED) or self.counts.get(KEYS))


class Pace:
    """Makes snapshots of counts that grow.

    Args:
        before: the counts when the work begins, which are left out of account.
        now: the time then; times are those of any steady clock.
        partitions: how many there will be; None: those that came.
    """

    def __init__(self, before: Mapping[str, int], now: float, partitions: int | None) -> None:
        self._before, self._began, self._partitions = before, now, partitions
        self._lately: deque[tuple[float, int, int]] = deque([(now, 0, 0)])

    def snapshot(self, counts: Mapping[str, int], in_flight: int, now: float) -> Snapshot:
        """Return how things stand at ``now``."""
        since = Counter(counts)
        since.subtract(self._before)
        done = since[KEYS]
        self._lately.append((now, since[SENT], done))
        while len(self._lately) > 2 and self._lately[1][0] <= now - _LATELY:
            self._lately.popleft()
        then, sent_then, done_then = self._lately[0]
        seconds = max(now - then, 1e-9)
        keys = self._keys(since)
        rate_of_keys = (done - done_then) / seconds
        return Snapshot(
            counts={name: count for name, count in since.items() if count},
            in_flight=in_flight,
            seconds=now - self._began,
            rate=(since[SENT] - sent_then) / seconds,
            keys=keys,
            left=(keys - done) / rate_of_keys if rate_of_keys else None,
        )

    def _keys(self, since: Mapping[str, int]) -> int:
        """Return the keys of all partitions, if those to come are like those that came."""
        came = since[PARTITIONS_BEGUN]
        if not came or self._partitions is None:
            return since[KEYS_BEGUN]
        return round(since[KEYS_BEGUN] * max(1.0, self._partitions / came))
