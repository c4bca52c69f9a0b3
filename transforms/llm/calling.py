"""How one call comes to its answer: cache, one flight per request, admission, retries."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Mapping
from typing import Any, Protocol

from transforms.llm import statistics as counted
from transforms.llm.admission import Admission, PendingCall
from transforms.llm.answers import PAID, Verdict, classify, content_of
from transforms.llm.cache import PartitionCache
from transforms.llm.calls import Answer, CallClass
from transforms.llm.client import Client, Reply
from transforms.llm.latencies import bucket
from transforms.llm.prompts import Prompt
from transforms.llm.replay import Miss
from transforms.llm.request import RequestForm, RequestForms
from transforms.llm.retrying import Outcome, Retrying
from transforms.llm.settings import EngineSettings
from transforms.llm.statistics import statistics

#: Of the tokens a prompt allows; an answer cut at 1 is asked for once more with 2 times as many.
_ROOM, _MORE_ROOM = 1, 2
_MALFORMED = frozenset({CallClass.BAD_JSON, CallClass.SCHEMA})
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
    """Makes calls on the engine's event loop, each identical request once at a time."""

    def __init__(self, settings: EngineSettings, client: Client, admission: Admission) -> None:
        self._client = client
        self._admission = admission
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

        async def attempt() -> Outcome:
            nonlocal attempts
            refused = await self._admission.admit(call)
            if refused is not None:
                detail = _UNSENT.get(refused, _UNSENT_OTHERWISE)
                return Outcome(None, Verdict(refused, detail=detail), attempts)
            attempts += 1
            sent = time.monotonic()
            reply, verdict = await self._sent(body, prompt, call)
            return Outcome(reply, verdict, attempts, time.monotonic() - sent)

        return await self._retrying(attempt)

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
        self._progress = self._beside = 0

    async def __call__(
        self, prompt: Prompt, variables: Mapping[str, Any], *, sample: int = 0
    ) -> Answer:
        """Return the answer to ``prompt`` filled with ``variables``; see ``Caller``."""
        form = self._forms.get(prompt, _ROOM)
        question = form.question(variables)
        answer, content = await self._answer(form, prompt, question, sample)
        if answer.call_class is CallClass.TRUNCATED:
            form = self._forms.get(prompt, _MORE_ROOM)
            answer, content = await self._answer(form, prompt, question, sample)
        if answer.call_class in _MALFORMED:
            correction = form.correction(question, content, answer.detail or "")
            corrected, _ = await self._answer(form, prompt, correction, sample)
            # What only shows that asking again was of no use leaves the answer as it was.
            if corrected.ok or corrected.call_class.transient:
                answer = corrected
        self._progress += 1
        return answer

    async def _answer(
        self, form: RequestForm, prompt: Prompt, question: bytes, sample: int
    ) -> tuple[Answer, str]:
        """Return the answer to a question, and the text that it is where it is malformed."""
        key = form.key(question, sample)
        cached = self._cache.get(key)
        attempts = 0
        if cached is not None:
            status, body = cached
            verdict = classify(status, body, prompt.validate)
            self._hit(form, question, verdict)
        elif self._calls is None:
            await Miss()
            raise AssertionError("an item goes on after a miss only in the event loop")
        else:
            outcome, shared = await self._called(form, prompt, key, question)
            verdict = outcome.verdict
            body = outcome.reply.body if outcome.reply is not None else ""
            attempts = 0 if shared else outcome.attempts
            self._keep(key, prompt, outcome)
            self._count(form.label, _counts(outcome, shared=shared))
        answer = Answer(verdict.call_class, key, verdict.data, verdict.detail, attempts)
        return answer, content_of(body) if verdict.call_class in _MALFORMED else ""

    async def _called(
        self, form: RequestForm, prompt: Prompt, key: str, question: bytes
    ) -> tuple[Outcome, bool]:
        assert self._calls is not None  # noqa: S101 - tells the type checker
        body = form.body(question)
        call = PendingCall(
            key=key,
            partition=self._partition,
            progress=self._progress,
            beside=self._beside,
            size=len(body),
            prompt_tokens=form.prompt_tokens(question),
            completion_tokens=form.completion_tokens,
            model=form.model,
        )
        self._beside += 1
        try:
            return await self._calls.outcome(body, prompt, call)
        finally:
            self._beside -= 1

    def _hit(self, form: RequestForm, question: bytes, verdict: Verdict) -> None:
        """Take note of an answer from the cache."""
        self._count(form.label, {counted.CACHED: 1, _class_name(verdict): 1})

    def _keep(self, key: str, prompt: Prompt, outcome: Outcome) -> None:
        # A shared flight may have been another partition's.
        paid = outcome.reply is not None and outcome.verdict.call_class in PAID
        if paid and key not in self._cache:
            assert outcome.reply is not None  # noqa: S101 - tells the type checker
            self._cache.put(key, prompt.id, outcome.reply.status, outcome.reply.body)

    def _count(self, label: str, counts: Mapping[str, int]) -> None:
        for name, number in counts.items():
            self._counts[name] += number
            self._counts[counted.of_prompt(label, name)] += number
        if self._calls is not None:  # while replaying they are added once at the end
            by_prompt = {counted.of_prompt(label, name): counts[name] for name in counts}
            statistics.add({**counts, **by_prompt})


def _counts(outcome: Outcome, *, shared: bool) -> dict[str, int]:
    name = _class_name(outcome.verdict)
    if shared:
        return {counted.SHARED: 1, name: 1}
    latency = {} if outcome.reply is None else {bucket(outcome.seconds): 1}
    return {
        **latency,
        counted.SENT: outcome.attempts,
        counted.RETRIED: max(0, outcome.attempts - 1),
        counted.PROMPT_TOKENS: outcome.verdict.prompt_tokens,
        counted.COMPLETION_TOKENS: outcome.verdict.completion_tokens,
        counted.CACHED_TOKENS: outcome.verdict.cached_tokens,
        name: 1,
    }


_CLASS_NAMES = {each: f"class_{each.value}" for each in CallClass}


def _class_name(verdict: Verdict) -> str:
    return _CLASS_NAMES[verdict.call_class]
