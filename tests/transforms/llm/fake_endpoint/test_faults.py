"""Faults come in the shares asked for, the same for the same requests, and are what they say."""

from __future__ import annotations

import email.utils
import hashlib
import json
from collections import Counter
from datetime import datetime, timezone
from typing import Any

import pytest

from transforms.errors import OptionError
from transforms.llm.answers import classify
from transforms.llm.calls import CallClass
from transforms.llm.fake_endpoint.faults import FAULTS, FaultPlan, draws, parse_shares
from transforms.llm.fake_endpoint.replies import Choice, Completion, Reply
from transforms.llm.json_schema import validator

SCHEMA = {"type": "object", "properties": {"u": {"type": "string"}}, "required": ["u"]}
ORDINARY = Completion([Choice('{"u":"hello there"}')], 10, 5, identity="chatcmpl-1")


def reply(name: str, ordinary: Completion = ORDINARY) -> Reply:
    return FaultPlan({name: 1.0}).reply(name, ordinary)


def test_shares_are_met_and_repeatable() -> None:
    plan = FaultPlan({"429": 0.02, "hang": 0.05})
    bodies = [hashlib.sha256(b"%d" % number).digest() for number in range(20000)]
    met = Counter(plan.fault(draws(body, 1, 0).fault) for body in bodies)
    assert met["429"] == pytest.approx(400, abs=80)
    assert met["hang"] == pytest.approx(1000, abs=130)
    assert set(met) == {"429", "hang", None}
    again = [plan.fault(draws(body, 2, 0).fault) for body in bodies]
    both = [place for place, body in enumerate(bodies) if plan.fault(draws(body, 1, 0).fault)]
    assert sum(again[place] is not None for place in both) < 200  # each attempt draws anew
    assert draws(bodies[0], 1, 0) == draws(bodies[0], 1, 0) != draws(bodies[0], 1, 1)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("429", CallClass.RATE_LIMITED),
        ("429_seconds", CallClass.RATE_LIMITED),
        ("429_date", CallClass.RATE_LIMITED),
        ("500", CallClass.SERVER),
        ("503", CallClass.SERVER),
        ("truncated", CallClass.TRUNCATED),
        ("refusal", CallClass.REFUSED),
        ("content_filter", CallClass.CONTENT_FILTER),
        ("malformed", CallClass.BAD_JSON),
        ("schema", CallClass.SCHEMA),
        ("fewer_choices", CallClass.SERVER),
        ("duplicate_id", CallClass.OK),
        ("wrong_model", CallClass.OK),
    ],
)
def test_each_fault_ends_in_its_class(name: str, expected: CallClass) -> None:
    made = reply(name)
    verdict = classify(made.status, made.body or "", validator(SCHEMA))
    assert verdict.call_class is expected


def test_the_other_faults_are_the_connections() -> None:
    assert reply("hang").hang
    assert reply("cut").cut
    assert reply("slow").pace == FaultPlan({}).slow
    assert len(FAULTS) == 13 + 3


def test_a_429_says_when_to_come_back() -> None:
    assert "retry-after" not in reply("429").headers
    assert reply("429_seconds").headers["retry-after"] == "1"
    date = email.utils.parsedate_to_datetime(reply("429_date").headers["retry-after"])
    assert abs((date - datetime.now(timezone.utc)).total_seconds()) <= 60


def test_answers_of_another_form_keep_the_rest() -> None:
    def body(name: str, ordinary: Completion = ORDINARY) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(reply(name, ordinary).body or "")
        return found

    assert body("duplicate_id")["id"] == body("duplicate_id", Completion([], 1, 1))["id"]
    assert body("wrong_model")["model"] == "another-model"
    two = Completion([Choice("{}"), Choice("{}")], 10, 5)
    assert len(body("fewer_choices", two)["choices"]) == 1
    assert body("truncated")["usage"] == body("refusal")["usage"]


def test_shares_are_parsed_and_checked() -> None:
    assert parse_shares(["429=0.02", "hang=0"]) == {"429": 0.02, "hang": 0.0}
    assert parse_shares(["all=0.01", "hang=0.05"]) == {
        **dict.fromkeys(FAULTS, 0.01),
        "hang": 0.05,
    }
    with pytest.raises(OptionError, match="NAME=SHARE"):
        parse_shares(["429"])
    for shares in ({"418": 0.1}, {"429": -0.1}, {"429": 0.7, "hang": 0.7}):
        with pytest.raises(OptionError, match="--fault"):
            FaultPlan(shares)
