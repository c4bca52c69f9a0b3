"""Turns, places in flight and rates: who goes when, and that nothing is lost or invented."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

import pytest

from transforms.llm.admission import PendingCall
from transforms.llm.answers import Verdict
from transforms.llm.calls import Answer, CallClass, Caller
from transforms.llm.client import Reply as ClientReply
from transforms.llm.engine import engine
from transforms.llm.fake_endpoint.latency import constant, uniform
from transforms.llm.fake_endpoint.replies import Reply, failure
from transforms.llm.fake_endpoint.server import FakeEndpoint
from transforms.llm.fake_endpoint.windows import RateLimits
from transforms.llm.limits import Limits
from transforms.llm.prompts import Prompt
from transforms.llm.replay import gather
from transforms.llm.settings import EngineSettings

Make = Callable[..., EngineSettings]

OK = Verdict(CallClass.OK, prompt_tokens=60, completion_tokens=20, metered=True)
LIMITED = Verdict(CallClass.RATE_LIMITED)
WAIT = 60
_names = itertools.count()


def call(progress: int = 0, beside: int = 0, partition: int = 0) -> PendingCall:
    return PendingCall(f"key {next(_names)}", partition, progress, beside, 200, 50, 50, "fake")


def reply(**headers: str) -> ClientReply:
    return ClientReply(200, "", {name.replace("_", "-"): text for name, text in headers.items()})


def limits(**given: Any) -> Limits:
    return Limits(EngineSettings("http://localhost/v1", "fake", "cache", **given))


class Clock:
    """A clock that stands until it is set; timers of the loop do not know of it."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def run(main: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(asyncio.wait_for(main(), WAIT))


async def ticks() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def waits(gate: Limits, one: PendingCall) -> asyncio.Task[CallClass | None]:
    task = asyncio.create_task(gate.admit(one))
    await ticks()
    assert not task.done()
    return task


def test_items_in_progress_go_first_then_first_calls_then_by_arrival() -> None:
    async def main() -> None:
        gate, first = limits(concurrency=1), call()
        assert await gate.admit(first) is None
        order: list[str] = []

        async def wait(name: str, one: PendingCall) -> None:
            assert await gate.admit(one) is None
            order.append(name)
            gate.settle(one, None, OK)

        waiting = [
            asyncio.create_task(wait(name, call(progress, beside)))
            for name, progress, beside in (
                ("new", 0, 0),
                ("its second", 0, 1),
                ("its third", 0, 2),
                ("newer", 0, 0),
                ("begun", 1, 0),
                ("nearly done", 4, 0),
            )
        ]
        await ticks()
        assert order == []
        gate.settle(first, None, OK)
        await asyncio.gather(*waiting)
        assert order == ["nearly done", "begun", "new", "newer", "its second", "its third"]

    run(main)


def test_a_cancelled_call_passes_its_place_on() -> None:
    async def main() -> None:
        gate, (first, early, late, third) = limits(concurrency=1), (call() for _ in range(4))
        await gate.admit(first)
        tasks = [asyncio.create_task(gate.admit(one)) for one in (early, late, third)]
        await ticks()
        tasks[0].cancel()  # while it waits
        await ticks()
        gate.settle(first, None, OK)  # the place is late's from now on
        tasks[1].cancel()  # before it could take note
        assert await tasks[2] is None
        gate.settle(third, None, OK)
        assert await gate.admit(call()) is None

    run(main)


def test_a_final_class_ends_those_that_wait_and_those_that_come() -> None:
    async def main() -> None:
        gate, first = limits(concurrency=2, lanes=2), call()
        await gate.admit(first)
        assert await gate.admit(call(partition=1)) is None
        waiting = [asyncio.create_task(gate.admit(call(partition=p % 2))) for p in range(6)]
        await ticks()
        gate.settle(first, None, Verdict(CallClass.BUDGET))
        assert await asyncio.gather(*waiting) == [CallClass.BUDGET] * 6
        assert await gate.admit(call()) is CallClass.BUDGET

    run(main)


def test_a_model_that_is_refused_leaves_the_others_of_its_endpoint_alone() -> None:
    async def main() -> None:
        gate, first = limits(concurrency=2), call()
        await gate.admit(first)
        gate.settle(first, reply(), Verdict(CallClass.AUTH, status=404))
        assert await gate.admit(call()) is None

    run(main)


def test_whatever_a_reply_holds_its_place_is_free_again() -> None:
    async def main() -> None:
        gate, first, second = limits(concurrency=1), call(), call()
        odd = reply(retry_after="Wed, 21 Oct 99999999999999999999 07:28:00 GMT")
        many = "9" * 400
        for headers in (odd, reply(x_ratelimit_limit_requests=many), reply(ratelimit_reset=many)):
            await gate.admit(first)
            gate.settle(first, headers, LIMITED)
            gate._lane(first)._congestion.resume = 0.0
        await gate.admit(first)
        with pytest.raises(AttributeError):  # a fault of the program
            gate.settle(first, ClientReply(200, "", None), OK)  # type: ignore[arg-type]
        assert await gate.admit(second) is None

    run(main)


def test_a_place_that_is_withdrawn_is_the_next_ones() -> None:
    async def main() -> None:
        gate, first, second = limits(concurrency=1, rpm=60), call(), call()
        await gate.admit(first)
        task = await waits(gate, second)
        gate.withdraw(first)
        assert await task is None

    run(main)


def test_calls_that_are_withdrawn_cost_no_time_at_the_pace_of_refusals() -> None:
    async def main() -> None:
        clock = Clock()
        gate = Limits(EngineSettings("http://localhost/v1", "fake", "cache"), clock)
        first, *others, last = (call() for _ in range(6))
        await gate.admit(first)
        gate._lane(first)._congestion.pace = 0.1
        for one in others:
            assert await gate.admit(one) is None
            gate.withdraw(one)
        assert gate._lane(first)._congestion.sent_since(clock.now - 1) == 1
        assert await gate.admit(last) is None
        (await waits(gate, call())).cancel()

    run(main)


def test_lanes_have_places_of_their_own() -> None:
    async def main() -> None:
        gate, first = limits(concurrency=3, lanes=2), call()
        assert await gate.admit(first) is None
        assert await gate.admit(call(partition=2)) is None
        task = await waits(gate, call(partition=4))
        assert await gate.admit(call(partition=1)) is None
        other = await waits(gate, call(partition=3))
        gate.settle(first, None, OK)
        assert await task is None
        assert not other.done()
        other.cancel()

    run(main)


def test_one_call_that_needs_more_than_a_minute_has_is_not_sent() -> None:
    async def main() -> None:
        assert await limits(tpm=99).admit(call()) is CallClass.RATE_LIMITED
        assert await limits(tpm=200, lanes=4).admit(call()) is CallClass.RATE_LIMITED

    run(main)


def tokens_left(used: Verdict | None, answer: ClientReply | None) -> bool:
    """Whether a call for 100 of 150 tokens leaves room for another, once it ended like this."""
    clock = Clock()
    settings = EngineSettings("http://localhost/v1", "fake", "cache", tpm=150)

    async def main() -> bool:
        gate, first, second = Limits(settings, clock), call(), call()
        task = asyncio.create_task(gate.admit(first))
        await ticks()
        clock.now += 100.0
        gate._lane(first)._go_on()
        assert await task is None
        gate.settle(first, answer, used)
        clock.now += 50.0
        other = asyncio.create_task(gate.admit(second))
        await ticks()
        other.cancel()
        return other.done()

    return asyncio.run(main())


@pytest.mark.parametrize(
    ("used", "answer", "left"),
    [
        (OK._replace(prompt_tokens=20, completion_tokens=5), reply(), True),
        (OK, reply(), False),
        (Verdict(CallClass.OK), reply(), False),  # it does not say: what was counted stays
        (Verdict(CallClass.OK, prompt_tokens=20), reply(), False),
        (Verdict(CallClass.SERVER), reply(), True),  # its prompt alone counts
        (Verdict(CallClass.TIMEOUT), ClientReply(0, "", {}, CallClass.TIMEOUT), False),
        (None, None, False),  # broken off
    ],
)
def test_what_was_used_takes_the_place_of_what_was_reserved(
    used: Verdict | None, answer: ClientReply | None, left: bool
) -> None:
    assert tokens_left(used, answer) is left


def test_limits_are_learned_from_headers_and_the_users_stand_where_they_are_lower() -> None:
    async def allowed(given: Mapping[str, Any], **headers: str) -> float:
        clock, first = Clock(), call()
        gate = Limits(EngineSettings("http://localhost/v1", "fake", "cache", **given), clock)
        lane = gate._lane(first)
        clock.now += 100.0
        assert await gate.admit(first) is None
        gate.settle(first, reply(**headers), OK)
        rate = lane._requests.rate
        return 0.0 if rate is None else rate.limit

    async def main() -> None:
        hundred = {"x_ratelimit_limit_requests": "100", "x_ratelimit_reset_requests": "1s"}
        assert await allowed({}) == 0.0
        assert await allowed({}, **hundred) == 100
        assert await allowed({"rpm": 500}, **hundred) == 100
        assert await allowed({"rpm": 50}, **hundred) == 50
        assert await allowed({"lanes": 4}, **hundred) == 25
        day = {"x_ratelimit_limit_requests": "100", "x_ratelimit_reset_requests": "9h"}
        assert await allowed({}, **day) == 0.0

    run(main)


def test_a_call_longer_than_its_lanes_share_of_a_limit_that_was_told_waits_for_longer() -> None:
    async def main() -> None:
        clock, first = Clock(), call()
        settings = EngineSettings("http://localhost/v1", "fake", "cache", lanes=8, rate_margin=0)
        gate = Limits(settings, clock)
        assert await gate.admit(first) is None
        told = reply(x_ratelimit_limit_tokens="400", x_ratelimit_remaining_tokens="400")
        gate.settle(first, told, Verdict(CallClass.OK))
        # Its lane has 50 a minute, and each call needs 100: one goes every two minutes, by turns.
        clock.now = 1200.0
        for _ in range(3):
            one = call()
            assert await gate.admit(one) is None
            gate.settle(one, told, Verdict(CallClass.OK))
            clock.now += 119.0
            early = await waits(gate, call())
            early.cancel()
            await ticks()
            clock.now += 1.0
        longer = call()._replace(prompt_tokens=400)
        assert await gate.admit(longer) is CallClass.RATE_LIMITED

    run(main)


@pytest.mark.parametrize("told", ["tokens", "requests", "both"])
def test_lanes_whose_calls_are_longer_than_their_shares_keep_a_limit_together(told: str) -> None:
    async def main() -> None:
        clock, sent = Clock(), []
        settings = EngineSettings("http://localhost/v1", "fake", "cache", lanes=8, rate_margin=0)
        gate = Limits(settings, clock)
        limits = {"tokens": "400", "requests": "4"}
        headers = {
            f"x_ratelimit_{part}_{kind}": limit
            for kind, limit in limits.items()
            for part in ("limit", "remaining")
            if told in (kind, "both")
        }
        waiting = {}
        for lane in range(8):
            one = call(partition=lane)
            assert await gate.admit(one) is None
            gate.settle(one, reply(**headers), Verdict(CallClass.OK))
        for second in range(600):
            for lane in range(8):
                if lane not in waiting:
                    one = call(partition=lane)
                    waiting[lane] = one, asyncio.create_task(gate.admit(one))
                gate._lane(call(partition=lane))._go_on()
            await ticks()
            for lane, (one, task) in list(waiting.items()):
                if task.done():
                    sent.append(second)
                    gate.settle(one, reply(), Verdict(CallClass.OK))
                    del waiting[lane]
            clock.now += 1.0
        for _, task in waiting.values():
            task.cancel()
        assert all(later - first >= 60 for first, later in zip(sent, sent[4:], strict=False))
        assert len(sent) >= 0.8 * 4 * 600 / 60

    run(main)


def test_what_was_sent_before_a_limit_was_learned_counts_towards_it() -> None:
    async def main() -> None:
        clock, first = Clock(), call()
        gate = Limits(EngineSettings("http://localhost/v1", "fake", "cache", rate_margin=0), clock)
        assert await gate.admit(first) is None
        told = {"x_ratelimit_limit_requests": "60", "x_ratelimit_remaining_requests": "40"}
        gate.settle(first, reply(**told), OK)
        rate = gate._lane(first)._requests.rate
        assert rate is not None
        assert rate.wait(1, clock.now) == pytest.approx(20.0)
        assert rate.wait(40, clock.now + 20.0) == 0.0
        assert rate.wait(41, clock.now + 20.0) == pytest.approx(40.0)

    run(main)


def test_when_nothing_remains_all_wait_for_the_reset() -> None:
    async def main() -> None:
        clock, first = Clock(), call()
        gate = Limits(EngineSettings("http://localhost/v1", "fake", "cache"), clock)
        assert await gate.admit(first) is None
        gate.settle(
            first,
            reply(x_ratelimit_remaining_requests="0", x_ratelimit_reset_requests="20s"),
            OK,
        )
        task = await waits(gate, call())
        clock.now += 20.0
        gate._lane(first)._go_on()
        assert await task is None

    run(main)


def single(prompt: Prompt) -> Callable[[str, Caller], Any]:
    async def work(situation: str, caller: Caller) -> Answer:
        return await caller(prompt, {"situation": situation})

    return work


@pytest.mark.parametrize(
    ("given", "kind", "most"),
    [({"rpm": 30}, 0, 30), ({"tpm": 1500}, 1, 1500), ({"rpm": 40, "tpm": 9000}, 0, 40)],
)
def test_no_window_at_the_endpoint_holds_more(
    given: Mapping[str, float], kind: int, most: int, prompt: Prompt, settings: Make
) -> None:
    counted = RateLimits(seconds=2.0)
    with FakeEndpoint(latency=uniform(0.0, 0.2), limits=counted) as endpoint:
        made = engine(settings(endpoint.base_url, rate_window=2.0, rate_margin=0.5, **given))
        answers = made.submit(0, [str(n) for n in range(75)], single(prompt)).result(WAIT)
        assert all(answer.ok for answer in answers)
    greatest = endpoint.windows.seen[kind].greatest
    assert most / 2 < greatest <= most


@pytest.mark.parametrize("limited", [{"requests": 30}, {"tokens": 2000}])
def test_limits_that_headers_tell_are_kept(
    limited: Mapping[str, int], prompt: Prompt, settings: Make
) -> None:
    limits = RateLimits(seconds=2.0, **limited)
    with FakeEndpoint(latency=uniform(0.0, 0.1), limits=limits) as endpoint:
        given = settings(endpoint.base_url, rate_window=2.0, rate_margin=0.5, concurrency=4)
        answers = engine(given).submit(0, [str(n) for n in range(75)], single(prompt)).result(WAIT)
        assert all(answer.ok for answer in answers)
        assert endpoint.met["limit"] == 0


def test_a_limit_nobody_told_is_found_and_every_call_answered(
    prompt: Prompt, settings: Make
) -> None:
    class Bucket:
        """Forty requests a second, and no word about it."""

        def __init__(self) -> None:
            self.answered: list[float] = []
            self.refused = 0

        def __call__(self, index: int, body: Mapping[str, Any]) -> Reply | None:
            now = time.monotonic()
            if sum(1 for each in self.answered if each > now - 1.0) >= 40:
                self.refused += 1
                return failure(429, "rate_limit_exceeded")
            self.answered.append(now)
            return None

    bucket = Bucket()
    with FakeEndpoint(bucket) as endpoint:
        made = engine(settings(endpoint.base_url, retries=8))
        answers = made.submit(0, [str(n) for n in range(150)], single(prompt)).result(WAIT)
        assert all(answer.ok for answer in answers)
    assert 0 < bucket.refused < 150


def test_a_key_with_many_calls_leaves_room_for_others(prompt: Prompt, settings: Make) -> None:
    async def work(situation: str, caller: Caller) -> None:
        await gather(*(caller(prompt, {"situation": situation}, sample=n) for n in range(10)))

    with FakeEndpoint(latency=constant(0.02)) as endpoint:
        given = settings(endpoint.base_url, concurrency=2)
        engine(given).submit(0, list("abcd"), work).result(WAIT)
        # Beside the two that found a free place, the first calls of all come before any second one.
        questions = [body["messages"][-1]["content"] for body in endpoint.bodies]
    assert {question.split()[-1].strip('"') for question in questions[:5]} == set("abcd")
