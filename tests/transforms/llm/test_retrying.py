"""Which outcomes are tried again, how often and after how long; nothing sleeps."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import datetime, timedelta, timezone
from email.utils import format_datetime

import pytest

from transforms.llm import retrying
from transforms.llm.answers import Verdict
from transforms.llm.calls import CallClass
from transforms.llm.client import Reply
from transforms.llm.retrying import Outcome, Retrying


@pytest.fixture
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """What was waited for, in seconds; nobody does."""
    waited: list[float] = []

    async def sleep(seconds: float) -> None:
        waited.append(seconds)

    monkeypatch.setattr(retrying.asyncio, "sleep", sleep)
    return waited


def outcomes(
    classes: Sequence[CallClass],
    retries: int = 5,
    seconds: float = 1e9,
    unsent: bool = False,
    **headers: str,
) -> tuple[Outcome, int]:
    """Return the last outcome of attempts that end in these classes, and how many were made."""
    made = 0

    async def attempt() -> Outcome:
        nonlocal made
        made += 1
        call_class = classes[min(made, len(classes)) - 1]
        reply = Reply(0, "", {name.replace("_", "-"): text for name, text in headers.items()})
        return Outcome(None if unsent else reply, Verdict(call_class), made)

    return asyncio.run(Retrying(retries, seconds)(attempt)), made


SERVER, LIMITED, TIMEOUT = CallClass.SERVER, CallClass.RATE_LIMITED, CallClass.TIMEOUT


@pytest.mark.parametrize("call_class", set(CallClass) - {SERVER, LIMITED, TIMEOUT})
def test_what_would_end_the_same_way_is_not_tried_again(
    call_class: CallClass, waits: list[float]
) -> None:
    outcome, made = outcomes([call_class])
    assert (outcome.verdict.call_class, made, waits) == (call_class, 1, [])


@pytest.mark.parametrize(
    ("classes", "made"),
    [
        ([SERVER], 6),
        ([LIMITED], 6),
        ([TIMEOUT], 3),
        ([SERVER, TIMEOUT, LIMITED, TIMEOUT, CallClass.OK], 5),
        ([SERVER, TIMEOUT, LIMITED, TIMEOUT, SERVER, TIMEOUT], 6),
        ([TIMEOUT, SERVER, TIMEOUT, TIMEOUT, CallClass.OK], 4),
        ([LIMITED, CallClass.BUDGET], 2),
        ([SERVER, CallClass.REFUSED], 2),
    ],
)
def test_attempts_are_bounded_in_number_by_class(
    classes: list[CallClass], made: int, waits: list[float]
) -> None:
    outcome, number = outcomes(classes)
    assert number == outcome.attempts == made
    assert outcome.verdict.call_class is classes[min(made, len(classes)) - 1]
    assert len(waits) == made - 1


def test_what_a_200_lacks_is_not_paid_for_six_times(waits: list[float]) -> None:
    async def attempt() -> Outcome:
        waits.append(0.0)
        return Outcome(Reply(200, "", {}), Verdict(SERVER, status=200), 1)

    asyncio.run(Retrying(5, 1e9)(attempt))
    assert waits.count(0.0) == 3


def test_no_retries_are_none(waits: list[float]) -> None:
    assert outcomes([SERVER], retries=0)[1] == 1


def test_what_was_not_admitted_is_not_tried_again(waits: list[float]) -> None:
    assert outcomes([LIMITED], unsent=True)[1] == 1


def test_attempts_are_bounded_in_time(waits: list[float]) -> None:
    assert outcomes([LIMITED], seconds=60, retry_after="61")[1] == 1
    assert outcomes([LIMITED], seconds=60, retry_after="5")[1] == 6
    assert outcomes([SERVER], seconds=0.1)[1] == 1


def test_waits_grow_and_are_drawn_at_random(waits: list[float]) -> None:
    for _ in range(200):
        outcomes([SERVER])
    by_attempt = [waits[number::5] for number in range(5)]
    for number, drawn in enumerate(by_attempt, 1):
        longest = min(30.0, 0.5 * 2**number)
        assert min(drawn) >= 0.5
        assert max(drawn) <= longest
        assert max(drawn) - min(drawn) > (longest - 0.5) / 2
        assert len(set(drawn)) > 100


def test_what_the_endpoint_asks_for_is_waited_for_and_a_little_more(waits: list[float]) -> None:
    outcomes([LIMITED] * 5 + [CallClass.OK], retry_after="7")
    assert all(7.0 <= wait <= 8.0 for wait in waits)
    assert len(set(waits)) == 5
    waits.clear()
    outcomes([SERVER, CallClass.OK], retry_after_ms="1500")
    assert 1.5 <= waits.pop() <= 2.5
    date = format_datetime(datetime.now(timezone.utc) + timedelta(seconds=90), usegmt=True)
    outcomes([LIMITED, CallClass.OK], retry_after=date)
    assert 60.0 <= waits.pop() <= 91.0
