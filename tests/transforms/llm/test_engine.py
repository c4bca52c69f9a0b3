"""The engine against an endpoint on loopback: bounds, faults, retries, nothing repeated."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from tests.transforms.llm.memory_filesystem import MemoryFileSystem
from transforms.llm import cache as cache_module
from transforms.llm import congestion, retrying, segments
from transforms.llm import engine as engine_module
from transforms.llm.cache import PartitionCache
from transforms.llm.calls import Answer, CallClass, Caller
from transforms.llm.engine import Engine, engine
from transforms.llm.fake_endpoint.latency import constant, uniform
from transforms.llm.fake_endpoint.replies import Reply, completion, failure
from transforms.llm.fake_endpoint.server import FakeEndpoint
from transforms.llm.prompts import Prompt
from transforms.llm.replay import gather
from transforms.llm.settings import EngineSettings, StructuredMode
from transforms.llm.statistics import statistics

Make = Callable[..., EngineSettings]
WAIT = 60


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    for call_class, rule in retrying.RULES.items():
        quick = replace(rule, first_wait=0.01, longest_wait=0.02)
        monkeypatch.setitem(retrying.RULES, call_class, quick)
    monkeypatch.setattr(congestion, "_FIRST_PAUSE", 0.01)
    monkeypatch.setattr(congestion, "_FASTER", 100.0)


def single(prompt: Prompt, sample: int = 0) -> Callable[[str, Caller], Any]:
    async def work(situation: str, caller: Caller) -> Answer:
        return await caller(prompt, {"situation": situation}, sample=sample)

    return work


def names(count: int) -> list[str]:
    return [f"situation {number}" for number in range(count)]


def one(made: Engine, prompt: Prompt, situation: str = "x", partition: int = 0) -> Answer:
    answer: Answer = made.submit(partition, [situation], single(prompt)).result(WAIT)[0]
    return answer


def test_answers_come_in_the_items_order_and_are_never_asked_for_twice(
    prompt: Prompt, settings: Make
) -> None:
    with FakeEndpoint(latency=uniform(0.0, 0.04)) as endpoint:
        made = engine(settings(endpoint.base_url))
        cold, warm = Counter[str](), Counter[str]()
        first = made.submit(1, names(30), single(prompt), cold).result(WAIT)
        again = made.submit(1, names(30), single(prompt), warm)
        assert again.done()  # from the cache alone, without the event loop
        assert endpoint.requests == 30
    assert [answer.data for answer in first] == [answer.data for answer in again.result()]
    assert len({answer.request for answer in first}) == 30
    assert {answer.attempts for answer in first} == {1}
    assert {answer.attempts for answer in again.result()} == {0}
    assert (cold["calls_sent"], cold["class_ok"], cold["keys_done"]) == (30, 30, 30)
    assert cold["tokens_prompt"] == endpoint.prompt_tokens
    assert (warm["calls_sent"], warm["calls_cached"], warm["keys_done"]) == (0, 30, 30)


def test_dependent_and_parallel_calls_replay_what_is_there(prompt: Prompt, settings: Make) -> None:
    async def dialogue(situation: str, caller: Caller) -> list[str]:
        opening = await caller(prompt, {"situation": situation})
        assert opening.data is not None
        votes = await gather(
            *(caller(prompt, {"situation": opening.data["utterance"]}, sample=n) for n in range(3))
        )
        return [opening.data["utterance"], *(vote.request for vote in votes)]

    with FakeEndpoint() as endpoint:
        made = engine(settings(endpoint.base_url))
        openings = made.submit(0, names(5), single(prompt)).result(WAIT)
        counts = Counter[str]()
        first = made.submit(0, names(8), dialogue, counts).result(WAIT)
        assert endpoint.requests == 5 + 3 + 8 * 3
        assert made.submit(0, names(8), dialogue).result(0) == first
    assert [row[0] for row in first[:5]] == [answer.data["utterance"] for answer in openings]
    assert counts["calls_sent"] == 27
    assert all(len(set(row)) == 4 for row in first)


def test_never_more_in_flight_than_allowed(prompt: Prompt, settings: Make) -> None:
    with FakeEndpoint(latency=constant(0.01)) as endpoint:
        made = engine(settings(endpoint.base_url, concurrency=7))
        futures = [made.submit(number, names(20), single(prompt)) for number in range(4)]
        for future in futures:
            future.result(WAIT)
        assert endpoint.peak == 7
    assert statistics.in_flight == 0


def test_items_are_started_as_there_is_room_for_them(prompt: Prompt, settings: Make) -> None:
    started = []

    async def work(situation: str, caller: Caller) -> Answer:
        started.append(situation)
        return await caller(prompt, {"situation": situation})

    gate = threading.Event()
    seen: list[int] = []

    def script(index: int, body: Mapping[str, Any]) -> None:
        if index == 0:
            gate.wait(10)
            seen.append(len(started))

    with FakeEndpoint(script) as endpoint:
        made = engine(settings(endpoint.base_url, concurrency=3))
        future = made.submit(0, names(50), work)
        while len(started) < 6:
            time.sleep(0.005)
        gate.set()
        assert len(future.result(WAIT)) == 50
    assert seen == [6]


def test_a_straggler_holds_up_nobody_else(prompt: Prompt, settings: Make) -> None:
    slow = threading.Event()

    def script(index: int, body: Mapping[str, Any]) -> Reply | None:
        if body["messages"][-1]["content"].endswith("situation 0"):
            slow.set()
            return Reply(delay=30)
        return None

    with FakeEndpoint(script) as endpoint:
        made = engine(settings(endpoint.base_url, concurrency=4))
        straggling = made.submit(0, names(1), single(prompt))
        assert slow.wait(WAIT)
        assert len(made.submit(1, names(40)[1:], single(prompt)).result(WAIT)) == 39
        assert not straggling.done()
        straggling.cancel()


def test_items_in_progress_are_finished_before_new_ones_begin(
    prompt: Prompt, settings: Make
) -> None:
    async def two(situation: str, caller: Caller) -> None:
        await caller(prompt, {"situation": f"first of {situation}"})
        await caller(prompt, {"situation": f"second of {situation}"})

    with FakeEndpoint() as endpoint:
        engine(settings(endpoint.base_url, concurrency=1)).submit(0, names(6), two).result(WAIT)
        asked = [body["messages"][-1]["content"].split()[1] for body in endpoint.bodies]
    begun = [asked[:n].count("first") - asked[:n].count("second") for n in range(len(asked))]
    assert max(begun) <= 2  # items started at once are twice the calls in flight


def test_identical_requests_in_flight_are_one_call(prompt: Prompt, settings: Make) -> None:
    with FakeEndpoint(latency=constant(0.1)) as endpoint:
        made = engine(settings(endpoint.base_url))
        counts = Counter[str]()
        futures = [made.submit(p, ["same"] * 5, single(prompt), counts) for p in (0, 1)]
        requests = {answer.request for future in futures for answer in future.result(WAIT)}
        assert (len(requests), endpoint.requests) == (1, 1)
        # Both partitions have it from now on.
        for partition in (0, 1):
            assert made.submit(partition, ["same"], single(prompt)).done()
        assert endpoint.requests == 1
        assert made.submit(0, ["same"], single(prompt, sample=1)).result(WAIT)[0].ok
        assert endpoint.requests == 2


def test_a_fault_of_the_program_ends_the_job_and_is_raised(prompt: Prompt, settings: Make) -> None:
    async def work(situation: str, caller: Caller) -> None:
        await caller(prompt, {"situation": situation})
        if situation.endswith("2"):
            raise KeyError("a fault of the program")
        await asyncio.sleep(3600)

    with FakeEndpoint() as endpoint:
        made = engine(settings(endpoint.base_url))
        with pytest.raises(KeyError, match="a fault of the program"):
            made.submit(0, names(5), work).result(WAIT)
        with pytest.raises(KeyError):  # the same while the call is replayed
            made.submit(0, names(3)[2:], work).result(WAIT)
        assert one(made, prompt, "afterwards").ok


def test_whatever_keeps_a_cache_from_being_closed_is_raised(
    prompt: Prompt, settings: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fault(cache: PartitionCache) -> None:
        raise KeyError("a fault of the program")

    monkeypatch.setattr(PartitionCache, "close", fault)

    async def work(item: str, caller: Caller) -> bool:
        return (await caller(prompt, {"situation": item})).ok

    with FakeEndpoint() as endpoint, pytest.raises(KeyError, match="a fault"):
        engine(settings(endpoint.base_url)).submit(0, ["a"], work).result(30)


@pytest.mark.parametrize("comes_back", [True, False])
def test_while_the_store_takes_nothing_no_further_call_is_paid(
    comes_back: bool,
    prompt: Prompt,
    settings: Make,
    memory: type[MemoryFileSystem],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("FLUSH_SECONDS", "_LONGEST_PAUSE"):
        monkeypatch.setattr(segments, name, 0.01)
    for name in ("HOLD_SECONDS", "_LOOK_SECONDS"):
        monkeypatch.setattr(cache_module, name, 0.02)
    for module in (cache_module, segments):
        monkeypatch.setattr(module, "LONGEST_SECONDS", 30.0 if comes_back else 0.3)
    held = threading.Event()
    caught_up = PartitionCache.caught_up

    async def seen(cache: PartitionCache) -> None:
        held.set()
        await caught_up(cache)

    monkeypatch.setattr(PartitionCache, "caught_up", seen)
    memory.refusals = 10**9
    with FakeEndpoint(latency=constant(0.01)) as endpoint:
        given = settings(endpoint.base_url, concurrency=2, cache="testmemory://bucket/cache")
        future = engine(given).submit(0, names(200), single(prompt))
        assert held.wait(WAIT)
        assert endpoint.requests < 200
        if comes_back:
            memory.refusals = 0
            answers = future.result(WAIT)
            assert all(answer.ok for answer in answers)
            assert endpoint.requests == 200
            engine_module.close_engines()
            again = engine(given).submit(0, names(200), single(prompt)).result(WAIT)
            assert [answer.data for answer in again] == [answer.data for answer in answers]
        else:
            with pytest.raises(OSError, match="nothing could be written for"):
                future.result(WAIT)
        assert endpoint.requests == (200 if comes_back else endpoint.answered)


def test_a_cancelled_future_stops_its_calls(prompt: Prompt, settings: Make) -> None:
    with FakeEndpoint(lambda index, body: Reply(delay=30)) as endpoint:
        made = engine(settings(endpoint.base_url, concurrency=2))
        future = made.submit(0, names(9), single(prompt))
        while endpoint.requests < 2:
            time.sleep(0.005)
        assert future.cancel()
        endpoint.script = lambda index, body: None
        assert one(made, prompt, "another", partition=1).ok
        assert endpoint.requests == 3


def scripted(*replies: Reply | None) -> Callable[[int, Mapping[str, Any]], Reply | None]:
    return lambda index, body: replies[index] if index < len(replies) else None


@pytest.mark.parametrize(
    "fault",
    [
        failure(429, "rate_limit_exceeded", Retry_After="0"),
        failure(429, "rate_limit_exceeded"),
        failure(500, None),
        failure(503, None, retry_after_ms="5"),
        Reply(cut=True),
        Reply(hang=True),
        Reply(body="<html></html>"),
    ],
)
def test_transient_faults_are_tried_again(fault: Reply, prompt: Prompt, settings: Make) -> None:
    with FakeEndpoint(scripted(fault)) as endpoint:
        made = engine(settings(endpoint.base_url, timeout=0.5))
        counts = Counter[str]()
        (answer,) = made.submit(0, ["x"], single(prompt), counts).result(WAIT)
        assert answer.ok
        assert answer.attempts == endpoint.requests == 2
        assert counts["calls_retried"] == 1


@pytest.mark.parametrize(
    ("fault", "expected", "attempts"),
    [
        (failure(429, "rate_limit_exceeded", Retry_After="0"), CallClass.RATE_LIMITED, 3),
        (failure(503, None), CallClass.SERVER, 3),
        (Reply(cut=True), CallClass.SERVER, 3),
        (Reply(hang=True), CallClass.TIMEOUT, 3),
        (failure(400, "context_length_exceeded"), CallClass.REQUEST, 1),
    ],
)
def test_what_stays_unanswered_ends_in_its_class_and_is_not_cached(
    fault: Reply, expected: CallClass, attempts: int, prompt: Prompt, settings: Make
) -> None:
    with FakeEndpoint(lambda index, body: fault) as endpoint:
        made = engine(settings(endpoint.base_url, timeout=0.3))
        answer = one(made, prompt)
        assert (answer.call_class, answer.attempts) == (expected, attempts)
        assert endpoint.requests == attempts
        endpoint.script = scripted()
        assert one(made, prompt).ok


def test_a_longer_pause_than_a_run_waits_ends_the_calls_unsent(
    prompt: Prompt, settings: Make
) -> None:
    asks = failure(429, "rate_limit_exceeded", Retry_After="3600")
    with FakeEndpoint(lambda index, body: asks) as endpoint:
        made = engine(settings(endpoint.base_url, concurrency=2))
        answers = made.submit(0, names(50), single(prompt)).result(WAIT)
        assert {answer.call_class for answer in answers} == {CallClass.RATE_LIMITED}
        assert endpoint.requests <= 2
        assert sum(answer.attempts for answer in answers) == endpoint.requests
        assert "longer pause" in str(answers[-1].detail)


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        (failure(401, "invalid_api_key"), CallClass.AUTH),
        (failure(404, "model_not_found"), CallClass.AUTH),
        (failure(429, "insufficient_quota"), CallClass.BUDGET),
    ],
)
def test_what_no_call_can_overcome_ends_all_of_them(
    fault: Reply, expected: CallClass, prompt: Prompt, settings: Make
) -> None:
    with FakeEndpoint(lambda index, body: fault) as endpoint:
        made = engine(settings(endpoint.base_url, concurrency=2))
        answers = made.submit(0, names(50), single(prompt)).result(WAIT)
        assert {answer.call_class for answer in answers} == {expected}
        assert endpoint.requests <= 2
        unsent = [answer for answer in answers if not answer.attempts]
        assert len(unsent) == 50 - endpoint.requests
        assert unsent[0].detail is not None
        assert unsent[0].detail.startswith("not sent")


@pytest.mark.parametrize(
    ("reply", "expected", "requests"),
    [
        (Reply(body=completion(None, refusal="no")), CallClass.REFUSED, 1),
        (Reply(body=completion("", finish_reason="content_filter")), CallClass.CONTENT_FILTER, 1),
        (failure(400, "content_filter"), CallClass.CONTENT_FILTER, 1),
        (Reply(body=completion("words")), CallClass.BAD_JSON, 2),
        (Reply(body=completion('{"u": 1}')), CallClass.SCHEMA, 2),
        (Reply(body=completion('{"utt', finish_reason="length")), CallClass.TRUNCATED, 2),
    ],
)
def test_paid_answers_are_cached_whatever_they_are(
    reply: Reply, expected: CallClass, requests: int, prompt: Prompt, settings: Make
) -> None:
    with FakeEndpoint(lambda index, body: reply) as endpoint:
        made = engine(settings(endpoint.base_url))
        first, again = one(made, prompt), one(made, prompt)
        assert first.call_class is again.call_class is expected
        assert first.request == again.request
        assert endpoint.requests == requests


def test_a_cut_answer_is_asked_for_once_with_twice_the_room(prompt: Prompt, settings: Make) -> None:
    cut = Reply(body=completion('{"utterance":"I wa', finish_reason="length"))
    with FakeEndpoint(scripted(cut)) as endpoint:
        made = engine(settings(endpoint.base_url))
        answer = one(made, prompt)
        assert answer.ok
        assert [body["max_tokens"] for body in endpoint.bodies] == [100, 200]
        assert one(made, prompt) == Answer(CallClass.OK, answer.request, answer.data, model="fake")
        assert endpoint.requests == 2


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        ('I would rather "not" say.', "no JSON object"),
        ('{"utterance":3}', "utterance"),
        ("", "without content"),
    ],
)
def test_a_malformed_answer_is_asked_for_once_with_its_fault_named(
    content: str, fault: str, prompt: Prompt, settings: Make
) -> None:
    with FakeEndpoint(scripted(Reply(body=completion(content)))) as endpoint:
        made = engine(settings(endpoint.base_url))
        counts = Counter[str]()
        (answer,) = made.submit(0, ["x"], single(prompt), counts).result(WAIT)
        assert answer.ok
        first, second = endpoint.bodies
        assert second["messages"][:2] == first["messages"]
        shown, correction = second["messages"][2:]
        assert shown == {"role": "assistant", "content": content or "(nothing)"}
        assert correction["role"] == "user"
        assert fault in correction["content"]
        assert {**first, "messages": None} == {**second, "messages": None}
        assert counts["calls_sent"] == 2
        assert counts["tokens_prompt"] > 100  # of both; the first says that it used so many
        # Both are in the cache, each under its own key.
        assert one(made, prompt) == Answer(CallClass.OK, answer.request, answer.data, model="fake")
        assert endpoint.requests == 2


def test_an_answer_malformed_twice_stays_what_it_was(prompt: Prompt, settings: Make) -> None:
    refusal = Reply(body=completion(None, refusal="no"))
    words, cut = Reply(body=completion("words")), Reply(body=completion("", "length"))
    for case, second in enumerate([words, refusal, cut, failure(400, "context_length_exceeded")]):
        with FakeEndpoint(scripted(words, second)) as endpoint:
            made = engine(settings(endpoint.base_url))
            answer = one(made, prompt, f"case {case}")
            assert answer.call_class is CallClass.BAD_JSON
            assert endpoint.requests == 2


def test_a_correction_that_may_do_better_another_time_ends_the_item_for_now(
    prompt: Prompt, settings: Make
) -> None:
    words = Reply(body=completion("words"))
    with FakeEndpoint(scripted(words, *[failure(503, None)] * 3)) as endpoint:
        made = engine(settings(endpoint.base_url))
        assert one(made, prompt).call_class is CallClass.SERVER
        assert one(made, prompt).ok
        assert endpoint.requests == 5


def test_bytes_that_are_no_text_are_kept_and_classified(prompt: Prompt, settings: Make) -> None:
    broken = completion('{"utterance":"HERE"}').replace("HERE", "\udcff")
    with FakeEndpoint(lambda index, body: Reply(body=broken)) as endpoint:
        made = engine(settings(endpoint.base_url))
        assert one(made, prompt).call_class is CallClass.BAD_JSON
        assert one(made, prompt).call_class is CallClass.BAD_JSON
        assert endpoint.requests == 2


def test_threads_may_submit_at_once(prompt: Prompt, settings: Make) -> None:
    answers: dict[int, list[Answer]] = {}
    with FakeEndpoint(latency=constant(0.002)) as endpoint:
        given = settings(endpoint.base_url, concurrency=8)

        def submit(number: int) -> None:
            # Every second thread works on a partition that another one works on too.
            work = single(prompt)
            answers[number] = engine(given).submit(number // 2, names(25), work).result(WAIT)

        threads = [threading.Thread(target=submit, args=(number,)) for number in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert endpoint.peak <= 8
        assert 25 <= endpoint.requests <= 75
    requests = {tuple(answer.request for answer in each) for each in answers.values()}
    assert len(answers) == 6
    assert len(requests) == 1


@pytest.mark.parametrize("mode", list(StructuredMode))
def test_every_structured_mode_gives_answers(
    mode: StructuredMode, prompt: Prompt, settings: Make
) -> None:
    with FakeEndpoint() as endpoint:
        assert one(engine(settings(endpoint.base_url, structured=mode)), prompt).ok


def test_a_forked_child_has_engines_of_its_own(prompt: Prompt, settings: Make) -> None:
    with FakeEndpoint() as endpoint:
        given = settings(endpoint.base_url)
        before = engine(given)
        engine_module._forget_engines()  # what a fork does in the child
        after = engine(given)
        assert after is not before
        assert one(after, prompt).ok
        assert one(before, prompt, "y").ok
        before.close()


def test_closing_breaks_off_what_is_in_work(prompt: Prompt, settings: Make) -> None:
    with FakeEndpoint(lambda index, body: Reply(hang=True)) as endpoint:
        made = engine(settings(endpoint.base_url, concurrency=2))
        futures = [made.submit(number, names(9), single(prompt)) for number in range(3)]
        while endpoint.requests < 2:
            time.sleep(0.005)
        engine_module.close_engines()
        for future in futures:
            assert isinstance(future.exception(WAIT), concurrent.futures.CancelledError)


def test_one_engine_for_equal_settings(settings: Make) -> None:
    with FakeEndpoint() as endpoint:
        first = settings(endpoint.base_url)
        assert engine(first) is engine(settings(endpoint.base_url))
        assert engine(settings(endpoint.base_url, concurrency=3)) is not engine(first)


def test_the_key_is_sent_and_found_nowhere_else(
    prompt: Prompt, settings: Make, monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test-secret")
    caplog.set_level("DEBUG", "remint")
    with FakeEndpoint(key="sk-test-secret") as endpoint:
        given = settings(endpoint.base_url)
        answer = one(engine(given), prompt)
        assert answer.ok
    assert "secret" not in repr(given) + repr(answer) + caplog.text
