"""Admission: what every attempt passes before it is sent, and reports to when it is over.

Apart from retrying on purpose: a retry asks for admission like any other attempt. Rates and
budgets are further admissions; what they need to know is in ``PendingCall`` and in the outcome.
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
from typing import NamedTuple, Protocol

from transforms.llm.answers import Verdict
from transforms.llm.calls import CallClass
from transforms.llm.client import Reply


class PendingCall(NamedTuple):
    """One attempt that wants to be sent.

    Attributes:
        key: the request's key; of the calls of one engine no two have the same at a time.
        partition: the partition whose item makes the call.
        progress: the answers its item already has.
        size: bytes of the request.
        completion_tokens: the most that its answer may have.
    """

    key: str
    partition: int
    progress: int
    size: int
    completion_tokens: int


class Admission(Protocol):
    """Decides when an attempt may be sent; used on the engine's event loop alone."""

    async def admit(self, call: PendingCall) -> CallClass | None:
        """Wait until ``call`` may be sent and return None, or the class it ends in unsent."""
        ...  # pragma: no cover - protocol

    def withdraw(self, call: PendingCall) -> None:
        """Give back what an admitted ``call`` took: it was never sent."""
        ...  # pragma: no cover - protocol

    def settle(self, call: PendingCall, reply: Reply | None, verdict: Verdict | None) -> None:
        """Take note that a sent ``call`` is over; without a reply it was broken off."""
        ...  # pragma: no cover - protocol


class AdmissionChain:
    """Several admissions as one: a call passes them in order and is sent when all let it through.

    Whoever is refused by one, or broken off while it waits for one, gives back what it took from
    those before.
    """

    def __init__(self, *links: Admission) -> None:
        self._links = links

    async def admit(self, call: PendingCall) -> CallClass | None:
        """Pass all admissions; see ``Admission``."""
        passed = 0
        try:
            for link in self._links:
                refused = await link.admit(call)
                if refused is not None:
                    return refused
                passed += 1
        finally:
            if passed < len(self._links):
                for link in self._links[:passed]:
                    link.withdraw(call)
        return None

    def withdraw(self, call: PendingCall) -> None:
        """Give back what all admissions let through; see ``Admission``."""
        for link in self._links:
            link.withdraw(call)

    def settle(self, call: PendingCall, reply: Reply | None, verdict: Verdict | None) -> None:
        """Tell all admissions; see ``Admission``."""
        for link in self._links:
            link.settle(call, reply, verdict)


#: After one of these no further call can do better in this run.
_FINAL = frozenset({CallClass.AUTH, CallClass.BUDGET})


class InFlightAdmission:
    """Bounds the calls in flight; of those that wait, items in progress go before new ones.

    A rejected key, an unknown model or a spent quota ends all later calls unsent.
    """

    def __init__(self, limit: int) -> None:
        self._free = limit
        self._stopped: CallClass | None = None
        self._order = itertools.count()
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []

    async def admit(self, call: PendingCall) -> CallClass | None:
        """Wait for a place in flight; see ``Admission``."""
        if self._stopped is None and not self._free:
            place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            heapq.heappush(self._waiting, (-call.progress, next(self._order), place))
            try:
                await place
            except asyncio.CancelledError:
                if not place.cancelled():
                    self._pass_on()  # a place was given in the moment of the cancellation
                raise
        elif self._stopped is None:
            self._free -= 1
        if self._stopped is not None:
            return self._stopped
        return None

    def settle(self, call: PendingCall, reply: Reply | None, verdict: Verdict | None) -> None:
        """Give the place to the next; see ``Admission``."""
        if verdict is not None and verdict.call_class in _FINAL:
            self._stopped = verdict.call_class
            while self._waiting:
                place = heapq.heappop(self._waiting)[2]
                if not place.done():
                    place.set_result(None)
        self._pass_on()

    def withdraw(self, call: PendingCall) -> None:
        """Give the place to the next; see ``Admission``."""
        self._pass_on()

    def _pass_on(self) -> None:
        while self._waiting:
            place = heapq.heappop(self._waiting)[2]
            if not place.done():
                place.set_result(None)
                return
        self._free += 1
