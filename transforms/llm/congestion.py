"""What an endpoint's refusals for too many calls (429) say: how many at once, how fast, and when.

Additive increase, multiplicative decrease, as networks do it. The calls in flight begin with a few
and become three times as many with each round, to the most that is allowed; where answers take
long, already when some time has passed without a 429, since refusals come at once. Where refusals
show a limit, they become fewer and the calls slower, once for all that were in flight by then,
which tell of the same moment. From there on each answer that comes in adds a little.

Refusals are weighed by their share of the last outcomes, as DCTCP weighs a network's marks. Up to a
tenth are no limit: gateways and busy servers refuse a call now and then at any pace. Such a call
waits as it is asked to, and the others go on. Above that nothing is added, and above a fifth the
decrease grows with the share, to a halving: a limit refuses nearly all that come above it, and is
met with the whole decrease within a round, while chance hardly comes there and is then met gently.

After a decrease all pause. Refusals that come before the next answer tell of the same full window,
so they pause the calls again and decrease nothing more.
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
#: The whole decrease of calls in flight and of their pace.
_FEWER, _SLOWER = 0.5, 0.7
#: Calls a second: each answer adds so much, and no 429 leaves less.
_FASTER = _SLOWEST = 1 / 60
#: Of so many last outcomes the share of 429s is looked at.
_LAST = 100
#: Shares: above the first nothing is added; between the others the decrease grows. Of a chance of
#: a tenth, a hundred outcomes have more than the second once in a thousand times.
_CHANCE, _LIMITING, _LIMITED = 0.1, 0.2, 0.4
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
        #: The last decrease: when, its size from 0 to 1, what it began with, and whether a call
        #: that was sent after it has been answered.
        self._decreased, self._decrease = float("-inf"), 0.0
        self._before = self._window, 0.0
        self._answered_since = True
        self._paused = float("-inf")
        self._in_a_row = 0
        self._sent: deque[float] = deque(maxlen=4096)
        self._outcomes: deque[bool] = deque(maxlen=_LAST)
        self._refusals = 0

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
        if self._is_told(sent):
            return
        share = self._share_with(refused=False)
        if sent <= self._decreased:
            return
        self._in_a_row = 0
        self._answered_since = True
        if share > _CHANCE:
            return
        if self.pace:
            self.pace += _FASTER
        if self.in_flight >= self._window * _USED:
            more = _GROWTH if self._window < self._fast_until else 1.0 / self._window
            self._window = min(self._most, self._window + more)

    def refused(self, sent: float, asked: float | None, now: float) -> None:
        """Take note of a 429 for a call sent at a time, which ``asked`` to wait so many seconds."""
        if not self._answered_since:
            self._pause(sent, asked, now)
        if self._is_told(sent):
            return
        share = self._share_with(refused=True)
        decrease = min(1.0, (share - _LIMITING) / (_LIMITED - _LIMITING))
        if decrease <= 0:
            return
        if sent > self._decreased and self._answered_since:
            lately = self.sent_since(now - 1.0)
            self._before = self._window, self.pace or lately
            self._decreased, self._decrease, self._answered_since = now, 0.0, False
            self._pause(sent, asked, now)
        if sent > self._decreased or decrease <= self._decrease:
            return
        self._decrease = decrease
        window, pace = self._before
        self._window = self._fast_until = max(1.0, window * (1 - (1 - _FEWER) * decrease))
        self.pace = max(_SLOWEST, pace * (1 - (1 - _SLOWER) * decrease))
        self._due = now
        if decrease == 1.0:
            self._outcomes.clear()  # they tell of what is over
            self._refusals = 0

    def over(self) -> None:
        """Take note that a call is over."""
        self.in_flight -= 1

    def withdrawn(self, time: float) -> None:
        """Take note that a call which was to be sent at ``time`` was not."""
        self.in_flight -= 1
        if time in self._sent:
            self._sent.remove(time)
        if self.pace:
            self._due -= 1 / self.pace

    def _is_told(self, sent: float) -> bool:
        """Return whether what a call of that time can tell was met with a whole decrease."""
        return sent <= self._decreased and self._decrease == 1.0

    def _share_with(self, *, refused: bool) -> float:
        """Return the share of 429s with another outcome; a call in flight is no 429 till it is."""
        if len(self._outcomes) == _LAST:
            self._refusals -= self._outcomes[0]
        self._outcomes.append(refused)
        self._refusals += refused
        return self._refusals / max(1, min(_LAST, len(self._outcomes) + self.in_flight - 1))

    def _pause(self, sent: float, asked: float | None, now: float) -> None:
        if asked is not None:
            self.resume = max(self.resume, now + asked)
        elif sent > self._paused:
            pause = min(_LONGEST_PAUSE, _FIRST_PAUSE * 2**self._in_a_row)
            self.resume = max(self.resume, now + pause)
            self._in_a_row += 1
            self._paused = now
