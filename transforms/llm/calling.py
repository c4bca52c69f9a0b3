"""How one call comes to its answer: cache, one flight per request, admission, retries."""

from __future__ import annotations

import asyncio
import time
from typing import Protocol

from transforms.llm.admission import Admission, PendingCall
from transforms.llm.answers import Verdict, classify
from transforms.llm.calls import CallClass
from transforms.llm.client import Client, Reply
from transforms.llm.model_access import ModelAccess
from transforms.llm.prompts import Prompt
from transforms.llm.retrying import Outcome, Retrying
from transforms.llm.settings import EngineSettings
from transforms.llm.statistics import statistics

_UNSENT = {
    CallClass.RATE_LIMITED: (
        "not sent: the endpoint asks for a longer pause than a run waits, or one call needs more "
        "tokens than its share of a minute's has"
    ),
    CallClass.BUDGET: "not sent: what may be spent is spent",
}
_UNSENT_OTHERWISE = "not sent: an earlier call showed that none can succeed"


class Calls(Protocol):
    """Brings the outcomes of requests."""

    async def outcome(self, body: bytes, prompt: Prompt, call: PendingCall) -> tuple[Outcome, bool]:
        """Return the outcome of a request, and whether it was another's flight."""
        ...  # pragma: no cover - protocol


class EndpointCalls:
    """Makes calls of one model on the engine's event loop, each request once at a time.

    Where the endpoint refuses the model, its later calls end unsent.
    """

    def __init__(self, settings: EngineSettings, client: Client, admission: Admission) -> None:
        self._client = client
        self._admission = admission
        self._access = ModelAccess()
        self._flights: dict[str, asyncio.Future[Outcome | None]] = {}
        self._retrying = Retrying(settings.retries, settings.retry_seconds)

    async def close(self) -> None:
        """Close the client's connections."""
        await self._client.close()

    async def outcome(self, body: bytes, prompt: Prompt, call: PendingCall) -> tuple[Outcome, bool]:
        """Return the outcome of a request, and whether it was another's flight."""
        key = call.key
        while (flight := self._flights.get(key)) is not None:
            shared = await asyncio.shield(flight)
            if shared is not None:
                return shared, True
            # Whoever was making the call was broken off: make it here.
        flight = self._flights[key] = asyncio.get_running_loop().create_future()
        outcome = None
        try:
            self._client.open()
            outcome = await self._retried(body, prompt, call)
            return outcome, False
        finally:
            del self._flights[key]
            flight.set_result(outcome)

    async def _retried(self, body: bytes, prompt: Prompt, call: PendingCall) -> Outcome:
        attempts = 0
        earlier = 0, 0, 0

        async def attempt() -> Outcome:
            nonlocal attempts, earlier
            refused = await self._admitted(call)
            if refused is not None:
                detail = _UNSENT.get(refused, _UNSENT_OTHERWISE)
                verdict = Verdict(refused, detail=detail)
                return Outcome(None, verdict, attempts, earlier=earlier)
            attempts += 1
            sent = time.monotonic()
            reply, verdict = await self._sent(body, prompt, call)
            outcome = Outcome(reply, verdict, attempts, time.monotonic() - sent, earlier)
            if verdict.prompt_tokens or verdict.completion_tokens:
                earlier = outcome.tokens
            return outcome

        return await self._retrying(attempt)

    async def _admitted(self, call: PendingCall) -> CallClass | None:
        refused = self._access.refused
        if refused is None:
            refused = await self._admission.admit(call)
            if refused is None and self._access.refused is not None:  # while it waited
                self._admission.withdraw(call)
                refused = self._access.refused
        return refused

    async def _sent(self, body: bytes, prompt: Prompt, call: PendingCall) -> tuple[Reply, Verdict]:
        reply = verdict = None
        statistics.flight(+1)
        try:
            reply = await self._client.send(body)
            if reply.fault is not None:
                verdict = Verdict(reply.fault, detail=reply.detail)
            else:
                verdict = self._access.judged(classify(reply.status, reply.body, prompt.validate))
            return reply, verdict
        finally:
            statistics.flight(-1)
            self._admission.settle(call, reply, verdict)
