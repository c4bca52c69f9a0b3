"""Which failed attempts are made again, how often, and after how long.

The class of the failure decides. Waits grow with each attempt and are drawn at random, so that
calls that failed together don't come back together; what the endpoint asks for is waited for.
Every attempt asks for admission anew, so a retry obeys the limits as any other call.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import NamedTuple

from tenacity import AsyncRetrying, RetryCallState
from tenacity.stop import stop_before_delay

from transforms.llm.answers import Verdict, retry_after
from transforms.llm.calls import CallClass
from transforms.llm.client import Reply


class Outcome(NamedTuple):
    """The last reply to a request and what it amounts to; no reply when it was never sent.

    ``seconds`` is how long that reply took; ``earlier`` are the tokens of prompts and answers, and
    the cached ones, that replies before it used.
    """

    reply: Reply | None
    verdict: Verdict
    attempts: int
    seconds: float = 0.0
    earlier: tuple[int, int, int] = (0, 0, 0)

    @property
    def tokens(self) -> tuple[int, int, int]:
        """The tokens of prompts and answers, and the cached ones, that all replies used."""
        prompt, completion, cached = self.earlier
        last = self.verdict
        return (
            prompt + last.prompt_tokens,
            completion + last.completion_tokens,
            cached + last.cached_tokens,
        )


@dataclass(frozen=True, eq=False)
class RetryRule:
    """How failures of one class are met: bounds of the waits in seconds, and most attempts after.

    ``most`` None leaves it to the run's number of retries.
    """

    first_wait: float
    longest_wait: float
    most: int | None = None


#: Classes that are not here end at once: the same request would fail the same way.
RULES = {
    CallClass.RATE_LIMITED: RetryRule(1.0, 60.0),
    CallClass.SERVER: RetryRule(0.5, 30.0),
    # Each has taken the longest a call may take, and its answer may have been paid for.
    CallClass.TIMEOUT: RetryRule(0.5, 30.0, most=2),
}
#: Of a 200 without an answer in it, which may have been paid for as well.
_UNREADABLE = RetryRule(0.5, 30.0, most=2)
#: Seconds at random beyond what the endpoint asks for: never earlier, and not all at once.
_SPREAD = 1.0


class Retrying:
    """Makes attempts again as the rules say.

    Args:
        retries: attempts after the first, whatever their classes.
        seconds: the time that attempts after the first may take together.
    """

    def __init__(self, retries: int, seconds: float) -> None:
        self._retries = retries
        self._too_late = stop_before_delay(seconds)
        self._random = random.Random()

    async def __call__(self, attempt: Callable[[], Awaitable[Outcome]]) -> Outcome:
        """Return the outcome of the last attempt, of as many as it takes or may take."""
        outcome = await attempt()
        if _worth_another(outcome):
            outcome = await self._again(attempt, outcome)
        return outcome

    async def _again(self, attempt: Callable[[], Awaitable[Outcome]], failed: Outcome) -> Outcome:
        # tenacity counts the failed attempt as its first. It comes in only here because it would
        # cost every call what parsing its answer costs, and nearly none needs it.
        known: Outcome | None = failed
        failures: Counter[RetryRule] = Counter()

        async def next_attempt() -> Outcome:
            nonlocal known
            outcome, known = known, None
            outcome = outcome or await attempt()
            rule = _rule(outcome)
            if rule is not None:
                failures[rule] += 1
            return outcome

        def stop(state: RetryCallState) -> bool:
            rule = _rule(_outcome(state))
            return (
                state.attempt_number > self._retries
                or rule is None
                or (rule.most is not None and failures[rule] > rule.most)
                or self._too_late(state)
            )

        retrying = AsyncRetrying(
            retry=lambda state: _worth_another(_outcome(state)),
            stop=stop,
            wait=self._wait,
            sleep=asyncio.sleep,
            retry_error_callback=_outcome,
        )
        outcome: Outcome = await retrying(next_attempt)
        return outcome

    def _wait(self, state: RetryCallState) -> float:
        """Return seconds before the next attempt: what the endpoint asks for, else ever longer."""
        outcome = _outcome(state)
        rule = _rule(outcome)
        assert rule is not None  # noqa: S101 - others have ended
        asked = retry_after(outcome.reply.headers) if outcome.reply else None
        if asked is not None:
            return asked + self._random.uniform(0.0, min(_SPREAD, rule.longest_wait))
        longest = min(rule.longest_wait, rule.first_wait * 2**state.attempt_number)
        return self._random.uniform(rule.first_wait, longest)


def _worth_another(outcome: Outcome) -> bool:
    # What was refused admission will be refused again.
    return outcome.verdict.call_class in RULES and outcome.reply is not None


def _rule(outcome: Outcome) -> RetryRule | None:
    verdict = outcome.verdict
    return _UNREADABLE if verdict.is_unreadable else RULES.get(verdict.call_class)


def _outcome(state: RetryCallState) -> Outcome:
    assert state.outcome is not None  # noqa: S101 - there is one after an attempt
    outcome: Outcome = state.outcome.result()
    return outcome
