"""Routes: which of a run's endpoints answers a prompt.

A route's endpoints share its items by weight: the item's key draws one of them, so that the same
item goes to the same endpoint on every run, and to one endpoint at all steps with the same shares.
Where that fails, others are asked in a fixed order.
"""

from __future__ import annotations

from dataclasses import dataclass

from transforms.keys import fraction_of
from transforms.llm.calls import Answer, CallClass

_SALT = "endpoint"

#: Failures that are the endpoint's own, for now: another one may well answer.
UNAVAILABLE = frozenset(
    {
        CallClass.RATE_LIMITED,
        CallClass.TIMEOUT,
        CallClass.SERVER,
        CallClass.AUTH,
        CallClass.BUDGET,
    }
)


@dataclass(frozen=True)
class Route:
    """The endpoints of one prompt, by their numbers in ``EngineSettings.endpoints``.

    Attributes:
        prompt: its id.
        shares: each endpoint with its weight.
        fallback: endpoints that are asked where the one that was drawn fails, in their order.
        fallback_on: the classes of a failure after which the next one is asked.
    """

    prompt: str
    shares: tuple[tuple[int, float], ...]
    fallback: tuple[int, ...] = ()
    fallback_on: frozenset[CallClass] = UNAVAILABLE

    def __post_init__(self) -> None:
        if not self.shares or any(weight <= 0 for _, weight in self.shares):
            raise ValueError("a route needs endpoints with positive shares")
        if CallClass.OK in self.fallback_on or CallClass.BATCH in self.fallback_on:
            raise ValueError("an answer, and one that a batch will bring, needs no other endpoint")

    def falls_back(self, answer: Answer) -> bool:
        """Return whether the next endpoint is to be asked: one forbids what another answers."""
        forbidden = answer.forbidden and CallClass.AUTH in self.fallback_on
        return forbidden or answer.call_class in self.fallback_on

    @property
    def endpoints(self) -> frozenset[int]:
        """All endpoints that may be asked."""
        return frozenset([*(number for number, _ in self.shares), *self.fallback])

    def order(self, key: str) -> tuple[int, ...]:
        """Return the endpoints for the item of ``key``, in the order in which they are asked."""
        first = self.shares[0][0] if len(self.shares) == 1 else self._drawn(key)
        return (first, *(number for number in self.fallback if number != first))

    def _drawn(self, key: str) -> int:
        drawn = fraction_of(key, _SALT) * sum(weight for _, weight in self.shares)
        for number, weight in self.shares:
            drawn -= weight
            if drawn < 0:
                return number
        return self.shares[-1][0]
