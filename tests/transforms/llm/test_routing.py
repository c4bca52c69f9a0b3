"""Routing: shares by key, fallbacks that stay, and one endpoint for who needs no other."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transforms.llm.calls import Answer, CallClass, Caller
from transforms.llm.engine import close_engines, engine
from transforms.llm.fake_endpoint.replies import Reply, completion, failure
from transforms.llm.fake_endpoint.server import FakeEndpoint
from transforms.llm.prompts import Prompt
from transforms.llm.routes import UNAVAILABLE, Route
from transforms.llm.settings import EngineSettings

Make = Callable[..., EngineSettings]
REFUSED = frozenset({*UNAVAILABLE, CallClass.REFUSED})


@given(st.lists(st.sampled_from([0.5, 1.0, 2.0, 7.0]), min_size=1, max_size=4), st.text())
def test_a_key_draws_one_endpoint_and_the_fallbacks_follow(weights: list[float], key: str) -> None:
    route = Route("p.v1", tuple(enumerate(weights)), fallback=(9, 0))
    order = route.order(key)
    assert order == route.order(key)
    assert order[0] < len(weights)
    assert len(set(order)) == len(order)
    assert set(order[1:]) == {9, 0} - {order[0]}


def test_shares_hold_over_many_keys() -> None:
    route = Route("p.v1", ((0, 3.0), (1, 1.0)))
    drawn = Counter(route.order(f"key {number}")[0] for number in range(10_000))
    assert drawn[0] / 10_000 == pytest.approx(0.75, abs=0.02)


@pytest.mark.parametrize(
    "given", [{"shares": ()}, {"shares": ((0, 0.0),)}, {"fallback_on": {CallClass.OK}}]
)
def test_a_route_that_leads_nowhere_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"route needs|needs no other"):
        Route(**{"prompt": "p.v1", "shares": ((0, 1.0),), **given})


def two(settings: Make, first: FakeEndpoint, second: FakeEndpoint, **route: Any) -> EngineSettings:
    """Return settings whose one prompt has a route over two endpoints."""
    other = settings(second.base_url, model="other", limits=1, retries=0)
    made = {"prompt": "utterance.v1", "shares": ((0, 1.0),), "fallback": (1,), **route}
    return settings(first.base_url, further=(other,), routes=(Route(**made),), retries=0)


def asked(
    settings: EngineSettings,
    prompt: Prompt,
    items: list[str],
    samples: int = 1,
    counts: Counter[str] | None = None,
) -> list[list[Answer]]:
    async def work(situation: str, caller: Caller) -> list[Answer]:
        return await caller.samples(prompt, {"situation": situation}, range(samples))

    close_engines()
    return engine(settings).submit(0, items, work, counts).result(60)


def often(index: int, body: Mapping[str, Any]) -> Reply | None:
    """Fail for every third situation, refuse every third."""
    number = int(str(body["messages"][-1]["content"]).rpartition(" ")[2].strip('"')) % 3
    return [failure(503, None), Reply(body=completion(None, refusal="No.")), None][number]


ITEMS = [f"item {number}" for number in range(30)]


def test_whoever_answered_first_does_so_again(prompt: Prompt, settings: Make) -> None:
    with FakeEndpoint(often) as first, FakeEndpoint() as second:
        given = two(settings, first, second, fallback_on=REFUSED)
        answers = asked(given, prompt, ITEMS)
        assert all(answer.ok for (answer,) in answers)
        assert Counter(answer.model for (answer,) in answers) == {"fake": 10, "other": 20}
        assert (first.requests, second.requests) == (30, 20)
        assert asked(given, prompt, ITEMS) == [
            [answer._replace(attempts=0)] for (answer,) in answers
        ]
        assert (first.requests, second.requests) == (30, 20)


def test_what_is_not_to_be_passed_over_stands(prompt: Prompt, settings: Make) -> None:
    with FakeEndpoint(often) as first, FakeEndpoint() as second:
        answers = asked(two(settings, first, second), prompt, ITEMS)
        classes = Counter((answer.model, answer.call_class.value) for (answer,) in answers)
        assert classes == {("fake", "ok"): 10, ("fake", "refused"): 10, ("other", "ok"): 10}


def test_where_all_fail_the_failure_that_may_pass_is_told(prompt: Prompt, settings: Make) -> None:
    refusing = Reply(body=completion(None, refusal="No."))
    with FakeEndpoint(lambda *_: refusing) as first, FakeEndpoint(often) as second:
        answers = asked(two(settings, first, second, fallback_on=REFUSED), prompt, ITEMS)
        classes = Counter((answer.model, answer.call_class.value) for (answer,) in answers)
        assert classes == {("other", "server"): 10, ("fake", "refused"): 10, ("other", "ok"): 10}


def test_items_with_one_question_get_one_answer_whoever_gives_it(
    prompt: Prompt, settings: Make
) -> None:
    def once(index: int, body: Mapping[str, Any]) -> Reply | None:
        return None if index else failure(503, None)

    with FakeEndpoint(once) as first, FakeEndpoint() as second:
        given = two(settings, first, second)
        answers = asked(given, prompt, ["item 1"] * 8)
        assert {answer.model for (answer,) in answers} == {"other"}
        assert (first.requests, second.requests) == (1, 1)


def test_samples_fall_back_together(prompt: Prompt, settings: Make) -> None:
    with FakeEndpoint(often) as first, FakeEndpoint() as second:
        given = two(settings, first, second, fallback_on=REFUSED)
        further = tuple(replace(each, samples_per_call=3) for each in given.further)
        given = replace(given, samples_per_call=3, further=further)
        answers = asked(given, prompt, ITEMS, samples=3)
        assert all(answer.ok for own in answers for answer in own)
        assert second.requests == 20
        before = first.requests
        assert [[each.data for each in own] for own in asked(given, prompt, ITEMS, 3)] == [
            [each.data for each in own] for own in answers
        ]
        assert (first.requests, second.requests) == (before, 20)


HALF = completion('{"utterance": ', "length")
EMPTY = completion("{}")


@pytest.mark.parametrize("first_reply", [EMPTY, HALF])
def test_who_answers_only_in_part_is_passed_over_for_whoever_answered(
    first_reply: str, prompt: Prompt, settings: Make
) -> None:
    """A correction or a larger retry that fails for now: the fallback's answer stays."""
    down = True

    def script(index: int, body: Mapping[str, Any]) -> Reply | None:
        again = len(body["messages"]) > 2 or body["max_tokens"] > 100
        if not again:
            return Reply(body=first_reply)
        return failure(503, None) if down else None

    with FakeEndpoint(script) as first, FakeEndpoint() as second:
        given = two(settings, first, second)
        before = asked(given, prompt, ["a"], samples=2)
        assert {answer.model for answer in before[0]} == {"other"}
        down = False
        counts: Counter[str] = Counter()
        after = asked(given, prompt, ["a"], samples=2, counts=counts)
        assert [one._replace(attempts=0) for one in before[0]] == after[0]
        assert (first.requests, second.requests) == (4, 2)
        # What was cached of the first one is of no use, and is not counted.
        assert counts["calls_cached"] == counts["class_ok"] == 2
        # Without the fallback's answer the first one is asked for what is missing.
        (found,) = asked(replace(given, cache=given.cache + "2"), prompt, ["a"])
        assert found[0].model == "fake"


def test_samples_of_which_one_is_known_are_not_asked_for_again(
    prompt: Prompt, settings: Make
) -> None:
    with FakeEndpoint(lambda *_: failure(503, None)) as first, FakeEndpoint() as second:
        given = two(settings, first, second)
        asked(given, prompt, ["a"], samples=1)
        asked(given, prompt, ["a"], samples=3)
        assert (first.requests, second.requests) == (3, 3)


def test_an_item_is_replayed_while_another_one_waits_for_the_same_answer(
    prompt: Prompt, settings: Make
) -> None:
    came, gate = threading.Event(), threading.Event()

    def script(index: int, body: Mapping[str, Any]) -> Reply | None:
        came.set()
        gate.wait(30)
        return None

    with FakeEndpoint(script) as first, FakeEndpoint() as second:
        own = engine(two(settings, first, second))
        cache = own._acquire(0)
        cache.put("0" * 64, "p.v1", 200, "{}")  # an item is replayed where anything is cached

        async def work(item: str, caller: Caller) -> Answer:
            return await caller(prompt, {"situation": item})

        held = own.submit(0, ["a"], work)
        assert came.wait(30)
        other = own.submit(0, ["a"], work)
        gate.set()
        assert held.result(30)[0].data == other.result(30)[0].data
        assert first.requests == 1
        own._release(0)


def test_a_rejected_key_ends_one_endpoint_and_no_other(prompt: Prompt, settings: Make) -> None:
    with FakeEndpoint(lambda *_: failure(401, None)) as first, FakeEndpoint() as second:
        given = replace(two(settings, first, second), concurrency=1)
        answers = asked(given, prompt, ITEMS)
        assert {answer.model for (answer,) in answers} == {"other"}
        assert first.requests == 1


def test_limits_of_one_number_are_kept_together(prompt: Prompt, settings: Make) -> None:
    with FakeEndpoint(latency=lambda drawn: 0.02) as endpoint:
        shares = ((0, 1.0), (1, 1.0))
        given = two(settings, endpoint, endpoint, shares=shares, fallback=())
        apart = replace(given, concurrency=2)
        apart = replace(apart, further=tuple(replace(one, concurrency=2) for one in given.further))
        together = replace(apart, further=tuple(replace(one, limits=0) for one in apart.further))
        asked(together, prompt, ITEMS)
        assert endpoint.peak == 2
        asked(apart, prompt, [f"{item}0" for item in ITEMS])
        assert endpoint.peak == 4
