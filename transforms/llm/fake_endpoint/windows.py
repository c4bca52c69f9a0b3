"""Rate limits as an endpoint keeps them: over a sliding window of requests and of tokens."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass

#: The window of OpenAI's limits, in seconds; their headers don't say it.
_MINUTE = 60.0


@dataclass(frozen=True)
class RateLimits:
    """Most requests and tokens in any window of so many ``seconds``; None is no limit."""

    requests: int | None = None
    tokens: int | None = None
    seconds: float = 60.0


class SlidingSum:
    """The sum of what came within the last ``seconds``; ``greatest`` is its maximum so far."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._events: deque[tuple[float, int]] = deque()
        self.sum = self.greatest = 0

    def forget(self, now: float) -> None:
        """Let go what no window that ends at ``now`` holds."""
        while self._events and self._events[0][0] <= now - self._seconds:
            self.sum -= self._events.popleft()[1]

    def add(self, amount: int, now: float) -> None:
        """Add an ``amount`` that came at ``now``."""
        self.forget(now)
        self._events.append((now, amount))
        self.sum += amount
        self.greatest = max(self.greatest, self.sum)

    def wait(self, amount: int, limit: int, now: float) -> float:
        """Return seconds until ``amount`` more keep the sum within ``limit``, infinite if never."""
        self.forget(now)
        surplus = self.sum + amount - limit
        if surplus <= 0:
            return 0.0
        for time, each in self._events:
            surplus -= each
            if surplus <= 0:
                return time + self._seconds - now
        return math.inf


class RateWindows:
    """What came in, what of it was let in, and the limits on that.

    Every request that comes counts in ``seen``, refused or not: its greatest sums are what a client
    that keeps the limits never lets grow above them. Of a request its whole usage counts at the
    moment it comes.
    """

    def __init__(self, limits: RateLimits) -> None:
        self.limits = limits
        self.seen = SlidingSum(limits.seconds), SlidingSum(limits.seconds)
        self._admitted = SlidingSum(limits.seconds), SlidingSum(limits.seconds)

    def admit(self, tokens: int, now: float) -> float:
        """Count a request of so many ``tokens``; return 0 if it is let in, else seconds to wait."""
        waits = [0.0]
        for seen, admitted, amount, limit in zip(
            self.seen, self._admitted, (1, tokens), self._limits, strict=True
        ):
            seen.add(amount, now)
            if limit is not None:
                waits.append(admitted.wait(amount, limit, now))
        wait = max(waits)
        if not wait:
            for admitted, amount in zip(self._admitted, (1, tokens), strict=True):
                admitted.add(amount, now)
        return wait

    def headers(self, now: float) -> dict[str, str]:
        """Return the rate-limit headers: OpenAI's, which tell of minutes, else the IETF's."""
        told = {}
        for name, admitted, limit in zip(
            ("requests", "tokens"), self._admitted, self._limits, strict=True
        ):
            if limit is not None:
                admitted.forget(now)
                reset = admitted.wait(limit, limit, now)
                told[name] = limit, max(0, limit - admitted.sum), reset
        if self.limits.seconds == _MINUTE:
            return {
                f"x-ratelimit-{what}-{name}": value
                for name, (limit, left, reset) in told.items()
                for what, value in (
                    ("limit", str(limit)),
                    ("remaining", str(left)),
                    ("reset", duration(reset)),
                )
            }
        if not told:
            return {}
        window = math.ceil(self.limits.seconds)
        return {
            "ratelimit-policy": ", ".join(
                f'"{name}";q={limit};w={window};qu="{name}"' for name, (limit, _, _) in told.items()
            ),
            "ratelimit": ", ".join(
                f'"{name}";r={left};t={math.ceil(reset)}' for name, (_, left, reset) in told.items()
            ),
        }

    @property
    def _limits(self) -> tuple[int | None, int | None]:
        return self.limits.requests, self.limits.tokens


def duration(seconds: float) -> str:
    """Return so many seconds as the headers word them: ``12ms``, ``1.5s``, ``6m0s``."""
    if seconds < 1:
        return f"{math.ceil(seconds * 1000)}ms"
    minutes, rest = divmod(seconds, 60)
    return f"{int(minutes)}m{rest:.3g}s" if minutes else f"{rest:.4g}s"
