"""Admission: what every attempt passes before it is sent, and reports to when it is over.

Apart from retrying on purpose: a retry asks for admission like any other attempt. Limits and
budgets are admissions of their own, one behind the other in a chain; what they need to know is in
``PendingCall`` and in the outcome.
"""

from __future__ import annotations

from contextlib import ExitStack
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
        beside: the other calls of its item that wait or are in flight.
        size: bytes of the request.
        prompt_tokens: what its messages are counted or estimated at.
        completion_tokens: the most that its answer may have.
        model: the model that is called.
        samples: that it asks for.
    """

    key: str
    partition: int
    progress: int
    beside: int
    size: int
    prompt_tokens: int
    completion_tokens: int
    model: str
    samples: int = 1


class Admission(Protocol):
    """Decides when an attempt may be sent; used on the engine's event loop alone.

    What ``admit`` let through is either settled or withdrawn, once.
    """

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
    those before. The one that knows the moment of sending (limits by time) is the last.
    """

    def __init__(self, *links: Admission) -> None:
        self._links = links

    async def admit(self, call: PendingCall) -> CallClass | None:
        """Pass all admissions; see ``Admission``."""
        passed = 0
        refused: CallClass | None = None
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
        """Tell all admissions, also those behind one that fails at it; see ``Admission``."""
        with ExitStack() as stack:
            for link in reversed(self._links):
                stack.callback(link.settle, call, reply, verdict)
