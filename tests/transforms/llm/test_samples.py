"""Several samples in one call: none is paid twice, none is lost, whatever choices come."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from transforms.llm.answers import classify
from transforms.llm.calls import Answer, CallClass, Caller
from transforms.llm.engine import close_engines, engine
from transforms.llm.fake_endpoint.faults import FaultPlan
from transforms.llm.fake_endpoint.replies import Choice, Completion, Reply, failure
from transforms.llm.fake_endpoint.server import FakeEndpoint
from transforms.llm.prompts import Prompt
from transforms.llm.samples import split_choices
from transforms.llm.settings import EngineSettings

Make = Callable[..., EngineSettings]


def asked(
    settings: EngineSettings, prompt: Prompt, number: int, items: int = 1
) -> tuple[list[list[Answer]], Counter[str]]:
    """Return the answers of a new engine to so many samples for each item, and its counts."""

    async def work(situation: str, caller: Caller) -> list[Answer]:
        return await caller.samples(prompt, {"situation": situation}, range(number))

    close_engines()
    counts: Counter[str] = Counter()
    situations = [f"situation {item}" for item in range(items)]
    answers = engine(settings).submit(0, situations, work, counts).result(60)
    return answers, counts


def test_one_call_brings_three_samples_and_a_later_run_makes_none(
    prompt: Prompt, settings: Make
) -> None:
    with FakeEndpoint() as endpoint:
        given = settings(endpoint.base_url, samples_per_call=3)
        answers, counts = asked(given, prompt, 3, items=5)
        assert endpoint.requests == counts["calls_sent"] == 5
        assert {body["n"] for body in endpoint.bodies} == {3}
        assert counts["class_ok"] == 15
        assert counts["tokens_prompt"] == endpoint.prompt_tokens
        assert counts["tokens_completion"] == endpoint.completion_tokens
        for own in answers:
            assert len({answer.request for answer in own}) == 3
            assert len({json.dumps(answer.data) for answer in own}) == 3
        # The same samples are found one by one, too: their keys are those of calls for one each.
        for later in (given, settings(endpoint.base_url)):
            again, counts = asked(later, prompt, 3, items=5)
            assert [[answer.data for answer in own] for own in again] == [
                [answer.data for answer in own] for own in answers
            ]
            assert (endpoint.requests, counts["calls_cached"]) == (5, 15)


def test_only_missing_samples_are_asked_for_in_calls_of_that_many(
    prompt: Prompt, settings: Make
) -> None:
    with FakeEndpoint() as endpoint:
        asked(settings(endpoint.base_url), prompt, 1)
        asked(settings(endpoint.base_url, samples_per_call=3), prompt, 8)
        assert "n" not in endpoint.bodies[0]
        assert sorted(body.get("n") or 1 for body in endpoint.bodies) == [1, 1, 3, 3]


@pytest.mark.parametrize("come", [1, 2, 5])
def test_choices_that_do_not_come_are_asked_for_again(
    prompt: Prompt, settings: Make, come: int
) -> None:
    def script(index: int, body: Mapping[str, Any]) -> Reply:
        choices = [Choice(f'{{"utterance":"{index} {number}"}}') for number in range(come)]
        return Reply(body=Completion(choices, 100, 10 * come).worded())

    with FakeEndpoint(script) as endpoint:
        (answers,), _ = asked(settings(endpoint.base_url, samples_per_call=4), prompt, 4)
        assert all(answer.ok for answer in answers)
        assert endpoint.requests == {1: 4, 2: 2, 5: 1}[come]
        texts = [answer.data["utterance"] for answer in answers if answer.data]
        assert len(set(texts)) == 4


def test_a_reply_that_can_not_be_divided_is_paid_for_once(prompt: Prompt, settings: Make) -> None:
    def script(index: int, body: Mapping[str, Any]) -> Reply:
        choices = [Choice(f'{{"utterance":"{index} {number}"}}') for number in range(3)]
        return Reply(body=Completion(choices, 100, 30).worded()[:-1] + ',"created":1e999}')

    with FakeEndpoint(script) as endpoint:
        (answers,), _ = asked(settings(endpoint.base_url, samples_per_call=3), prompt, 3)
        assert [body.get("n") or 1 for body in endpoint.bodies] == [3, 1, 1, 1]
        assert len({answer.data["utterance"] for answer in answers if answer.data}) == 3


def test_items_share_a_call_for_several_samples_only_where_it_is_for_the_same(
    prompt: Prompt, settings: Make
) -> None:
    async def work(samples: str, caller: Caller) -> list[Answer]:
        numbers = [int(number) for number in samples]
        return await caller.samples(prompt, {"situation": "the same"}, numbers)

    def script(index: int, body: Mapping[str, Any]) -> Reply:
        choices = [Choice(f'{{"utterance":"{index} {number}"}}') for number in range(2)]
        return Reply(body=Completion(choices, 100, 20).worded(), delay=0.1)

    with FakeEndpoint(script) as endpoint:
        given = settings(endpoint.base_url, samples_per_call=2)
        first, second = engine(given).submit(0, ["02", "01"], work).result(60)
        assert endpoint.requests == 2
        assert len({str(answer.data) for answer in (*first, second[1])}) == 3


def test_each_choice_ends_in_a_class_of_its_own(prompt: Prompt, settings: Make) -> None:
    def script(index: int, body: Mapping[str, Any]) -> Reply | None:
        if index:
            return None
        good = Choice('{"utterance":"Yes."}')
        cut = Choice('{"utterance":"Ye', "length")
        refused = Choice(None, refusal="No.")
        return Reply(body=Completion([good, cut, refused], 100, 31).worded())

    with FakeEndpoint(script) as endpoint:
        (answers,), _ = asked(settings(endpoint.base_url, samples_per_call=3), prompt, 3)
        # The cut one was asked for once more, alone and with more room.
        assert [answer.call_class for answer in answers] == [
            CallClass.OK,
            CallClass.OK,
            CallClass.REFUSED,
        ]
        assert [(body.get("n"), body["max_tokens"]) for body in endpoint.bodies] == [
            (3, 100),
            (None, 200),
        ]


def test_a_choice_that_broke_off_is_asked_for_again_alone(prompt: Prompt, settings: Make) -> None:
    def script(index: int, body: Mapping[str, Any]) -> Reply | None:
        if index:
            return None
        reply = json.loads(Completion([Choice('{"utterance":"Yes."}')] * 3, 100, 30).worded())
        reply["choices"][0]["error"] = {"code": 401, "message": "as scripted"}
        return Reply(body=json.dumps(reply))

    with FakeEndpoint(script) as endpoint:
        (answers,), _ = asked(settings(endpoint.base_url, samples_per_call=3), prompt, 3)
        assert all(answer.ok for answer in answers)
        assert [body.get("n") for body in endpoint.bodies] == [3, None]


def test_no_choices_for_one_sample_are_paid_for_three_times(prompt: Prompt, settings: Make) -> None:
    with FakeEndpoint(lambda index, body: Reply(body='{"choices":[]}')) as endpoint:
        given = settings(endpoint.base_url, samples_per_call=3, retries=20)
        ((answer,),), _ = asked(given, prompt, 1)
        assert (answer.call_class, answer.attempts) == (CallClass.SERVER, 3)
        assert endpoint.requests == 3


@pytest.mark.parametrize(
    ("reply", "call_class", "requests"),
    [
        (failure(500, None), CallClass.SERVER, 3),
        (failure(400, "content_filter"), CallClass.CONTENT_FILTER, 1),
        (failure(400, "unsupported"), CallClass.REQUEST, 1),
        (Reply(body='{"choices":[]}'), CallClass.SERVER, 3),
    ],
)
def test_a_call_that_fails_fails_for_all_its_samples(
    prompt: Prompt, settings: Make, reply: Reply, call_class: CallClass, requests: int
) -> None:
    with FakeEndpoint(lambda index, body: reply) as endpoint:
        (answers,), counts = asked(settings(endpoint.base_url, samples_per_call=3), prompt, 3)
        assert [answer.call_class for answer in answers] == [call_class] * 3
        assert endpoint.requests == counts["calls_sent"] == requests


def test_faults_leave_no_sample_out(prompt: Prompt, settings: Make) -> None:
    faults = FaultPlan({"fewer_choices": 0.1, "500": 0.1, "refusal": 0.1})
    with FakeEndpoint(faults=faults) as endpoint:
        given = settings(endpoint.base_url, samples_per_call=3, retries=20)
        answers, _ = asked(given, prompt, 3, items=40)
        assert endpoint.met["fewer_choices"]
        classes = Counter(answer.call_class for own in answers for answer in own)
        assert classes.total() == 120
        assert set(classes) == {CallClass.OK, CallClass.REFUSED}
        before = endpoint.requests
        again, _ = asked(given, prompt, 3, items=40)
        assert endpoint.requests == before
        assert [[each.data for each in own] for own in again] == [
            [each.data for each in own] for own in answers
        ]


def test_the_most_that_all_samples_may_cost_is_reserved(prompt: Prompt, settings: Make) -> None:
    with FakeEndpoint() as endpoint:
        given = settings(endpoint.base_url, samples_per_call=3, max_calls=1)
        answers, _ = asked(given, prompt, 3, items=2)
        assert Counter(answer.call_class for own in answers for answer in own) == {
            CallClass.OK: 3,
            CallClass.BUDGET: 3,
        }
        assert endpoint.requests == 1


def test_parts_use_what_the_whole_used(tmp_path: Path) -> None:
    whole = Completion([Choice("{}")] * 3, 100, 32).worded()
    parts = [classify(200, body, lambda data: None) for body in split_choices(whole) or []]
    assert [part.prompt_tokens for part in parts] == [100, 0, 0]
    assert [part.completion_tokens for part in parts] == [11, 11, 10]
    usage = {"prompt_tokens": 100, "completion_tokens": 12.0, "total_tokens": 132}
    reasoned = json.dumps({**json.loads(whole), "usage": usage})
    parts = [classify(200, body, lambda data: None) for body in split_choices(reasoned) or []]
    assert [part.completion_tokens for part in parts] == [11, 11, 10]
    assert split_choices(whole[:-1] + ',"created":1e999}') is None
    assert split_choices("no JSON") == split_choices("[]") == split_choices("{}") == []
