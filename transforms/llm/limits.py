"""The limits every call passes last: a turn, a place in flight, requests and tokens a minute.

One queue for all of them, in each lane: whoever waits holds neither a place nor a part of a rate,
and is sent in the moment all are there. Of those that wait, items in progress go before new ones
(a dialogue begun is finished), then an item's first call before the second that it makes at the
same time, then in order of arrival.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import math
import time
from collections.abc import Callable
from dataclasses import dataclass

from transforms.llm.admission import PendingCall
from transforms.llm.answers import PAID, Verdict, retry_after
from transforms.llm.calls import CallClass
from transforms.llm.client import Reply
from transforms.llm.congestion import Congestion
from transforms.llm.lanes import LaneLimits, lane_of, share
from transforms.llm.rate_headers import Window, rate_report
from transforms.llm.rates import Taken, WindowRate
from transforms.llm.reservation import Reservation
from transforms.llm.settings import EngineSettings

Clock = Callable[[], float]

#: After one of these no further call can do better in this run.
_FINAL = frozenset({CallClass.AUTH, CallClass.BUDGET})
#: Headers are read again after so many seconds; those of a 429 always.
_HEADERS_AGAIN = 1.0
#: A lane's turn is so long: a timer that comes a little late has not missed it.
_TURN_SECONDS = 0.2


@dataclass(eq=False)
class _Sent:
    """A call that was let through: when, and what it took of each rate."""

    time: float
    request: Taken | None
    tokens: Taken | None


class _Rate:
    """One kind of rate: the limit that was set, tightened by one that the endpoint tells."""

    def __init__(self, limit: float | None, settings: EngineSettings, now: float) -> None:
        self._set, self._lanes = limit, settings.lane_count
        self._window, self._margin = settings.rate_window, settings.rate_margin
        #: What is told of all lanes, and the most that one call needed of it.
        self._told = self._largest = 0.0
        self._share = math.inf  # the lane's, of what is told
        self._seconds = self._window
        self.rate: WindowRate | None = None
        if limit is not None:
            self.rate = WindowRate(limit, self._window, self._margin, now)

    def learn(self, told: Window | None, now: float, sent: Callable[[float], int]) -> float:
        """Heed what the endpoint tells; return for how many seconds nothing is to be sent.

        ``sent`` tells how much of this rate was certainly used since a time.
        """
        if told is None:
            return 0.0
        if told.limit and told.by_the_minute:
            seconds = told.seconds or self._window
            limit = told.limit / self._lanes
            self._told = told.limit
            if self._set is not None and self._set / self._window <= limit / seconds:
                limit, seconds = self._set, self._window
                self._told = 0.0
            self._share = limit if self._told else math.inf
            longer = max(1.0, min(self._largest, self._told) / limit)
            limit, seconds = limit * longer, seconds * longer
            self._seconds = seconds
            if self.rate is None:
                self.rate = WindowRate(limit, seconds, self._margin, now)
                # Of the same window as what comes next, whoever sent it: left out of account it
                # would use the limit up, and that costs a whole window.
                known = 0.0 if told.remaining is None else told.limit - told.remaining
                used = max(known / self._lanes, sent(now - seconds))
                self.rate.take(min(used, limit), now)
            else:
                self.rate.change(limit, seconds)
        return (told.reset or 0.0) if told.remaining == 0 else 0.0

    def wait(self, amount: float, now: float) -> float:
        if self.rate is None:
            return 0.0
        if self.rate.limit < amount <= self._told:
            # The lanes' number was chosen before the limit was known: a call that needs more than
            # its lane's share, and less than the whole, waits for as much longer.
            self._seconds *= amount / self.rate.limit
            self._largest = max(self._largest, amount)
            self.rate.change(amount, self._seconds)
        return self.rate.wait(amount, now)

    def round(self, amount: float) -> float:
        """Return the seconds of a round in which each lane sends ``amount`` once, or less.

        0 where that is no more than the lane's share.
        """
        return 0.0 if self.rate is None or amount <= self._share else self.rate.span

    def take(self, amount: float, now: float) -> Taken | None:
        return None if self.rate is None else self.rate.take(amount, now)

    def give_back(self, taken: Taken | None) -> None:
        if taken is not None and self.rate is not None:
            self.rate.give_back(taken)

    def settle(self, taken: Taken | None, early: float, late: float, now: float) -> None:
        if taken is not None and self.rate is not None:
            self.rate.settle(taken, early, late, now)


class LaneAdmission:
    """The limits of one lane; ``clock`` is the event loop's."""

    def __init__(self, limits: LaneLimits, settings: EngineSettings, clock: Clock) -> None:
        self._clock = clock
        now = clock()
        self._turn = limits.turn
        self._congestion = Congestion(limits.concurrency)
        self._requests = _Rate(limits.requests, settings, now)
        self._tokens = _Rate(limits.tokens, settings, now)
        self._reservation = Reservation()
        self._longest_pause = settings.retry_seconds
        self._longest_reset = settings.rate_window
        self._refusing: tuple[CallClass, float] | None = None
        self._headers_read = -math.inf
        self._sent: dict[str, _Sent] = {}
        self._order = itertools.count()
        self._waiting: list[
            tuple[int, int, int, PendingCall, asyncio.Future[CallClass | None]]
        ] = []
        self._timer: asyncio.TimerHandle | None = None

    async def admit(self, call: PendingCall) -> CallClass | None:
        """Wait for the call's turn; see ``Admission``."""
        now = self._clock()
        refused = self._refused(call, now)
        if refused is not None:
            return refused
        if not self._waiting and not self._wait(call, now):
            self._send(call, now)
            return None
        turn: asyncio.Future[CallClass | None] = asyncio.get_running_loop().create_future()
        entry = (-call.progress, call.beside, next(self._order), call, turn)
        heapq.heappush(self._waiting, entry)
        self._go_on()
        try:
            return await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled() and turn.result() is None:
                self.withdraw(call)  # its turn came in the moment of the cancellation
            raise

    def withdraw(self, call: PendingCall) -> None:
        """Give the place and the rates to the next; see ``Admission``."""
        sent = self._sent.pop(call.key)
        self._congestion.withdrawn(sent.time)
        self._requests.give_back(sent.request)
        self._tokens.give_back(sent.tokens)
        self._go_on()

    def settle(self, call: PendingCall, reply: Reply | None, verdict: Verdict | None) -> None:
        """Learn from the outcome, and give the place to the next; see ``Admission``."""
        now = self._clock()
        sent = self._sent.pop(call.key)
        try:
            if reply is not None and verdict is not None:
                self._settle(call, sent, reply, verdict, now)
        finally:  # whatever a reply's headers hold, its place is the next one's
            self._congestion.over()
            self._go_on()

    def _settle(
        self, call: PendingCall, sent: _Sent, reply: Reply, verdict: Verdict, now: float
    ) -> None:
        self._learn(sent, reply, verdict, now)
        if verdict.metered:
            self._reservation.observe(call, verdict)
            used = verdict.prompt_tokens, verdict.completion_tokens
            self._tokens.settle(sent.tokens, *used, now)
        elif reply.fault is None and verdict.call_class not in PAID:
            # An error that was answered wrote nothing; what is unknown stays as it was counted.
            self._tokens.settle(sent.tokens, call.prompt_tokens, 0, now)

    def refuse(self, call_class: CallClass, until: float = math.inf) -> None:
        """End all calls unsent that wait, or that come until a time, in ``call_class``."""
        self._refusing = call_class, until
        while self._waiting:
            turn = heapq.heappop(self._waiting)[4]
            if not turn.done():
                turn.set_result(call_class)

    def _learn(self, sent: _Sent, reply: Reply, verdict: Verdict, now: float) -> None:
        limited = verdict.call_class is CallClass.RATE_LIMITED
        if limited:
            asked = retry_after(reply.headers)
            if asked is not None and asked > self._longest_pause:
                self.refuse(CallClass.RATE_LIMITED, now + asked)
                asked = 0.0
            self._congestion.refused(sent.time, asked, now)
        elif verdict.call_class in PAID:
            self._congestion.answered(sent.time)
        if limited or now - self._headers_read > _HEADERS_AGAIN:
            self._headers_read = now
            told = rate_report(reply.headers)
            pause = max(
                self._requests.learn(told.requests, now, self._congestion.sent_since),
                self._tokens.learn(told.tokens, now, lambda time: 0),
            )
            if pause:
                resume = now + min(pause, self._longest_reset)
                self._congestion.resume = max(self._congestion.resume, resume)

    def _refused(self, call: PendingCall, now: float) -> CallClass | None:
        if self._refusing is not None and now < self._refusing[1]:
            return self._refusing[0]
        if math.isinf(self._tokens.wait(self._amount(call), now)):
            return CallClass.RATE_LIMITED
        return None

    def _wait(self, call: PendingCall, now: float) -> float:
        """Return in how many seconds ``call`` may go; infinity: when another is over."""
        place = self._congestion.place(now)
        if math.isinf(place):
            return place
        amount = self._amount(call)
        wait = max(
            place,
            self._congestion.wait(now),
            self._requests.wait(1, now),
            self._tokens.wait(amount, now),
        )
        span = max(self._requests.round(1), self._tokens.round(amount))
        return self._until_turn(wait, span, now) if span else wait

    def _until_turn(self, wait: float, span: float, now: float) -> float:
        """Return in how many seconds it is the lane's turn in rounds of ``span``, from ``wait`` on.

        Lanes that need more than their shares would send more than the whole where they sent at
        once. They know nothing of each other but the clock, and take turns by that.
        """
        late = (now + wait - self._turn * span) % span
        return wait if late <= _TURN_SECONDS else wait + span - late

    def _send(self, call: PendingCall, now: float) -> None:
        self._congestion.sent(now)
        self._sent[call.key] = _Sent(
            now, self._requests.take(1, now), self._tokens.take(self._amount(call), now)
        )

    def _go_on(self) -> None:
        """Let through whoever's turn it is, and come back when the next one's time has come."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        while self._waiting:
            call, turn = self._waiting[0][3:]
            if turn.done():
                heapq.heappop(self._waiting)
                continue
            now = self._clock()
            refused = self._refused(call, now)
            wait = 0.0 if refused is not None else self._wait(call, now)
            if wait:
                if not math.isinf(wait):
                    self._timer = asyncio.get_running_loop().call_later(wait, self._go_on)
                return
            heapq.heappop(self._waiting)
            if refused is None:
                self._send(call, now)
            turn.set_result(refused)

    def _amount(self, call: PendingCall) -> int:
        """Return the tokens that ``call`` is counted with; nothing counts them without a limit."""
        return 0 if self._tokens.rate is None else self._reservation.tokens(call)


class Limits:
    """The limits of one engine, lane by lane; see ``Admission``.

    A rejected key or a spent quota ends all later calls to the endpoint unsent; one model that it
    refuses is no reason to (see ``transforms.llm.model_access``).
    """

    def __init__(self, settings: EngineSettings, clock: Clock = time.monotonic) -> None:
        self._settings, self._clock = settings, clock
        self._lanes: dict[int, LaneAdmission] = {}
        self._final: CallClass | None = None

    async def admit(self, call: PendingCall) -> CallClass | None:
        """Wait for the call's turn in its lane; see ``Admission``."""
        if self._final is not None:
            return self._final
        return await self._lane(call).admit(call)

    def withdraw(self, call: PendingCall) -> None:
        """Give back what the call took of its lane; see ``Admission``."""
        self._lane(call).withdraw(call)

    def settle(self, call: PendingCall, reply: Reply | None, verdict: Verdict | None) -> None:
        """Tell the call's lane, and all of them when no call can succeed any more."""
        if verdict is not None and verdict.call_class in _FINAL and not verdict.of_model:
            self._final = verdict.call_class
            for each in self._lanes.values():
                each.refuse(self._final)
        self._lane(call).settle(call, reply, verdict)

    def _lane(self, call: PendingCall) -> LaneAdmission:
        number = lane_of(call.partition, self._settings.lane_count)
        lane = self._lanes.get(number)
        if lane is None:
            lane = LaneAdmission(share(number, self._settings), self._settings, self._clock)
            self._lanes[number] = lane
        return lane
