"""Rates on a clock of the test's own: no window ever holds more than the limit."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transforms.llm.rates import Taken, WindowRate

WINDOW, MARGIN = 60.0, 1.5


def most_in_a_window(taken: list[tuple[float, float]], window: float = WINDOW) -> float:
    """Return the greatest sum of amounts in any ``window`` (which holds both its ends)."""
    sums = (
        sum(amount for time, amount in taken if start <= time <= start + window)
        for start, _ in taken
    )
    return max(sums, default=0.0)


@given(
    limit=st.integers(1, 40),
    idle=st.lists(st.sampled_from([0.0, 0.0, 0.0, 0.01, 1.0, 7.0, 65.0]), max_size=120),
)
def test_no_window_holds_more_requests_than_the_limit(limit: int, idle: list[float]) -> None:
    now, rate, sent = 0.0, WindowRate(limit, WINDOW, MARGIN, 0.0), []
    for seconds in idle:
        now += seconds + rate.wait(1, now + seconds)
        rate.take(1, now)
        sent.append((now, 1.0))
    assert most_in_a_window(sent) <= limit


@given(
    calls=st.lists(
        st.tuples(st.integers(1, 400), st.floats(0, 1), st.floats(0, 30)), min_size=1, max_size=60
    )
)
def test_no_window_holds_more_tokens_however_late_they_are_counted(
    calls: list[tuple[int, float, float]],
) -> None:
    limit = 1000
    rate = WindowRate(limit, WINDOW, MARGIN, 0.0)
    now = 0.0
    on_the_way: list[tuple[float, Taken, float, float]] = []
    when_sent: list[tuple[float, float]] = []
    when_over: list[tuple[float, float]] = []

    def settle(until: float) -> None:
        for over, taken, early, late in sorted(on_the_way, key=lambda call: call[0]):
            if over <= until:
                rate.settle(taken, early, late, over)
        on_the_way[:] = [call for call in on_the_way if call[0] > until]

    for reserved, used, latency in calls:
        while True:
            settle(now)
            wait = rate.wait(reserved, now)
            if not wait:
                break
            overs = [call[0] for call in on_the_way if call[0] > now]
            now = min([now + wait, *overs])
        early, late = reserved * used / 2, reserved * used / 2
        on_the_way.append((now + latency, rate.take(reserved, now), early, late))
        # An endpoint may count all of a call when it comes, or what it wrote when it is done.
        when_sent.append((now, early + late))
        when_over += [(now, early), (now + latency, late)]
    assert most_in_a_window(when_sent) <= limit + 1e-6
    assert most_in_a_window(when_over) <= limit + 1e-6


@given(
    limit=st.integers(2, 600),
    part=st.floats(0, 0.5),
    moments=st.lists(st.floats(0, 150), min_size=1, max_size=4),
)
def test_who_takes_over_does_not_send_what_the_one_before_has_sent(
    limit: int, part: float, moments: list[float]
) -> None:
    """One after the other sends as fast as it may, and knows nothing of those before it."""
    amount = max(1, int(limit * part))
    sent: list[tuple[float, float]] = []
    moments.sort()
    for begin, end in zip([0.0, *moments], [*moments, 200.0], strict=True):
        rate, now = WindowRate(limit, WINDOW, MARGIN, begin), begin
        while (now := now + rate.wait(amount, now)) < end and len(sent) < 3000:
            rate.take(amount, now)
            sent.append((now, amount))
    times = [time for time, _ in sent]
    most = limit // amount
    for start, later in zip(times, times[most:], strict=False):
        assert later - start > WINDOW


def test_the_limit_is_reached_evenly() -> None:
    rate, now, sent = WindowRate(120, WINDOW, MARGIN, 0.0), 0.0, []
    while now < 300:
        now += rate.wait(1, now)
        rate.take(1, now)
        sent.append(now)
    gaps = [later - earlier for earlier, later in itertools.pairwise(sent)]
    assert max(gaps) - min(gaps) < 1e-6
    assert len(sent) / 300 == pytest.approx(120 / (WINDOW + MARGIN), rel=0.01)


def test_what_was_missed_is_caught_up_on_a_little() -> None:
    rate = WindowRate(600, WINDOW, MARGIN, 0.0)
    rate.take(1, 1.0)
    now, burst = 30.0, 0
    while not rate.wait(1, now):
        rate.take(1, now)
        burst += 1
    assert 2 <= burst <= 600 * MARGIN / WINDOW


def test_less_than_one_a_window_is_one_in_a_longer_window() -> None:
    rate = WindowRate(0.5, WINDOW, MARGIN, 0.0)
    assert rate.wait(1, 0.0) == pytest.approx(2 * (WINDOW + MARGIN))
    rate.take(1, 200.0)
    assert rate.wait(1, 210.0) == pytest.approx(2 * (WINDOW + MARGIN) - 10)


def test_what_is_more_than_the_limit_never_fits() -> None:
    assert math.isinf(WindowRate(100, WINDOW, MARGIN, 0.0).wait(101, 1000.0))


def test_what_is_given_back_can_be_taken_at_once() -> None:
    rate = WindowRate(10, WINDOW, MARGIN, 0.0)
    taken = [rate.take(5, 100.0), rate.take(5, 100.0)]
    assert rate.wait(5, 100.0) > 50
    rate.give_back(taken[0])
    rate.give_back(taken[1])
    assert rate.wait(5, 100.0) == 0


def test_another_limit_counts_what_was_taken_under_the_old_one() -> None:
    rate = WindowRate(100, WINDOW, MARGIN, 0.0)
    for _ in range(10):
        rate.take(1, 100.0)
    rate.change(10, WINDOW)
    assert rate.wait(1, 130.0) == pytest.approx(100.0 + WINDOW + MARGIN - 130.0)
