"""A rehearsal makes no call, and comes to what the calls come to."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transforms.llm.calls import Caller
from transforms.llm.engine import close_engines, engine
from transforms.llm.estimate_text import render_estimate, spoken
from transforms.llm.estimates import Pace, estimate
from transforms.llm.fake_endpoint.server import FakeEndpoint
from transforms.llm.json_schema import validator
from transforms.llm.prices import Price
from transforms.llm.prompts import Prompt, Sampling
from transforms.llm.rehearsal import RehearsePartitions
from transforms.llm.settings import EngineSettings
from transforms.llm.shared_cache import SharedCache
from transforms.llm.typical import TypicalAnswers, made_up

Make = Callable[..., EngineSettings]
TEXT = {
    "type": "object",
    "properties": {"text": {"type": "string"}},
    "required": ["text"],
    "additionalProperties": False,
}


def a_prompt(name: str, user: str, *examples: str) -> Prompt:
    prefix = [{"role": "system", "content": "You write what somebody might say to a friend."}]
    for text in examples:
        prefix += [
            {"role": "user", "content": "Say something."},
            {"role": "assistant", "content": json.dumps({"text": text})},
        ]
    return Prompt(f"{name}.v1", "0" * 64, TEXT, Sampling(max_tokens=80), tuple(prefix), user)


FIRST = a_prompt("first", "Situation: {{ situation }}", "I left early and told nobody about it.")
#: Nothing of the item itself is in the question: two items differ in the answer alone.
SECOND = a_prompt("second", "Go on from: {{ text }}", "And I would do the same again any day.")


@dataclass(frozen=True)
class Chain:
    """Two dependent calls an item, and a third where the item says so."""

    def items(self, partition: tuple[int, Sequence[str]]) -> Sequence[str]:
        return partition[1]

    def key(self, item: str) -> str:
        return item

    async def work(self, item: str, caller: Caller) -> str:
        answer = await caller(FIRST, {"situation": item})
        text = str((answer.data or {})["text"])
        for sample in range(2 if item.endswith("twice") else 1):
            answer = await caller(SECOND, {"text": text}, sample=sample)
        return text

    def finish(self, partition: Any, results: list[str], counts: Mapping[str, int]) -> list[Any]:
        return []


def rehearsed(settings: EngineSettings, items: Sequence[str]) -> Counter[str]:
    function = RehearsePartitions(settings, Chain())
    function.setup()
    return function.rehearse(0, items)


ITEMS = [f"item {number}{' twice' if number % 3 == 0 else ''}" for number in range(40)]


def test_calls_are_those_that_are_made_cold_and_half_warm(settings: Make) -> None:
    with FakeEndpoint() as endpoint:
        given = settings(endpoint.base_url)
        cold = rehearsed(given, ITEMS)
        assert (endpoint.requests, Path(given.cache).exists()) == (0, False)
        engine(given).submit(0, ITEMS[:17], Chain().work).result(60)
        close_engines()
        first = endpoint.requests
        before = sorted(Path(given.cache).rglob("*"))
        warm = rehearsed(given, ITEMS)
        assert (endpoint.requests, sorted(Path(given.cache).rglob("*"))) == (first, before)
        counts: Counter[str] = Counter()
        engine(given).submit(0, ITEMS, Chain().work, counts).result(60)
    found = estimate(warm, {}, {("fake",): Pace(4)})
    assert estimate(cold, {}, {("fake",): Pace(4)}).calls == endpoint.requests == 40 + 40 + 14
    assert found.calls == counts["calls_sent"] == endpoint.requests - first
    assert found.cached == counts["calls_cached"] == first
    assert found.prompt_tokens == pytest.approx(counts["tokens_prompt"], rel=0.05)
    assert found.completion_tokens == pytest.approx(counts["tokens_completion"], rel=0.05)
    done = estimate(rehearsed(given, ITEMS), {}, {("fake",): Pace(4)})
    assert (done.calls, done.cached) == (0, endpoint.requests)


def test_answers_are_like_the_cached_ones_else_like_examples(settings: Make) -> None:
    with FakeEndpoint() as endpoint:
        given = settings(endpoint.base_url)
        assert rehearsed(given, ITEMS)["typical_examples"] == 94
        engine(given).submit(0, ITEMS[:5], Chain().work).result(60)
        close_engines()
        again = rehearsed(given, ITEMS)
    assert again["typical_examples"] == 0
    assert again["typical_cache"] > 70


def test_no_two_requests_get_the_same_answer(tmp_path: Path) -> None:
    answers = TypicalAnswers([SharedCache(str(tmp_path), 1)])
    keys = [f"{number * 7919:064x}"[::-1] for number in range(1, 2000)]
    texts = {answers.answer(FIRST, key).data["text"] for key in keys}
    assert len(texts) == len(keys)
    assert all(text.startswith("I left early and ") for text in texts)
    assert answers.answer(FIRST, keys[0]) == answers.answer(FIRST, keys[0])


@given(st.data())
def test_what_is_made_up_fits_its_schema(data: st.DataObject) -> None:
    def schemas(depth: int) -> st.SearchStrategy[dict[str, Any]]:
        leaves = st.one_of(
            st.just({"type": "boolean"}),
            st.just({"type": ["null", "string"]}),
            st.builds(
                lambda low, more: {"type": "string", "minLength": low, "maxLength": low + more},
                *(st.integers(0, 300), st.integers(1, 100)),
            ),
            st.builds(lambda low: {"type": "integer", "minimum": low}, st.integers(-5, 5)),
            st.builds(lambda high: {"type": "number", "maximum": high}, st.integers(-5, 5)),
            st.just({"enum": ["a", "b"]}),
            st.just({"const": 3}),
        )
        if not depth:
            return leaves
        inner = schemas(depth - 1)
        lists = st.builds(
            lambda items, low, more: {
                "type": "array",
                "items": items,
                "minItems": low,
                "maxItems": low + more,
            },
            *(inner, st.integers(0, 3), st.integers(0, 3)),
        )
        objects = st.dictionaries(st.sampled_from("abc"), inner).map(
            lambda properties: {
                "type": "object",
                "properties": properties,
                "required": sorted(properties),
                "additionalProperties": False,
            }
        )
        return st.one_of(leaves, lists, objects)

    schema = data.draw(schemas(2))
    prompt = Prompt("made.v1", "", schema, Sampling(), ({"role": "system", "content": ""},), "")
    assert validator(schema)(made_up(prompt).data) is None


def test_an_estimate_tells_money_time_and_what_bounds_it() -> None:
    counts = {
        "a.v1 m/calls_sent": 100,
        "a.v1 m/tokens_prompt": 50_000,
        "a.v1 m/tokens_completion": 2_500,
        "typical_examples": 100,
    }
    price = {"m": Price(10.0, 1.0, 40.0, "somebody", "2026-11-01")}
    found = estimate(counts, price, {("m",): Pace(10)})
    assert found.cost == pytest.approx(0.5 + 0.1)
    assert (found.time.bound, found.time.latency, found.time.seconds) == ("concurrency", 1.0, 10.0)
    slow = estimate(counts, price, {("m",): Pace(10, rpm=20, tpm=100_000)}).time
    assert (slow.bound, slow.seconds) == ("rpm", 300.0)
    slower = estimate(counts, price, {("m",): Pace(10, rpm=20, tpm=5_000)})
    assert (slower.time.bound, slower.time.seconds) == ("tpm", 630.0)
    told = render_estimate(slower)
    assert "cost: 0.6000 USD (somebody, 2026-11-01)" in told
    assert "about 10 min, bound by 5,000 tokens a minute" in told
    assert "m: bytes / 4.1, an estimate" in told
    unpriced = estimate(counts, {}, {("m",): Pace(1)})
    assert "cost: unknown, no price of m" in render_estimate(unpriced)


def test_prompts_without_answers_are_corrected_by_the_models_ratio() -> None:
    counts = {
        "a.v1 m/observed_calls": 4,
        "a.v1 m/observed_counted": 400,
        "a.v1 m/observed_reported": 600,
        "a.v1 m/observed_squares": 40_000,
        "a.v1 m/observed_products": 60_000,
        "b.v1 m/calls_sent": 2,
        "b.v1 m/tokens_prompt": 200,
        "b.v1 other/calls_sent": 2,
        "b.v1 other/tokens_prompt": 200,
    }
    found = {
        (one.prompt, one.model): one
        for one in estimate(counts, {}, {("m", "other"): Pace(1)}).prompts
    }
    assert found["b.v1", "m"].prompt_tokens == 300
    assert found["b.v1", "other"].prompt_tokens == 200


def test_nothing_to_call_takes_no_time() -> None:
    found = estimate({}, {}, {("m",): Pace(8)})
    assert (found.calls, found.cost, found.time.seconds) == (0, 0, 0.0)
    assert "time: about 0 s" in render_estimate(found)


def test_batches_take_the_time_that_the_endpoint_takes() -> None:
    told = render_estimate(estimate({}, {}, {("m",): Pace(8)}), by_batch=True)
    assert "time: a batch is answered within a day" in told
    assert "in flight" not in told


@pytest.mark.parametrize(
    ("seconds", "told"), [(0, "0 s"), (89, "89 s"), (600, "10 min"), (7200, "2.0 h")]
)
def test_durations_for_reading(seconds: float, told: str) -> None:
    assert spoken(seconds) == told
