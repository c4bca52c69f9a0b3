"""Refusals that are of a model, and those that are of one request."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from transforms.llm.answers import Verdict
from transforms.llm.calls import Answer, CallClass, Caller
from transforms.llm.engine import engine
from transforms.llm.fake_endpoint.replies import Reply, failure
from transforms.llm.fake_endpoint.server import FakeEndpoint
from transforms.llm.model_access import ModelAccess
from transforms.llm.prompts import Prompt
from transforms.llm.routes import Route
from transforms.llm.settings import EngineSettings

Make = Callable[..., EngineSettings]

OK = Verdict(CallClass.OK, status=200)
FORBIDDEN, UNKNOWN = (Verdict(CallClass.AUTH, status=status) for status in (403, 404))


@pytest.mark.parametrize(
    ("verdicts", "last", "refused"),
    [
        ([UNKNOWN], CallClass.AUTH, True),
        ([FORBIDDEN], CallClass.AUTH, False),
        ([FORBIDDEN] * 19, CallClass.AUTH, False),
        ([FORBIDDEN] * 20, CallClass.AUTH, True),
        ([OK, FORBIDDEN], CallClass.REQUEST, False),
        ([OK, UNKNOWN], CallClass.AUTH, False),
        ([OK, *[UNKNOWN] * 20], CallClass.AUTH, True),
        ([OK, *[FORBIDDEN] * 20], CallClass.AUTH, True),
        ([*[FORBIDDEN] * 19, OK, FORBIDDEN], CallClass.REQUEST, False),
        ([OK, Verdict(CallClass.AUTH, status=401)], CallClass.AUTH, False),  # the limits' affair
    ],
)
def test_what_a_model_has_answered_tells_whose_a_refusal_is(
    verdicts: list[Verdict], last: CallClass, refused: bool
) -> None:
    access = ModelAccess()
    judged = [access.judged(verdict) for verdict in verdicts]
    assert (judged[-1].call_class, access.refused is not None) == (last, refused)


def refusing(text: str, reply: Reply) -> Callable[[int, Mapping[str, Any]], Reply | None]:
    return lambda index, body: reply if text in json.dumps(body) else None


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        (failure(403, None), CallClass.REQUEST),
        (
            Reply(403, '{"error":{"code":403,"metadata":{"reasons":["x"]}}}'),
            CallClass.CONTENT_FILTER,
        ),
    ],
)
def test_one_text_that_is_refused_ends_nothing_else(
    fault: Reply, expected: CallClass, prompt: Prompt, settings: Make
) -> None:
    async def work(item: str, caller: Caller) -> Answer:
        if item == "flagged":
            await asyncio.sleep(0.2)  # not before the model has answered
        return await caller(prompt, {"situation": item})

    items = [*map(str, range(30)), "flagged", *map(str, range(30, 60))]
    with FakeEndpoint(refusing("flagged", fault)) as endpoint:
        answers = engine(settings(endpoint.base_url, concurrency=2)).submit(0, items, work)
        classes = Counter(answer.call_class for answer in answers.result(60))
    assert classes == {CallClass.OK: 60, expected: 1}


def test_a_model_that_there_is_not_leaves_its_fallback_at_the_same_endpoint(
    prompt: Prompt, settings: Make
) -> None:
    async def work(item: str, caller: Caller) -> Answer:
        return await caller(prompt, {"situation": item})

    script = refusing("nowhere", failure(404, "model_not_found"))
    with FakeEndpoint(script) as endpoint:
        given = settings(
            endpoint.base_url,
            model="nowhere",
            concurrency=2,
            max_calls=100,
            further=(settings(endpoint.base_url, concurrency=2),),
            routes=(Route(prompt.id, ((0, 1.0),), (1,)),),
        )
        answers = engine(given).submit(0, [str(item) for item in range(30)], work).result(60)
        assert {(answer.ok, answer.model) for answer in answers} == {(True, "fake")}
        assert Counter(body["model"] for body in endpoint.bodies)["nowhere"] <= 2


@pytest.mark.parametrize("status", [403, 404])
def test_a_refusal_after_an_answer_leaves_the_fallback(
    status: int, prompt: Prompt, settings: Make
) -> None:
    async def work(item: str, caller: Caller) -> Answer:
        return await caller(prompt, {"situation": item})

    with FakeEndpoint(refusing("flagged", failure(status, None))) as one, FakeEndpoint() as other:
        given = settings(
            one.base_url,
            further=(settings(other.base_url, model="other", limits=1),),
            routes=(Route(prompt.id, ((0, 1.0),), (1,)),),
        )
        made = engine(given)
        answers = [made.submit(0, [item], work).result(60)[0] for item in ("fine", "flagged")]
    assert [(answer.ok, answer.model) for answer in answers] == [(True, "fake"), (True, "other")]
