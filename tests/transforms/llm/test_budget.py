"""The budget: never exceeded, spent nearly to its end, and what is refused is refused for good."""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from transforms.llm import client
from transforms.llm.admission import PendingCall
from transforms.llm.answers import Verdict
from transforms.llm.budget import Budgets, LaneBudget
from transforms.llm.calls import Answer, CallClass, Caller
from transforms.llm.engine import engine
from transforms.llm.fake_endpoint.replies import Reply, completion, failure
from transforms.llm.fake_endpoint.server import FakeEndpoint
from transforms.llm.prices import Price
from transforms.llm.prompts import Prompt
from transforms.llm.settings import EngineSettings

Make = Callable[..., EngineSettings]

#: A dollar for a thousand tokens, whichever, and half of it for cached ones.
PRICE = Price(input=1000.0, cached_input=500.0, output=1000.0)
PRICES = {"fake": PRICE}
OK = client.Reply(200, "{}", {})


def call(
    size: int = 80, completion: int = 20, progress: int = 0, partition: int = 0
) -> PendingCall:
    return PendingCall("key", partition, progress, 0, size, size // 4, completion, "fake")


def used(prompt: int, completion: int, cached: int = 0) -> Verdict:
    return Verdict(CallClass.OK, {}, None, prompt, completion, cached, metered=True)


def test_calls_are_bounded_by_number() -> None:
    async def main() -> None:
        budget = LaneBudget(max_calls=2, max_cost=None, prices={})
        assert await budget.admit(call()) is None
        assert await budget.admit(call()) is None
        assert await budget.admit(call()) is CallClass.BUDGET
        budget.settle(call(), OK, used(10, 10))
        assert await budget.admit(call()) is CallClass.BUDGET

    asyncio.run(main())


def test_what_was_not_sent_is_given_back() -> None:
    async def main() -> None:
        budget = LaneBudget(max_calls=1, max_cost=0.1, prices=PRICES)
        assert await budget.admit(call()) is None
        budget.withdraw(call())
        assert (budget.calls, budget.spent) == (0, 0)
        assert await budget.admit(call()) is None

    asyncio.run(main())


def test_a_call_that_might_fit_waits_for_those_in_flight() -> None:
    async def main() -> None:
        budget = LaneBudget(None, max_cost=0.15, prices=PRICES)  # a call may cost 0.10
        assert await budget.admit(call()) is None
        waiting = asyncio.ensure_future(budget.admit(call()))
        await asyncio.sleep(0)
        assert not waiting.done()
        budget.settle(call(), OK, used(20, 5))  # it took 0.025
        assert await waiting is None
        budget.settle(call(), OK, used(20, 10, cached=20))
        assert budget.spent == pytest.approx(0.025 + 0.02)
        assert await budget.admit(call()) is None

    asyncio.run(main())


def test_a_call_that_can_never_fit_ends_the_spending_for_all() -> None:
    async def main() -> None:
        budget = LaneBudget(None, max_cost=0.15, prices=PRICES)
        assert await budget.admit(call()) is None
        waiting = [asyncio.ensure_future(budget.admit(call())) for _ in range(3)]
        await asyncio.sleep(0)
        budget.settle(call(), OK, used(80, 20))  # it took all that was reserved
        assert await asyncio.gather(*waiting) == [CallClass.BUDGET] * 3
        assert await budget.admit(call(size=1, completion=1)) is CallClass.BUDGET

    asyncio.run(main())


def test_items_in_progress_go_first() -> None:
    async def main() -> None:
        budget = LaneBudget(None, max_cost=0.15, prices=PRICES)
        assert await budget.admit(call()) is None
        new = asyncio.ensure_future(budget.admit(call(progress=0)))
        begun = asyncio.ensure_future(budget.admit(call(progress=3)))
        await asyncio.sleep(0)
        budget.settle(call(), OK, used(20, 20))
        assert await begun is None
        assert not new.done()
        new.cancel()

    asyncio.run(main())


def test_who_is_cancelled_while_waiting_takes_nothing() -> None:
    async def main() -> None:
        budget = LaneBudget(None, max_cost=0.15, prices=PRICES)
        assert await budget.admit(call()) is None
        first, second = (asyncio.ensure_future(budget.admit(call())) for _ in range(2))
        await asyncio.sleep(0)
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        budget.settle(call(), OK, used(10, 10))
        assert await second is None
        budget.settle(call(), OK, used(10, 10))
        assert budget.calls == 2

    asyncio.run(main())


def test_who_is_cancelled_in_the_moment_of_admission_gives_it_back() -> None:
    async def main() -> None:
        budget = LaneBudget(None, max_cost=0.15, prices=PRICES)
        assert await budget.admit(call()) is None
        waiting = asyncio.ensure_future(budget.admit(call()))
        await asyncio.sleep(0)
        budget.settle(call(), OK, used(10, 10))
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        assert budget.calls == 1
        assert await budget.admit(call(size=100, completion=30)) is None  # 0.13 are left

    asyncio.run(main())


@pytest.mark.parametrize(
    ("reply", "verdict", "cost"),
    [
        (OK, used(30, 10), 0.04),
        (OK, used(30, 10, cached=20), 0.03),
        (OK, Verdict(CallClass.OK, {}), 0.1),  # it does not say what it used
        (OK, Verdict(CallClass.OK, {}, None, 30), 0.1),  # nor what the answer did
        (OK, Verdict(CallClass.SERVER, None, None, 30, 10, metered=True), 0.04),
        (client.Reply(429, "{}", {}), Verdict(CallClass.RATE_LIMITED), 0.0),
        (client.Reply(500, "{}", {}), Verdict(CallClass.SERVER), 0.0),
        (client.Reply(0, "", {}, CallClass.TIMEOUT), Verdict(CallClass.TIMEOUT), 0.1),
        (client.Reply(0, "", {}, CallClass.SERVER, None, False), Verdict(CallClass.SERVER), 0.0),
        (None, None, 0.1),  # broken off
    ],
)
def test_what_calls_are_charged_with(
    reply: client.Reply | None, verdict: Verdict | None, cost: float
) -> None:
    async def main() -> None:
        budget = LaneBudget(None, 1.0, PRICES)
        assert await budget.admit(call()) is None
        budget.settle(call(), reply, verdict)
        assert budget.spent == pytest.approx(cost)

    asyncio.run(main())


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 400), st.integers(1, 200)), min_size=1, max_size=60),
    st.integers(0, 3000),
    st.integers(1, 12),
    st.integers(),
)
def test_whatever_calls_use_the_budget_holds(
    calls: list[tuple[int, int]], thousandths: int, width: int, seed: int
) -> None:
    """Calls use anything up to their most; ``width`` of them are at work at a time."""
    source = random.Random(seed)
    outcomes: Counter[Any] = Counter()

    async def main() -> None:
        budget = LaneBudget(None, thousandths / 1000, PRICES)
        places = asyncio.Semaphore(width)

        async def make(size: int, most: int) -> None:
            async with places:
                refused = await budget.admit(call(size, most))
                outcomes[refused] += 1
                if refused is None:
                    await asyncio.sleep(0)
                    verdict = used(source.randint(1, size), source.randint(0, most))
                    outcomes["tokens"] += verdict.prompt_tokens + verdict.completion_tokens
                    budget.settle(call(size, most), OK, verdict)

        await asyncio.wait_for(asyncio.gather(*(make(*each) for each in calls)), 20)
        assert budget.spent == pytest.approx(outcomes["tokens"] / 1000)

    asyncio.run(main())
    assert outcomes["tokens"] <= thousandths
    assert outcomes[None] + outcomes[CallClass.BUDGET] == len(calls)
    if sum(map(sum, calls)) <= thousandths:
        assert not outcomes[CallClass.BUDGET]


def test_lanes_have_shares_that_add_up_to_the_whole() -> None:
    async def main() -> list[CallClass | None]:
        given = EngineSettings(
            "http://127.0.0.1:1/v1", "fake", "cache", lanes=3, max_calls=7, max_cost=60, price=PRICE
        )
        budgets = Budgets(given)
        return [await budgets.admit(call(partition=number % 6)) for number in range(30)]

    outcomes = asyncio.run(main())
    assert outcomes.count(None) == 7


async def twice(prompt: Prompt, item: str, caller: Caller) -> list[Answer]:
    return [await caller(prompt, {"situation": f"{item} {number}"}) for number in range(2)]


@pytest.mark.parametrize("concurrency", [1, 16])
def test_the_endpoint_never_uses_more_than_the_budget(
    prompt: Prompt, settings: Make, concurrency: int
) -> None:
    """By the endpoint's own account, at a dollar for a thousand tokens."""
    with FakeEndpoint() as endpoint:
        given = settings(endpoint.base_url, max_cost=4.0, price=PRICE, concurrency=concurrency)
        counts: Counter[str] = Counter()
        items = [f"item {number}" for number in range(60)]
        answers = (
            engine(given)
            .submit(0, items, lambda item, caller: twice(prompt, item, caller), counts)
            .result(60)
        )
        spent = (endpoint.prompt_tokens + endpoint.completion_tokens) / 1000
        assert spent <= 4.0
        # What is left is less than the most that one more call might have cost.
        size = max(len(json.dumps(body, separators=(",", ":"))) for body in endpoint.bodies)
        assert spent > 4.0 - (size + 100) / 1000
    classes = Counter(answer.call_class for pair in answers for answer in pair)
    assert classes[CallClass.OK] == endpoint.answered == counts["calls_sent"]
    assert classes[CallClass.BUDGET] == 120 - endpoint.answered
    unsent = [answer for pair in answers for answer in pair if not answer.ok]
    assert {answer.attempts for answer in unsent} == {0}
    assert {answer.detail for answer in unsent} == {"not sent: what may be spent is spent"}


def test_repeats_count_as_calls(prompt: Prompt, settings: Make) -> None:
    with FakeEndpoint(
        lambda index, body: failure(500, None) if index % 2 == 0 else None
    ) as endpoint:
        given = settings(endpoint.base_url, max_calls=4, concurrency=1)
        items = [str(number) for number in range(4)]

        async def once(item: str, caller: Caller) -> CallClass:
            return (await caller(prompt, {"situation": item})).call_class

        classes = engine(given).submit(0, items, once).result(60)
        assert endpoint.requests == 4
    assert classes.count(CallClass.OK) == 2
    assert classes.count(CallClass.BUDGET) == 2


def test_what_replies_used_that_were_asked_for_again_is_counted(
    prompt: Prompt, settings: Make
) -> None:
    empty = '{"choices":[],"usage":{"prompt_tokens":70,"completion_tokens":30}}'
    good = completion('{"utterance": "Well, that was late."}', tokens=7)
    with FakeEndpoint(lambda index, _: Reply(body=good if index else empty)) as endpoint:
        counts: Counter[str] = Counter()

        async def once(item: str, caller: Caller) -> bool:
            return (await caller(prompt, {"situation": item})).ok

        given = settings(endpoint.base_url)
        assert engine(given).submit(0, ["a"], once, counts).result(60) == [True]
        assert counts["calls_sent"] == 2
        assert (counts["tokens_prompt"], counts["tokens_completion"]) == (170, 37)


def test_cached_prompt_tokens_are_read_from_the_reply(prompt: Prompt, settings: Make) -> None:
    body = json.loads(completion('{"utterance": "Well, that was late."}'))
    body["usage"]["prompt_tokens_details"] = {"cached_tokens": 64}
    with FakeEndpoint(lambda index, _: Reply(body=json.dumps(body))) as endpoint:
        counts: Counter[str] = Counter()

        async def once(item: str, caller: Caller) -> bool:
            return (await caller(prompt, {"situation": item})).ok

        engine(settings(endpoint.base_url)).submit(0, ["a", "b"], once, counts).result(60)
    assert counts["tokens_cached"] == counts["utterance.v1 fake/tokens_cached"] == 128
    assert counts["tokens_prompt"] == 200
