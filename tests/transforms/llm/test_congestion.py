"""Calls in flight and their pace, by what the endpoint answers; no clock runs."""

from __future__ import annotations

import math
from collections import deque

import pytest

from transforms.llm.congestion import Congestion


def answer(congestion: Congestion, number: int, now: float) -> float:
    """Have so many calls answered one by one, others always waiting; return the time."""
    sent: deque[float] = deque()
    for _ in range(number):
        while len(sent) < congestion.window:
            congestion.sent(now)
            sent.append(now)
        now += 0.01
        congestion.answered(sent.popleft())
        congestion.over()
    for _ in sent:
        congestion.over()
    return now


def refuse(congestion: Congestion, number: int, now: float) -> None:
    """Have so many calls refused that were sent at once."""
    for _ in range(number):
        congestion.sent(now)
        congestion.refused(now, 0.0, now)
        congestion.over()


def test_it_begins_with_a_few_and_grows_with_each_answer_to_the_most() -> None:
    congestion = Congestion(256)
    assert congestion.window == 32
    now = answer(congestion, 32, 0.0)
    assert congestion.window == 96
    answer(congestion, 500, now)
    assert congestion.window == 256
    assert Congestion(7).window == 7


def fill(congestion: Congestion, now: float) -> int:
    """Send as many calls as there are places for, and return their number."""
    number = 0
    while not congestion.place(now):
        congestion.sent(now)
        number += 1
    return number


def test_silence_makes_places_too_as_long_as_nothing_is_refused() -> None:
    congestion = Congestion(256)
    # Time passes before the places are filled, which says nothing.
    assert fill(congestion, 100.0) == 32
    assert congestion.place(100.2) == pytest.approx(0.1)
    assert fill(congestion, 100.31) == 64
    assert congestion.place(100.31) == pytest.approx(0.3)
    assert fill(congestion, 100.62) == 160
    assert congestion.place(200.0) == math.inf
    assert congestion.window == 256


def test_after_a_refusal_silence_makes_no_places() -> None:
    congestion = Congestion(256)
    fill(congestion, 0.0)
    for _ in range(10):
        congestion.refused(0.0, 0.0, 0.1)
        congestion.over()
    assert (congestion.window, congestion.in_flight) == (16, 22)
    assert congestion.place(50.0) == math.inf


def test_what_is_not_used_does_not_grow() -> None:
    congestion = Congestion(256)
    for time in range(100):
        congestion.sent(time)
        congestion.answered(time)
        congestion.over()
    assert congestion.window == 32


def test_a_refusal_halves_once_for_all_that_were_in_flight() -> None:
    congestion = Congestion(64)
    now = answer(congestion, 100, 0.0)
    assert congestion.window == 64
    for _ in range(64):
        congestion.sent(now)
    for _ in range(40):
        congestion.refused(now, None, now + 0.1)
        congestion.over()
    assert congestion.window == 32
    for _ in range(24):  # these were on their way too: they tell nothing new
        congestion.answered(now)
        congestion.over()
    assert congestion.window == 32
    congestion.sent(now + 5)
    congestion.refused(now + 5, None, now + 6)
    assert congestion.window == 16


def test_a_few_refusals_among_many_answers_slow_nobody_down() -> None:
    congestion = Congestion(64)
    now = answer(congestion, 100, 0.0)
    for _ in range(20):  # one in sixteen
        now = answer(congestion, 15, now)
        refuse(congestion, 1, now)
    assert (congestion.window, congestion.pace, congestion.resume) == (64, None, 0.0)
    refuse(congestion, 6, now)
    assert congestion.window == 32
    assert congestion.pace is not None


def test_it_recovers_by_one_a_round() -> None:
    congestion = Congestion(64)
    now = answer(congestion, 100, 0.0)
    refuse(congestion, 12, now)
    assert congestion.window == 32
    now = answer(congestion, 33, now + 1)
    assert congestion.window == 33
    answer(congestion, 34, now)
    assert congestion.window == 34


def test_the_pace_is_slowed_down_and_recovers() -> None:
    congestion = Congestion(64)
    for _ in range(20):
        congestion.sent(10.0)
    congestion.refused(10.0, 0.0, 10.1)
    assert congestion.pace == pytest.approx(14.0)
    congestion.sent(11.0)
    assert congestion.wait(11.0) == pytest.approx(1 / 14)
    congestion.answered(11.0)
    assert congestion.pace == pytest.approx(14.0 + 1 / 60)
    congestion.refused(11.0, 0.0, 12.0)
    congestion.refused(12.5, 0.0, 13.0)
    assert congestion.pace >= 1 / 60


def test_a_pause_that_is_asked_for_is_kept_by_all() -> None:
    congestion = Congestion(64)
    congestion.sent(1.0)
    congestion.refused(1.0, 20.0, 2.0)
    congestion.refused(1.0, 5.0, 3.0)
    assert congestion.wait(4.0) == pytest.approx(18.0)
    congestion.refused(1.0, 30.0, 5.0)  # one in flight may ask for more
    assert congestion.wait(5.0) == pytest.approx(30.0)


def test_pauses_that_nobody_asks_for_double_until_an_answer_comes() -> None:
    congestion, now = Congestion(64), 0.0
    pauses = []
    for _ in range(12):
        now += congestion.wait(now) + 0.01
        congestion.sent(now)
        congestion.refused(now, None, now)
        congestion.over()
        pauses.append(congestion.resume - now)
    assert pauses[:4] == pytest.approx([0.5, 1.0, 2.0, 4.0])
    assert pauses[-1] == pytest.approx(60.0)
    now += 60.0
    congestion.sent(now)
    congestion.answered(now)
    congestion.over()
    congestion.sent(now + 1)
    congestion.refused(now + 1, None, now + 1)
    assert congestion.resume - now - 1 == pytest.approx(0.5)
