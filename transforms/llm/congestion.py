"""What an endpoint's refusals for too many calls (429) say: how many at once, how fast, and when.

Additive increase, multiplicative decrease, as networks do it. The calls in flight begin with a few
and become three times as many with each round, to the most that is allowed; where answers take
long, already when some time has passed without a 429, since refusals come at once. A 429 halves
them and slows the calls down; calls that were in flight by then change nothing more, for they tell
nothing new. From there on each answer that comes in adds a little.

A few 429s among many answers are no limit: gateways and busy servers refuse a call now and then at
any pace. Such a call waits as it is asked to, and the others go on.
"""

from __future__ import annotations

import math
from collections import deque

#: In flight at the beginning.
_FIRST_IN_FLIGHT = 32
#: More in flight with each answer, until a 429 has shown that there is a limit.
_GROWTH = 2.0
#: Seconds in which a refusal would have come, and by how much silence widens what is in flight.
_SILENCE, _WIDER = 0.3, 3.0
#: Of what may be in flight: as long as less is used, no answer tells that more would do.
_USED = 0.5
_FEWER, _SLOWER = 0.5, 0.7
#: Calls a second: each answer adds so much, and no 429 leaves less.
_FASTER = _SLOWEST = 1 / 60
#: Of the last outcomes, the share of 429s from which on they show a limit. Above a real limit
#: nearly all are refused; heeding each of 1 % of chance refusals leaves 15 calls a second of 387.
_LAST, _LIMITING = 100, 0.1
#: Seconds of silence after a 429 that does not ask for any; twice as many each time.
_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 60.0


class Congestion:
    """Bounds on the calls to one endpoint; times are seconds of any steady clock.

    Attributes:
        in_flight: calls that are sent and not over.
        resume: when the next call may be sent at the earliest, because a 429 asked for that.
        pace: calls a second, where a 429 has shown that there is a limit.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._window = float(min(most, _FIRST_IN_FLIGHT))
        self._fast_until = float(most)
        self._filled = 0.0
        self.in_flight = 0
        self.resume = 0.0
        self.pace: float | None = None
        self._due = 0.0
        self._decreased = float("-inf")
        self._in_a_row = 0
        self._sent: deque[float] = deque(maxlen=4096)
        self._refusals: deque[bool] = deque(maxlen=_LAST)

    @property
    def window(self) -> int:
        """Calls that may be in flight."""
        return int(self._window)

    def place(self, now: float) -> float:
        """Return in how many seconds there is a place for a call; infinity: when one is over."""
        if self.in_flight < self.window:
            return 0.0
        if self._window >= self._fast_until:
            return math.inf
        wait = max(0.0, self._filled + _SILENCE - now)
        if not wait:
            self._window = min(self._fast_until, self._window * _WIDER)
        return wait

    def wait(self, now: float) -> float:
        """Return in how many seconds the time for another call has come."""
        return max(0.0, self.resume - now, (self._due - now) if self.pace else 0.0)

    def sent(self, now: float) -> None:
        """Take note of a call that is sent now."""
        self.in_flight += 1
        self._sent.append(now)
        if self.in_flight == self.window:
            self._filled = now
        if self.pace:
            self._due = max(self._due, now) + 1 / self.pace

    def sent_since(self, time: float) -> int:
        """Return how many calls were sent after ``time``, of the last thousands."""
        return sum(1 for each in self._sent if each > time)

    def answered(self, sent: float) -> None:
        """Take note of an answer to a call that was sent at a time; before ``over``."""
        self._refusals.append(False)
        if sent <= self._decreased:
            return
        self._in_a_row = 0
        if self.pace:
            self.pace += _FASTER
        if self.in_flight >= self._window * _USED:
            more = _GROWTH if self._window < self._fast_until else 1.0 / self._window
            self._window = min(self._most, self._window + more)

    def refused(self, sent: float, asked: float | None, now: float) -> None:
        """Take note of a 429 for a call sent at a time, which ``asked`` to wait so many seconds."""
        self._refusals.append(True)
        if sum(self._refusals) < _LIMITING * len(self._refusals):
            return
        if asked is not None:
            self.resume = max(self.resume, now + asked)
        if sent <= self._decreased:
            return
        self._decreased = now
        self._window = self._fast_until = max(1.0, self._window * _FEWER)
        lately = self.sent_since(now - 1.0)
        before = lately if self.pace is None else min(self.pace, lately)
        self.pace = max(_SLOWEST, before * _SLOWER)
        self._due = now
        if asked is None:
            pause = min(_LONGEST_PAUSE, _FIRST_PAUSE * 2**self._in_a_row)
            self.resume = max(self.resume, now + pause)
            self._in_a_row += 1

    def over(self) -> None:
        """Take note that a call is over, or was never sent."""
        self.in_flight -= 1
