"""Calls in flight and their pace, by what the endpoint answers; no clock runs."""

from __future__ import annotations

import heapq
import math
import random
from collections import deque
from collections.abc import Callable

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
    for _ in range(12):
        congestion.refused(0.0, 0.0, 0.1)
        congestion.over()
    window = congestion.window
    assert 16 <= window < 32
    while congestion.in_flight < window:
        congestion.sent(1.0)
    assert congestion.place(50.0) == math.inf
    assert congestion.window == window


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
    congestion.refused(now + 5, None, now + 6)  # no answer since: the calls pause once more
    congestion.over()
    assert (congestion.window, congestion.resume) == (32, now + 6 + 1.0)
    answer(congestion, 1, now + 8)
    refuse(congestion, 32, now + 9)
    assert congestion.window == 16


def test_a_few_refusals_among_many_answers_slow_nobody_down() -> None:
    congestion = Congestion(64)
    now = answer(congestion, 100, 0.0)
    for _ in range(20):  # one in sixteen
        now = answer(congestion, 15, now)
        refuse(congestion, 1, now)
    assert (congestion.window, congestion.pace, congestion.resume) == (64, None, 0.0)
    refuse(congestion, 15, now)  # a fifth of the last hundred, and a little more
    assert 55 < congestion.window < 64
    assert congestion.pace is not None
    refuse(congestion, 40, now)  # at the same moment: more than two fifths
    assert congestion.window == 32


def test_it_recovers_by_one_a_round() -> None:
    congestion = Congestion(64)
    now = answer(congestion, 100, 0.0)
    refuse(congestion, 40, now)
    assert congestion.window == 32
    now = answer(congestion, 33, now + 1)
    assert congestion.window == 33
    answer(congestion, 34, now)
    assert congestion.window == 34


def test_the_pace_is_slowed_down_and_recovers() -> None:
    congestion = Congestion(64)
    for _ in range(20):
        congestion.sent(10.0)
    for _ in range(12):
        congestion.refused(10.0, 0.0, 10.1)
        congestion.over()
    assert congestion.pace == pytest.approx(14.0)
    congestion.sent(11.0)
    assert congestion.wait(11.0) == pytest.approx(1 / 14)
    congestion.answered(11.0)
    assert congestion.pace == pytest.approx(14.0 + 1 / 60)
    for _ in range(1000):
        congestion.refused(12.0, 0.0, 12.1)
    assert congestion.pace == pytest.approx(0.7 * (14.0 + 1 / 60))
    congestion.refused(13.0, 0.0, 13.1)  # no answer has come since: it is the same full window
    assert congestion.pace == pytest.approx(0.7 * (14.0 + 1 / 60))


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


class Window:
    """An endpoint that lets so many calls in within any window of so many seconds."""

    def __init__(self, calls: int, seconds: float) -> None:
        self.calls, self.seconds = calls, seconds
        self.let_in: deque[float] = deque()

    def __call__(self, now: float) -> bool:
        while self.let_in and self.let_in[0] <= now - self.seconds:
            self.let_in.popleft()
        refused = len(self.let_in) >= self.calls
        if not refused:
            self.let_in.append(now)
        return refused


def simulated(calls: int, refuses: Callable[[float], bool], seed: int) -> tuple[float, float]:
    """Have calls of 0.2 s made, 64 at once at most; return the seconds and refusals per call."""
    draws = random.Random(seed)
    congestion, now, left, refused = Congestion(64), 0.0, calls, 0
    due = [0.0] * calls
    flights: list[tuple[float, int, float, bool]] = []
    while left:
        while due and due[0] <= now and congestion.in_flight < congestion.window:
            if congestion.wait(now):
                break
            heapq.heappop(due)
            congestion.sent(now)
            refusal = refuses(now)
            over = now + (0.02 if refusal else 0.2 * draws.uniform(0.7, 1.3))
            heapq.heappush(flights, (over, len(due), now, refusal))
        times = [flights[0][0]] if flights else []
        if due and congestion.in_flight < congestion.window:
            times.append(max(due[0], now + congestion.wait(now)))
        now = max(now, min(times)) + 1e-9
        while flights and flights[0][0] <= now:
            _, _, sent, refusal = heapq.heappop(flights)
            if refusal:
                refused += 1
                congestion.refused(sent, 0.5, now)
                heapq.heappush(due, now + 0.5 * draws.uniform(1.0, 1.5))
            else:
                left -= 1
                congestion.answered(sent)
            congestion.over()
    return now, refused / calls


@pytest.mark.parametrize("share", [0.0, 0.03, 0.06, 0.1])
@pytest.mark.parametrize("seed", range(5))
def test_chance_refusals_of_up_to_a_tenth_cost_little_throughput(share: float, seed: int) -> None:
    draws = random.Random(f"{share} {seed}")
    seconds, _ = simulated(5000, lambda now: draws.random() < share, seed)
    assert seconds < 1.25 * 5000 * 0.2 / 64 / (1 - share)


@pytest.mark.parametrize(("calls", "seconds"), [(40, 1.0), (500, 10.0), (1500, 30.0)])
def test_an_enforced_limit_is_used_and_not_hammered(calls: int, seconds: float) -> None:
    number = 5 * calls + 2500
    took, refused = simulated(number, Window(calls, seconds), 1)
    windows = number / calls * seconds  # the quickest that the limit allows, less its first burst
    assert windows - seconds <= took < 1.5 * windows
    assert refused < 0.25
