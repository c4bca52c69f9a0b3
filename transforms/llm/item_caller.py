"""How the calls of one item come to their answers: from the cache, else by a call."""

from __future__ import annotations

import copy
import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from transforms.llm import statistics as counted
from transforms.llm.admission import PendingCall
from transforms.llm.answers import PAID, Verdict, classify, content_of
from transforms.llm.cache import PartitionCache
from transforms.llm.calling import Calls
from transforms.llm.calls import Answer, CallClass
from transforms.llm.latencies import bucket
from transforms.llm.prompts import Prompt
from transforms.llm.replay import Miss, gather, replay
from transforms.llm.request import RequestForm, RequestForms
from transforms.llm.retrying import Outcome
from transforms.llm.samples import split_choices
from transforms.llm.statistics import statistics

#: Of the tokens a prompt allows; an answer cut at 1 is asked for once more with 2 times as many.
_ROOM, _MORE_ROOM = 1, 2
_MALFORMED = frozenset({CallClass.BAD_JSON, CallClass.SCHEMA})


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
        #: The answers that the item already has.
        self.progress = 0
        self._beside = 0
        self._delivered: dict[str, Outcome] = {}

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
        self.progress += 1
        return answer

    async def samples(
        self, prompt: Prompt, variables: Mapping[str, Any], samples: Sequence[int]
    ) -> list[Answer]:
        """Return independent answers to the same request; see ``Caller``."""
        most = self._forms.samples_per_call
        if most > 1 and self._calls is not None:
            form = self._forms.get(prompt, _ROOM)
            question = form.question(variables)
            keys = [form.key(question, each) for each in samples]
            missing = [key for key in dict.fromkeys(keys) if key not in self._cache]
            groups = (missing[start : start + most] for start in range(0, len(missing), most))
            await gather(*(self._ask_together(form, prompt, question, each) for each in groups))
        return await gather(*(self(prompt, variables, sample=each) for each in samples))

    async def _ask_together(
        self, form: RequestForm, prompt: Prompt, question: bytes, keys: Sequence[str]
    ) -> None:
        """Have the samples with these keys delivered by one call, and again those it leaves out.

        A last one that is missing is asked for like any other call, and so are all where a call
        brought none: the next one would be paid for nothing, too.
        """
        while len(keys) > 1:
            outcome, shared = await self._called(form, prompt, keys, question)
            self._count(form.label, {} if shared else _call_counts(outcome, len(keys)))
            answered = self._by_sample(prompt, keys, outcome)
            for key, one in answered.items():
                if key not in self._cache:  # of two answers the one that is kept counts
                    self._keep(key, prompt, one)
                    self._delivered[key] = one
            if not answered:
                break
            keys = [key for key in keys if key not in answered]

    def _by_sample(
        self, prompt: Prompt, keys: Sequence[str], outcome: Outcome
    ) -> dict[str, Outcome]:
        """Return what a call for several samples came to for each; fewer choices leave some out."""
        reply = outcome.reply
        bodies = [] if reply is None else split_choices(reply.body)
        if reply is None or outcome.verdict.call_class not in PAID or bodies == []:
            return dict.fromkeys(keys, outcome)
        answered = {}
        for key, body in zip(keys, bodies or [], strict=False):
            verdict = classify(reply.status, body, prompt.validate)
            if verdict.call_class in PAID:
                answered[key] = outcome._replace(reply=reply._replace(body=body), verdict=verdict)
        return answered

    def request(self, prompt: Prompt, variables: Mapping[str, Any], sample: int) -> str:
        """Return the key of the request that a call begins with."""
        form = self._forms.get(prompt, _ROOM)
        return form.key(form.question(variables), sample)

    def known(self, prompt: Prompt, variables: Mapping[str, Any], sample: int) -> Answer | None:
        """Return the answer that the cache alone gives, without a call; None where it has none."""
        alone = copy.copy(self)
        alone._calls, alone._counts, alone._delivered = None, Counter(), {}
        done, answer = replay(alone(prompt, variables, sample=sample))
        if done:
            self._add(alone._counts)
        return answer

    async def _answer(
        self, form: RequestForm, prompt: Prompt, question: bytes, sample: int
    ) -> tuple[Answer, str]:
        """Return the answer to a question, and the text that it is where it is malformed."""
        key = form.key(question, sample)
        delivered = self._delivered.pop(key, None) if self._delivered else None
        cached = self._cache.get(key) if delivered is None else None
        attempts = 0
        if cached is not None:
            status, body = cached
            verdict = classify(status, body, prompt.validate, kept=True)
            self._hit(form, question, verdict)
        elif delivered is not None:
            verdict, attempts = delivered.verdict, delivered.attempts
            body = delivered.reply.body if delivered.reply is not None else ""
            self._count(form.label, {_class_name(verdict): 1})
        elif self._calls is None:
            await Miss()
            raise AssertionError("an item goes on after a miss only in the event loop")
        else:
            outcome, shared = await self._called(form, prompt, [key], question)
            verdict = outcome.verdict
            body = outcome.reply.body if outcome.reply is not None else ""
            attempts = 0 if shared else outcome.attempts
            self._keep(key, prompt, outcome)
            self._count(form.label, _counts(outcome, shared=shared))
        answer = Answer(
            verdict.call_class,
            key,
            verdict.data,
            verdict.detail,
            attempts,
            form.model,
            verdict.is_forbidden,
        )
        return answer, content_of(body) if verdict.call_class in _MALFORMED else ""

    async def _called(
        self, form: RequestForm, prompt: Prompt, keys: Sequence[str], question: bytes
    ) -> tuple[Outcome, bool]:
        assert self._calls is not None  # noqa: S101 - tells the type checker
        if self._cache.is_behind:
            await self._cache.caught_up()
        body = form.body(question, len(keys))
        call = PendingCall(
            key=keys[0] if len(keys) == 1 else _together(keys),
            partition=self._partition,
            progress=self.progress,
            beside=self._beside,
            size=len(body),
            prompt_tokens=form.prompt_tokens(question),
            completion_tokens=form.completion_tokens * len(keys),
            model=form.model,
            samples=len(keys),
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
        by_prompt = {counted.of_prompt(label, name): counts[name] for name in counts}
        self._add({**counts, **by_prompt})

    def _add(self, counts: Mapping[str, int]) -> None:
        for name, number in counts.items():
            self._counts[name] += number
        if self._calls is not None:  # while replaying they are added once at the end
            statistics.add(counts)


def _together(keys: Sequence[str]) -> str:
    """Return the key of a call for several samples: only those with all of them share it."""
    return hashlib.sha256(" ".join(keys).encode()).hexdigest()


def _counts(outcome: Outcome, *, shared: bool) -> dict[str, int]:
    name = _class_name(outcome.verdict)
    return {**({counted.SHARED: 1} if shared else _call_counts(outcome)), name: 1}


def _call_counts(outcome: Outcome, samples: int = 1) -> dict[str, int]:
    latency = {} if outcome.reply is None else {bucket(outcome.seconds): 1}
    prompt, completion, cached = outcome.tokens
    return {
        **latency,
        counted.SENT: outcome.attempts,
        counted.RETRIED: max(0, outcome.attempts - 1),
        counted.PROMPT_TOKENS: prompt,
        counted.COMPLETION_TOKENS: completion,
        counted.CACHED_TOKENS: cached,
        **({counted.FURTHER_SAMPLES: samples - 1} if samples > 1 else {}),
    }


_CLASS_NAMES = {each: f"class_{each.value}" for each in CallClass}


def _class_name(verdict: Verdict) -> str:
    return _CLASS_NAMES[verdict.call_class]
