"""A rehearsal: the calls that work would make, walked through without making one.

The work is the same coroutine that makes the calls. Answers that are in the cache are the real
ones; in the place of the others stand typical ones, so that the calls that depend on them can be
rendered and counted: an answer to the same prompt from the cache, else one of the prompt's own
examples, else one made up from its schema. All calls are taken to succeed at the first attempt.

What is counted adds up over partitions in any order, so the same inputs and the same cache give the
same estimate (``transforms.llm.estimates``) on every runner.
"""

from __future__ import annotations

import functools
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import apache_beam as beam
from apache_beam.metrics import Metrics

from transforms.llm.admission import PendingCall
from transforms.llm.answers import Verdict
from transforms.llm.cache import PartitionCache
from transforms.llm.calls import CallClass
from transforms.llm.item_caller import ItemCaller
from transforms.llm.layers import layered_cache
from transforms.llm.prompts import Prompt
from transforms.llm.replay import replay
from transforms.llm.request import RequestForm, RequestForms
from transforms.llm.retrying import Outcome
from transforms.llm.routing import Routing
from transforms.llm.settings import EngineSettings
from transforms.llm.shared_cache import SharedCache
from transforms.llm.statistics import of_prompt
from transforms.llm.streaming import NAMESPACE, PartitionWork
from transforms.llm.tokens import (
    TOKENS_BEFORE_ANSWER,
    TOKENS_PER_MESSAGE,
    Calibration,
    token_counter,
)
from transforms.llm.typical import TypicalAnswers

#: What is counted of cached answers whose usage is known, see ``Calibration``.
OBSERVED = "observed_"
OBSERVED_COMPLETION = f"{OBSERVED}completion"
#: How many answers were taken from where, see ``TypicalAnswers``.
TYPICAL = "typical_"

#: Of the endpoint that reads the answer's schema as a part of the prompt; others, which hold the
#: answer to it while it is written, do not.
_READS_SCHEMA = "api.openai.com"


class RequestTokens:
    """Counts the tokens of whole requests; what many of them have in common is counted once."""

    def __init__(self, settings: EngineSettings) -> None:
        self.count = token_counter(settings.model).count
        self._again = functools.lru_cache(maxsize=4096)(self.count)
        self._reads_schema = _READS_SCHEMA in settings.endpoint

    def of_request(self, body: bytes) -> int:
        """Return the tokens that the endpoint reads of a request."""
        request = json.loads(body)
        *before, last = (message["content"] for message in request["messages"])
        tokens = sum(map(self._again, before)) + self.count(last)
        tokens += TOKENS_PER_MESSAGE * (len(before) + 1) + TOKENS_BEFORE_ANSWER
        if self._reads_schema and "response_format" in request:
            tokens += self._again(json.dumps(request["response_format"], separators=(",", ":")))
        return tokens


class RehearsedCalls:
    """Plays the endpoint for the items of one partition."""

    def __init__(
        self, tokens: RequestTokens, answers: TypicalAnswers, counts: Counter[str]
    ) -> None:
        self._tokens, self._answers, self._counts = tokens, answers, counts
        self._asked: set[str] = set()

    async def outcome(self, body: bytes, prompt: Prompt, call: PendingCall) -> tuple[Outcome, bool]:
        """Return a typical answer with its tokens, and whether it was asked for before."""
        question = str(json.loads(body)["messages"][-1]["content"])
        answer = self._answers.answer(prompt, call.key, question)
        if call.key in self._asked:
            return Outcome(None, Verdict(CallClass.OK, answer.data), 0), True
        self._asked.add(call.key)
        self._counts[f"{TYPICAL}{answer.origin}"] += call.samples
        sent, received = self._tokens.of_request(body), self._tokens.count(answer.text)
        tokens = sent, received * call.samples
        return Outcome(None, Verdict(CallClass.OK, answer.data, None, *tokens), 1), False

    def sample(self, prompt: Prompt, key: str) -> Mapping[str, Any]:
        """Return the typical answer to one sample of a request."""
        return self._answers.answer(prompt, key).data


class RehearsedCaller(ItemCaller):
    """The caller of one item that calls nobody; it learns from the answers that are cached."""

    def __init__(
        self,
        forms: RequestForms,
        partition: int,
        cache: PartitionCache,
        counts: Counter[str],
        calls: RehearsedCalls,
        tokens: RequestTokens,
    ) -> None:
        super().__init__(forms, partition, cache, counts, calls)
        self._rehearsed, self._tokens = calls, tokens

    def _by_sample(
        self, prompt: Prompt, keys: Sequence[str], outcome: Outcome
    ) -> dict[str, Outcome]:
        return {
            key: outcome._replace(
                verdict=outcome.verdict._replace(data=self._rehearsed.sample(prompt, key))
            )
            for key in keys
        }

    def _hit(self, form: RequestForm, question: bytes, verdict: Verdict) -> None:
        super()._hit(form, question, verdict)
        if not verdict.prompt_tokens:
            return
        observed = Calibration()
        observed.observe(self._tokens.of_request(form.body(question)), verdict.prompt_tokens)
        for name, number in vars(observed).items():
            self._counts[of_prompt(form.label, OBSERVED + name)] += number
        self._counts[of_prompt(form.label, OBSERVED_COMPLETION)] += verdict.completion_tokens

    def _count(self, label: str, counts: Mapping[str, int]) -> None:
        self._add({of_prompt(label, name): number for name, number in counts.items()})

    def _add(self, counts: Mapping[str, int]) -> None:
        for name, number in counts.items():
            self._counts[name] += number


class RehearsePartitions(beam.DoFn):  # type: ignore[misc]
    """Partitions ``(number, frames)`` to nothing: what their calls come to is in counters."""

    def __init__(self, settings: EngineSettings, work: PartitionWork[Any, Any, Any]) -> None:
        super().__init__()
        self._settings, self._work = settings, work
        self._tokens: list[RequestTokens] = []

    def setup(self) -> None:
        """Find the tokenizers, and answers to be typical."""
        self._routing = Routing(self._settings)
        self._tokens = [RequestTokens(each) for each in self._settings.endpoints]
        own = SharedCache(self._settings.cache, self._settings.partitions)
        self._answers = TypicalAnswers([own, *self._settings.shared_caches])

    def process(self, element: tuple[int, Any]) -> Iterator[Any]:
        """Walk through the work of a partition."""
        for name, count in sorted(self.rehearse(*element).items()):
            Metrics.counter(NAMESPACE, name).inc(count)
        yield from ()

    def rehearse(self, number: int, frames: Any) -> Counter[str]:
        """Return the counts of a partition's calls, and of where their answers are from.

        Raises:
            Exception: whatever the work raises.
        """
        assert self._tokens, "setup comes first"  # noqa: S101
        cache = layered_cache(self._settings, number)
        cache.load()
        counts: Counter[str] = Counter()
        calls = [RehearsedCalls(each, self._answers, counts) for each in self._tokens]

        def endpoint(one: int, forms: RequestForms) -> RehearsedCaller:
            return RehearsedCaller(forms, number, cache, counts, calls[one], self._tokens[one])

        for item in self._work.items((number, frames)):
            key = functools.partial(self._work.key, item)
            done, _ = replay(self._work.work(item, self._routing.caller(number, key, endpoint)))
            if not done:
                raise RuntimeError("work that waits for something else than calls")
        return counts
