"""The budget of a run: how many calls it may send, and what they may cost.

The budget is never exceeded: before a call is sent, the most that it can cost is reserved, which is
its request at one token per byte and the most tokens its answer may have; once it is over, what it
used takes the reservation's place. A call for which there is room only if those in flight turn out
cheaper than that waits for them, items in progress first. The first call that can't fit any more
ends the spending: it and all later ones are refused, and what is in flight finishes.

A budget is one run's. Where several processes make the calls it is divided over the lanes like
every limit (see ``transforms.llm.lanes``), so a lane that needs less than its share leaves some;
and a lane spends only what it has leased, so that who takes it over from a dead worker does not
spend that once more (see ``transforms.llm.leases``).
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections.abc import Mapping

from transforms.llm.admission import PendingCall
from transforms.llm.answers import Verdict
from transforms.llm.calls import CallClass
from transforms.llm.client import Reply
from transforms.llm.lanes import lane_of
from transforms.llm.leases import Amount, LaneLeases
from transforms.llm.prices import Price
from transforms.llm.settings import EngineSettings

#: Money is added up in whole millionths of a millionth of a US dollar.
_WHOLE = 1_000_000_000_000


class LaneBudget:
    """The budget of one lane; see ``transforms.llm.admission.Admission``.

    What a call cost is what the endpoint says it used. An error reply costs nothing, nor does a
    call that found no connection; one that was broken off, or whose reply does not say what it
    used, is charged with all that was reserved, for the endpoint may have done its work.

    Args:
        max_calls: requests that may be sent, repeated ones among them; None is no bound.
        max_cost: US dollars that they may cost; None is no bound.
        prices: of all models that are called, where there is ``max_cost``.
        folder: the run's work folder; None where no other process may have spent of the budget.
        lane: the lane's number.
    """

    def __init__(
        self,
        max_calls: int | None,
        max_cost: float | None,
        prices: Mapping[str, Price],
        folder: str | None = None,
        lane: int = 0,
    ) -> None:
        self._max_calls = max_calls
        self._max_cost = None if max_cost is None else round(max_cost * _WHOLE)
        self._prices = prices
        self._calls = self._spent = self._reserved = 0
        self._leases: LaneLeases | None = None
        if folder is not None:
            bounds = Amount(self._max_calls or 0, self._max_cost or 0)
            self._leases = LaneLeases(folder, lane, bounds)
        self._leased = self._of_others = Amount(0, 0)
        self._leasing: asyncio.Task[None] | None = None
        self._stopped = False
        self._order = itertools.count()
        self._waiting: list[tuple[int, int, int, asyncio.Future[bool]]] = []

    @property
    def calls(self) -> int:
        """Calls that were sent, or are about to be."""
        return self._calls

    @property
    def spent(self) -> float:
        """US dollars that the calls which are over have cost at most."""
        return self._spent / _WHOLE

    async def admit(self, call: PendingCall) -> CallClass | None:
        """Reserve the most that ``call`` can cost, or wait for others; see ``Admission``."""
        place: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        entry = (-call.progress, next(self._order), self._most(call), place)
        heapq.heappush(self._waiting, entry)
        self._serve()
        try:
            return None if await place else CallClass.BUDGET
        except asyncio.CancelledError:
            if place.done() and not place.cancelled() and place.result():
                self.withdraw(call)  # it was admitted in the moment of the cancellation
            raise

    def withdraw(self, call: PendingCall) -> None:
        """Give back what was reserved for ``call``, which was not sent; see ``Admission``."""
        self._calls -= 1
        self._reserved -= self._most(call)
        self._serve()

    def settle(self, call: PendingCall, reply: Reply | None, verdict: Verdict | None) -> None:
        """Put what ``call`` used in the place of what was reserved for it; see ``Admission``."""
        most = self._most(call)
        self._reserved -= most
        self._spent += self._used(call.model, most, reply, verdict)
        self._serve()

    def _serve(self) -> None:
        while self._waiting:
            _, _, most, place = self._waiting[0]
            if not place.done():
                self._stopped = self._stopped or not self._may_fit(most)
                if not self._stopped:
                    if not self._fits(most):
                        return  # until one in flight is over
                    if not self._is_leased(most):
                        self._lease(most)
                        return
                    self._calls += 1
                    self._reserved += most
                place.set_result(not self._stopped)
            heapq.heappop(self._waiting)

    def _may_fit(self, most: int) -> bool:
        """Whether there will be room at last if nothing in flight costs anything."""
        calls, money = self._of_others
        if self._max_calls is not None and calls + self._calls >= self._max_calls:
            return False
        return self._max_cost is None or money + self._spent + most <= self._max_cost

    def _fits(self, most: int) -> bool:
        needed = self._of_others.money + self._needed(most).money
        return self._max_cost is None or needed <= self._max_cost

    def _needed(self, most: int) -> Amount:
        """Return all that this process will have spent at most once a call is over."""
        calls = 0 if self._max_calls is None else self._calls + 1
        money = 0 if self._max_cost is None else self._spent + self._reserved + most
        return Amount(calls, money)

    def _is_leased(self, most: int) -> bool:
        needed = self._needed(most)
        leased = self._leased
        return self._leases is None or (
            needed.calls <= leased.calls and needed.money <= leased.money
        )

    def _lease(self, most: int) -> None:
        """Take a lease that a call fits into, and go on once it is written down."""
        if self._leasing is None or self._leasing.done():
            needed = self._needed(most)
            least = Amount(
                max(0, needed.calls - self._leased.calls),
                max(0, needed.money - self._leased.money),
            )
            self._leasing = asyncio.get_running_loop().create_task(self._take_lease(least))

    async def _take_lease(self, least: Amount) -> None:
        assert self._leases is not None  # noqa: S101 - nothing is to be leased without them
        try:
            self._of_others, lease = await asyncio.to_thread(self._leases.take, least)
        except OSError as error:
            while self._waiting:
                place = heapq.heappop(self._waiting)[3]
                if not place.done():
                    place.set_exception(error)
            return
        self._leased = Amount(self._leased.calls + lease.calls, self._leased.money + lease.money)
        self._leasing = None
        self._serve()

    def _most(self, call: PendingCall) -> int:
        return self._cost(call.model, call.size, call.completion_tokens, 0)

    def _used(self, model: str, most: int, reply: Reply | None, verdict: Verdict | None) -> int:
        if reply is None or verdict is None:
            return most
        if reply.fault is not None:
            return most if reply.reached else 0
        if reply.status >= 400:
            return 0
        if not verdict.metered:
            return most
        used = verdict.prompt_tokens, verdict.completion_tokens, verdict.cached_tokens
        return self._cost(model, *used)

    def _cost(self, model: str, prompt: int, completion: int, cached: int) -> int:
        if self._max_cost is None:
            return 0
        return round(self._prices[model].cost(prompt, completion, cached) * _WHOLE)


class Budgets:
    """The budget of one engine, over all its endpoints and lane by lane.

    See ``transforms.llm.admission.Admission``.
    """

    def __init__(self, settings: EngineSettings) -> None:
        self._lanes = [_share(lane, settings) for lane in range(settings.lane_count)]

    async def admit(self, call: PendingCall) -> CallClass | None:
        """Reserve the most that ``call`` can cost of its lane's budget; see ``Admission``."""
        return await self._lane(call).admit(call)

    def withdraw(self, call: PendingCall) -> None:
        """Give back what was reserved for ``call``; see ``Admission``."""
        self._lane(call).withdraw(call)

    def settle(self, call: PendingCall, reply: Reply | None, verdict: Verdict | None) -> None:
        """Tell the call's lane what it used; see ``Admission``."""
        self._lane(call).settle(call, reply, verdict)

    def _lane(self, call: PendingCall) -> LaneBudget:
        return self._lanes[lane_of(call.partition, len(self._lanes))]


def _share(lane: int, settings: EngineSettings) -> LaneBudget:
    lanes, calls, cost = settings.lane_count, settings.max_calls, settings.max_cost
    if calls is not None:
        whole, left = divmod(calls, lanes)
        calls = whole + (lane < left)
    cost = None if cost is None else cost / lanes
    return LaneBudget(calls, cost, settings.prices(), settings.work, lane)
