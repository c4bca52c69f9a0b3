"""How one call comes to its answer: cache, one flight per request, admission, retries."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple, Protocol

from tenacity import AsyncRetrying, RetryCallState, retry_if_result, stop_after_attempt
from tenacity.stop import stop_before_delay

from transforms.llm import statistics as counted
from transforms.llm.admission import Admission, PendingCall
from transforms.llm.answers import PAID, Verdict, classify, retry_after
from transforms.llm.cache import PartitionCache
from transforms.llm.calls import Answer, CallClass
from transforms.llm.client import Client, Reply
from transforms.llm.prompts import Prompt
from transforms.llm.replay import Miss
from transforms.llm.request import RequestForm, RequestForms
from transforms.llm.settings import EngineSettings
from transforms.llm.statistics import statistics

_RETRIED = frozenset({CallClass.RATE_LIMITED, CallClass.TIMEOUT, CallClass.SERVER})
_FIRST_WAIT, _LONGEST_WAIT = 0.5, 30.0
#: Of the tokens a prompt allows; an answer cut at 1 is asked for once more with 2 times as many.
_ROOM, _MORE_ROOM = 1, 2


class Outcome(NamedTuple):
    """The last reply to a request and what it amounts to; no reply when it was never sent."""

    reply: Reply | None
    verdict: Verdict
    attempts: int


class Calls(Protocol):
    """Brings the outcomes of requests."""

    async def outcome(
        self, key: str, body: bytes, prompt: Prompt, partition: int, progress: int
    ) -> tuple[Outcome, bool]:
        """Return the outcome of a request, and whether it was another's flight."""
        ...  # pragma: no cover - protocol


class EndpointCalls:
    """Makes calls on the engine's event loop, each identical request once at a time."""

    def __init__(self, settings: EngineSettings, client: Client, admission: Admission) -> None:
        self._client = client
        self._admission = admission
        self._flights: dict[str, asyncio.Future[Outcome | None]] = {}
        self._stop = stop_after_attempt(settings.retries + 1) | stop_before_delay(
            settings.retry_seconds
        )
        self._jitter = random.Random()

    async def close(self) -> None:
        """Close the client's connections."""
        await self._client.close()

    async def outcome(
        self, key: str, body: bytes, prompt: Prompt, partition: int, progress: int
    ) -> tuple[Outcome, bool]:
        """Return the outcome of a request, and whether it was another's flight."""
        while (flight := self._flights.get(key)) is not None:
            shared = await asyncio.shield(flight)
            if shared is not None:
                return shared, True
            # Whoever was making the call was broken off: make it here.
        flight = self._flights[key] = asyncio.get_running_loop().create_future()
        outcome = None
        try:
            outcome = await self._retried(body, prompt, PendingCall(partition, progress, len(body)))
            return outcome, False
        finally:
            del self._flights[key]
            flight.set_result(outcome)

    async def _retried(self, body: bytes, prompt: Prompt, call: PendingCall) -> Outcome:
        attempts = 0

        async def attempt() -> Outcome:
            nonlocal attempts
            refused = await self._admission.admit(call)
            if refused is not None:
                detail = "not sent: an earlier call showed that none can succeed"
                return Outcome(None, Verdict(refused, detail=detail), attempts)
            attempts += 1
            reply, verdict = await self._sent(body, prompt, call)
            return Outcome(reply, verdict, attempts)

        outcome = await attempt()
        if outcome.verdict.call_class in _RETRIED:
            outcome = await self._again(attempt, outcome)
        return outcome

    async def _again(self, attempt: Callable[[], Awaitable[Outcome]], failed: Outcome) -> Outcome:
        """Return the outcome of further attempts after a ``failed`` one.

        tenacity counts that one as its first; it comes in only here because it would cost every
        call what parsing its answer costs, and nearly none needs it.
        """
        known: Outcome | None = failed

        async def next_attempt() -> Outcome:
            nonlocal known
            outcome, known = known, None
            return outcome or await attempt()

        retrying = AsyncRetrying(
            retry=retry_if_result(lambda outcome: outcome.verdict.call_class in _RETRIED),
            stop=self._stop,
            wait=self._wait,
            sleep=asyncio.sleep,
            retry_error_callback=lambda state: state.outcome and state.outcome.result(),
        )
        outcome: Outcome = await retrying(next_attempt)
        return outcome

    async def _sent(self, body: bytes, prompt: Prompt, call: PendingCall) -> tuple[Reply, Verdict]:
        reply = verdict = None
        statistics.flight(+1)
        try:
            reply = await self._client.send(body)
            if reply.fault is not None:
                verdict = Verdict(reply.fault, detail=reply.detail)
            else:
                verdict = classify(reply.status, reply.body, prompt.validate)
            return reply, verdict
        finally:
            statistics.flight(-1)
            self._admission.settle(call, reply, verdict)

    def _wait(self, state: RetryCallState) -> float:
        """Return seconds before the next attempt: what the endpoint asks for, else ever longer."""
        assert state.outcome is not None  # noqa: S101 - there is one after an attempt
        outcome: Outcome = state.outcome.result()
        asked = retry_after(outcome.reply.headers) if outcome.reply else None
        if asked is not None:
            # Never earlier than asked, and not all at the same moment.
            return asked + self._jitter.uniform(0.0, 1.0)
        longest = min(_LONGEST_WAIT, _FIRST_WAIT * 2**state.attempt_number)
        return self._jitter.uniform(_FIRST_WAIT, longest)


class ItemCaller:
    """The ``Caller`` of one item: answers from the cache, else (with ``calls``) by a call."""

    def __init__(
        self,
        forms: RequestForms,
        partition: int,
        cache: PartitionCache,
        counts: Counter[str],
        calls: Calls | None,
    ) -> None:
        self._forms, self._cache, self._counts = forms, cache, counts
        self._partition, self._calls = partition, calls
        self._progress = 0

    async def __call__(
        self, prompt: Prompt, variables: Mapping[str, Any], *, sample: int = 0
    ) -> Answer:
        """Return the answer to ``prompt`` filled with ``variables``; see ``Caller``."""
        answer = await self._answer(self._forms.get(prompt, _ROOM), prompt, variables, sample)
        if answer.call_class is CallClass.TRUNCATED:
            form = self._forms.get(prompt, _MORE_ROOM)
            answer = await self._answer(form, prompt, variables, sample)
        self._progress += 1
        return answer

    async def _answer(
        self, form: RequestForm, prompt: Prompt, variables: Mapping[str, Any], sample: int
    ) -> Answer:
        question = form.question(variables)
        key = form.key(question, sample)
        cached = self._cache.get(key)
        attempts = 0
        if cached is not None:
            status, body = cached
            verdict = classify(status, body, prompt.validate)
            self._count({counted.CACHED: 1, _class_name(verdict): 1})
        elif self._calls is None:
            await Miss()
            raise AssertionError("an item goes on after a miss only in the event loop")
        else:
            outcome, shared = await self._calls.outcome(
                key, form.body(question), prompt, self._partition, self._progress
            )
            verdict = outcome.verdict
            attempts = 0 if shared else outcome.attempts
            self._keep(key, prompt, outcome)
            self._count(_counts(outcome, shared=shared))
        return Answer(verdict.call_class, key, verdict.data, verdict.detail, attempts)

    def _keep(self, key: str, prompt: Prompt, outcome: Outcome) -> None:
        # A shared flight may have been another partition's.
        paid = outcome.reply is not None and outcome.verdict.call_class in PAID
        if paid and key not in self._cache:
            assert outcome.reply is not None  # noqa: S101 - tells the type checker
            self._cache.put(key, prompt.id, outcome.reply.status, outcome.reply.body)

    def _count(self, counts: Mapping[str, int]) -> None:
        for name, number in counts.items():
            self._counts[name] += number
        if self._calls is not None:
            statistics.add(counts)  # while replaying they are added once at the end


def _counts(outcome: Outcome, *, shared: bool) -> dict[str, int]:
    name = _class_name(outcome.verdict)
    if shared:
        return {counted.SHARED: 1, name: 1}
    return {
        counted.SENT: outcome.attempts,
        counted.RETRIED: max(0, outcome.attempts - 1),
        counted.PROMPT_TOKENS: outcome.verdict.prompt_tokens,
        counted.COMPLETION_TOKENS: outcome.verdict.completion_tokens,
        name: 1,
    }


_CLASS_NAMES = {each: f"class_{each.value}" for each in CallClass}


def _class_name(verdict: Verdict) -> str:
    return _CLASS_NAMES[verdict.call_class]
