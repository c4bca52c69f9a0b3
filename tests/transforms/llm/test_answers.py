"""The class of a reply is decided by status, code and the fields made for it."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transforms.llm.answers import PAID, Verdict, classify, retry_after, usage_of
from transforms.llm.calls import CallClass
from transforms.llm.fake_endpoint.replies import completion
from transforms.llm.json_schema import validator

VALIDATE = validator(
    {
        "type": "object",
        "properties": {"u": {"type": "string"}},
        "required": ["u"],
        "additionalProperties": False,
    }
)
GOOD = '{"u":"x"}'


def judged(status: int, body: str) -> Verdict:
    return classify(status, body, VALIDATE)


def error(code: Any, kind: str = "some_error", message: str = "m") -> str:
    return json.dumps({"error": {"message": message, "type": kind, "code": code}})


def flagged(**metadata: Any) -> str:
    return json.dumps({"error": {"code": 403, "message": "flagged", "metadata": metadata}})


def broken_off(code: int, content: str = '{"u":', **error: Any) -> str:
    """A choice that a gateway's provider did not finish."""
    reply = json.loads(completion(content, finish_reason="error"))
    reply["choices"][0]["error"] = {"code": code, "message": "m", **error}
    return json.dumps(reply)


@pytest.mark.parametrize(
    ("status", "body", "expected"),
    [
        (400, error("context_length_exceeded"), CallClass.REQUEST),
        (400, error(None, message="rate limit content_filter 429"), CallClass.REQUEST),
        (400, error("content_filter"), CallClass.CONTENT_FILTER),
        (400, error("content_policy_violation"), CallClass.CONTENT_FILTER),
        (400, error("invalid_prompt"), CallClass.CONTENT_FILTER),
        (400, error("data_inspection_failed"), CallClass.CONTENT_FILTER),
        (403, flagged(reasons=["violence"], flagged_input="..."), CallClass.CONTENT_FILTER),
        (403, flagged(provider_name="one"), CallClass.AUTH),
        (401, flagged(reasons=[]), CallClass.AUTH),
        (200, flagged(reasons=["violence"]), CallClass.CONTENT_FILTER),
        (200, broken_off(502), CallClass.SERVER),
        (200, broken_off(429), CallClass.RATE_LIMITED),
        (200, broken_off(429, type="insufficient_quota"), CallClass.SERVER),
        *((200, broken_off(code), CallClass.SERVER) for code in (401, 402, 403, 404)),
        (200, broken_off(403, metadata={"reasons": ["x"]}), CallClass.CONTENT_FILTER),
        (401, error("invalid_api_key"), CallClass.AUTH),
        (402, error(402), CallClass.BUDGET),
        (403, error(None), CallClass.AUTH),
        (404, error("model_not_found"), CallClass.AUTH),
        (404, "<html>not found</html>", CallClass.AUTH),
        (408, "", CallClass.TIMEOUT),
        (413, "", CallClass.REQUEST),
        (422, error(None), CallClass.REQUEST),
        (429, error("rate_limit_exceeded", message="insufficient_quota"), CallClass.RATE_LIMITED),
        (429, error("insufficient_quota"), CallClass.BUDGET),
        (429, error(None, kind="insufficient_quota"), CallClass.BUDGET),
        (429, "slow down", CallClass.RATE_LIMITED),
        (500, error("invalid_api_key"), CallClass.SERVER),
        (503, "<html></html>", CallClass.SERVER),
        (529, "", CallClass.SERVER),
        (302, "", CallClass.REQUEST),
        (200, "", CallClass.SERVER),
        (200, "<html></html>", CallClass.SERVER),
        (200, "[]", CallClass.SERVER),
        (200, '{"choices":[]}', CallClass.SERVER),
        (200, '{"choices":[{"finish_reason":"stop"}]}', CallClass.SERVER),
        (200, error(429), CallClass.RATE_LIMITED),
        (200, error("weird"), CallClass.SERVER),
        (204, "", CallClass.SERVER),
        (200, completion(GOOD), CallClass.OK),
        (200, "\ufeff" + completion(GOOD), CallClass.OK),
        (200, completion(GOOD, refusal="no"), CallClass.REFUSED),
        (200, completion(None, refusal="no", finish_reason="length"), CallClass.REFUSED),
        (200, completion("", finish_reason="content_filter"), CallClass.CONTENT_FILTER),
        (200, completion(GOOD, finish_reason="length"), CallClass.TRUNCATED),
        (200, completion(None), CallClass.BAD_JSON),
        (200, completion("As an AI I'd rather not."), CallClass.BAD_JSON),
        (200, completion('{"u":"x"'), CallClass.BAD_JSON),
        (200, completion('["x"]'), CallClass.BAD_JSON),
        (200, completion('{"u":NaN}'), CallClass.BAD_JSON),
        (200, completion('{"u":"\\ud800"}'), CallClass.BAD_JSON),
        (200, completion('{"u":"a\\u0000b"}'), CallClass.BAD_JSON),
        (200, completion('{"u":"x","v":[{"\\u0000":1}]}'), CallClass.BAD_JSON),
        (200, completion('{"u":"a\\\\u0000b"}'), CallClass.OK),
        (200, completion('{"u":"\\u0041","v":' + "[" * 900 + "]" * 900 + "}"), CallClass.SCHEMA),
        (200, completion('{"u":1}'), CallClass.SCHEMA),
        (200, completion("{}"), CallClass.SCHEMA),
        (200, completion('{"u":"x","v":1}'), CallClass.SCHEMA),
    ],
)
def test_every_reply_has_one_class(status: int, body: str, expected: CallClass) -> None:
    verdict = judged(status, body)
    assert verdict.call_class is expected
    assert (verdict.data is not None) == (expected is CallClass.OK)
    assert (verdict.detail is None) == (expected is CallClass.OK)


def test_the_first_choice_that_is_paid_for_counts() -> None:
    good = json.loads(completion(GOOD))
    broken = json.loads(broken_off(502))["choices"]
    both = {**good, "choices": [*broken, None, *good["choices"]]}
    assert judged(200, json.dumps(both)) == judged(200, completion(GOOD))


def test_an_error_beside_a_choice_that_is_kept_leaves_it_as_it_was_taken() -> None:
    for body, expected in (
        (broken_off(502), CallClass.BAD_JSON),
        (broken_off(401, GOOD), CallClass.OK),
        (broken_off(403, metadata={"reasons": ["x"]}), CallClass.CONTENT_FILTER),
    ):
        assert classify(200, body, VALIDATE, kept=True).call_class is expected


@pytest.mark.parametrize(
    "content",
    [
        f"Here you are:\n```json\n{GOOD}\n```\nAnything else?",
        f"```\n{GOOD}\n```",
        f"Sure! {GOOD} Hope that helps {{",
        f"  {GOOD}\n",
    ],
)
def test_an_object_among_words_is_found_only_when_the_answer_was_finished(content: str) -> None:
    assert judged(200, completion(content)).data == {"u": "x"}
    if content.strip() != GOOD:
        body = completion(content, finish_reason="other")
        assert judged(200, body).call_class is CallClass.BAD_JSON


def test_details_never_quote_what_was_said() -> None:
    for status, body in (
        (400, error("not a code but harmful words", message="harmful words")),
        (200, completion("harmful words")),
        (200, completion('{"u": "harmful words", "harmful words": 1}')),
        (200, completion(None, refusal="harmful words")),
    ):
        detail = judged(status, body).detail
        assert detail is not None
        assert "harmful" not in detail
    assert judged(429, error("slow_down")).detail == "HTTP 429, code slow_down"


def test_tokens_are_what_the_endpoint_says() -> None:
    verdict = judged(200, completion(GOOD, tokens=7))
    assert (verdict.prompt_tokens, verdict.completion_tokens) == (100, 7)
    assert (verdict.metered, verdict.status) == (True, 200)
    without = judged(200, '{"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":0}}')
    assert (without.call_class, without.prompt_tokens) == (CallClass.SERVER, 9)
    assert without.metered
    assert without.is_unreadable
    assert not judged(200, error(502)).is_unreadable


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        ({"prompt_tokens": 250, "completion_tokens": 20}, (250, 20, 0, True)),
        ({"prompt_tokens": 250, "completion_tokens": 0}, (250, 0, 0, True)),
        ({"prompt_tokens": 250.0, "completion_tokens": 500.0}, (250, 500, 0, True)),
        # What the model thought is in the total alone.
        ({"prompt_tokens": 250, "completion_tokens": 20, "total_tokens": 762}, (250, 512, 0, True)),
        ({"prompt_tokens": 250, "completion_tokens": 20, "total_tokens": 1}, (250, 20, 0, True)),
        (
            {"prompt_tokens": 250, "completion_tokens": None, "total_tokens": 260},
            (250, 10, 0, True),
        ),
        ({"completion_tokens": 20, "total_tokens": 270}, (250, 20, 0, True)),
        ({"prompt_tokens": 250}, (250, 0, 0, False)),
        ({"prompt_tokens": 250, "completion_tokens": 0.5}, (250, 0, 0, False)),
        ({"prompt_tokens": True, "completion_tokens": "3"}, (0, 0, 0, False)),
        ({"prompt_tokens": -1, "completion_tokens": 20}, (0, 20, 0, False)),
        ({"prompt_tokens": 10**400, "completion_tokens": 1e999}, (10**9, 0, 0, False)),
        (
            {
                "prompt_tokens": 9,
                "completion_tokens": 1,
                "prompt_tokens_details": {"cached_tokens": 64},
            },
            (9, 1, 9, True),
        ),
        (None, (0, 0, 0, False)),
    ],
)
def test_usage_is_whole_or_known_not_to_be(usage: object, expected: tuple[Any, ...]) -> None:
    assert usage_of(usage) == expected


@given(
    st.integers(100, 599),
    st.one_of(
        st.text(),
        st.recursive(
            st.one_of(st.none(), st.integers(), st.text(max_size=5)),
            lambda inner: st.one_of(
                st.lists(inner, max_size=2),
                st.dictionaries(
                    st.sampled_from(["choices", "error", "message", "content", "usage", "code"]),
                    inner,
                    max_size=3,
                ),
            ),
        ).map(json.dumps),
    ),
)
def test_no_reply_is_beyond_it(status: int, body: str) -> None:
    verdict = judged(status, body)
    assert isinstance(verdict.call_class, CallClass)
    assert verdict.call_class in PAID or status != 200 or verdict.data is None


NOW = datetime(2026, 11, 30, 12, 0, 0, tzinfo=timezone.utc)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": "1.5"}, 1.5),
        ({"retry-after": "-3"}, 0.0),
        ({"retry-after-ms": "250", "retry-after": "7"}, 0.25),
        ({"retry-after": "Mon, 30 Nov 2026 12:01:30 GMT"}, 90.0),
        ({"retry-after": "Mon, 30 Nov 2026 11:00:00 GMT"}, 0.0),
        ({"retry-after": "Mon, 30 Nov 2026 12:00:10 -0000"}, 10.0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "Wed, 21 Oct 99999999999999999999 07:28:00 GMT"}, None),
        ({"retry-after": ""}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "nan"}, None),
    ],
)
def test_retry_after(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after(headers, NOW) == seconds
