"""A rate limit: so much in any window of time, given out evenly.

Endpoints count in windows that begin whenever they like, so the limit has to hold in every one of
them. What was taken is therefore kept for a whole window, and for a margin more: a call may arrive
later than it was sent, and the next one earlier. Giving it out evenly spares endpoints that count
by the second, and keeps the limit where one process takes over from another that had begun to use
it (see ``transforms.llm.lanes``): what both took in a window is no more than one would have taken.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass

#: Of the margin: what a loop that was busy elsewhere may catch up on.
_CATCH_UP = 1 / 3


@dataclass(eq=False)
class Taken:
    """An amount that was taken at a time, until it is a window old."""

    time: float
    amount: float
    counted: bool = True


class WindowRate:
    """At most ``limit`` within any ``window`` seconds; times are those of any steady clock.

    Less than 1 a window is 1 in a longer window. What is taken first has to wait as if another
    process had taken as much until the rate was made.
    """

    def __init__(self, limit: float, window: float, margin: float, now: float) -> None:
        self._taken: deque[Taken] = deque()
        self._total = 0.0
        self._margin = margin
        self._made = now
        self._due: float | None = None
        self.change(limit, window)

    def change(self, limit: float, window: float) -> None:
        """Go on with another limit; what was taken stays taken.

        ``span`` is then for how long it counts, ``limit`` the most within that.
        """
        self.span = (window + self._margin) / min(limit, 1.0)
        self.limit = max(limit, 1.0)
        self._gap = self.span / self.limit

    def wait(self, amount: float, now: float) -> float:
        """Return in how many seconds ``amount`` may be taken: 0 for now, infinity for never."""
        if amount > self.limit:
            return math.inf
        self._expire(now)
        due = self._due
        if due is None:
            # For what was taken last and for what is taken next: time passes between the two alone.
            due = self._made + (2 * amount - 1) * self._gap
        return max(0.0, due - now, self._until_room(self._total + amount - self.limit, now))

    def take(self, amount: float, now: float) -> Taken:
        """Take ``amount``, for which there is no more to wait."""
        start = now if self._due is None else max(self._due, now - self._margin * _CATCH_UP)
        self._due = start + amount * self._gap
        return self._keep(amount, now)

    def give_back(self, taken: Taken) -> None:
        """Let nothing of what was taken be used."""
        self._correct(taken, 0.0)
        self._credit(taken.amount)
        taken.amount = 0.0

    def settle(self, taken: Taken, early: float, late: float, now: float) -> None:
        """Say what was used of what was taken: ``early`` when it was taken, ``late`` by now."""
        self._credit(taken.amount - early - late)
        self._correct(taken, early)
        taken.amount = early
        if late:
            self._keep(late, now)

    def _keep(self, amount: float, now: float) -> Taken:
        taken = Taken(now, amount)
        self._taken.append(taken)
        self._total += amount
        return taken

    def _credit(self, amount: float) -> None:
        if self._due is not None:
            self._due -= amount * self._gap

    def _correct(self, taken: Taken, amount: float) -> None:
        if taken.counted:
            self._total += amount - taken.amount

    def _expire(self, now: float) -> None:
        while self._taken and self._taken[0].time <= now - self.span:
            taken = self._taken.popleft()
            taken.counted = False
            self._total -= taken.amount
        if not self._taken:
            self._total = 0.0  # sums of fractions drift

    def _until_room(self, lacking: float, now: float) -> float:
        """Return the seconds until ``lacking`` of what was taken is a window old."""
        if lacking <= 0:
            return 0.0
        for taken in self._taken:
            lacking -= taken.amount
            if lacking <= 0:
                return taken.time + self.span - now
        return 0.0
