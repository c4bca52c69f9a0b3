"""Windows slide: their sums are those of a plain count, and what is let in never passes a limit."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transforms.llm.fake_endpoint.windows import RateLimits, RateWindows, SlidingSum, duration
from transforms.llm.rate_headers import rate_report

EVENTS = st.lists(st.tuples(st.integers(0, 40), st.integers(1, 9)), max_size=60)


def sums(events: list[tuple[int, int]], seconds: int) -> list[int]:
    """Return the sums of all windows that end with an event, counted the plain way."""
    return [
        sum(amount for time, amount in events[: place + 1] if end - seconds < time <= end)
        for place, (end, _) in enumerate(events)
    ]


@given(EVENTS, st.integers(1, 20))
def test_the_greatest_sum_is_of_any_window(events: list[tuple[int, int]], seconds: int) -> None:
    events.sort()
    window = SlidingSum(seconds)
    for time, amount in events:
        window.add(amount, time)
    assert window.greatest == max(sums(events, seconds), default=0)


@given(EVENTS, st.integers(1, 5), st.integers(9, 20))
def test_what_is_let_in_stays_below_both_limits(
    events: list[tuple[int, int]], requests: int, tokens: int
) -> None:
    windows = RateWindows(RateLimits(requests, tokens, 10))
    admitted = []
    for time, amount in sorted(events):
        wait = windows.admit(amount, time)
        if not wait:
            admitted.append((time, amount))
        else:
            assert 0 < wait <= 10
    assert max(sums([(time, 1) for time, _ in admitted], 10), default=0) <= requests
    assert max(sums(admitted, 10), default=0) <= tokens
    assert windows.seen[0].greatest == max(sums([(t, 1) for t, _ in sorted(events)], 10), default=0)


def test_a_request_is_told_how_long_to_wait_and_is_let_in_then() -> None:
    windows = RateWindows(RateLimits(2, 100, 60))
    assert windows.admit(50, 0) == 0
    assert windows.admit(40, 10) == 0
    assert windows.admit(1, 20) == 40  # requests: the first leaves the window at 60
    assert windows.headers(20) == {
        "x-ratelimit-limit-requests": "2",
        "x-ratelimit-remaining-requests": "0",
        "x-ratelimit-reset-requests": "50s",
        "x-ratelimit-limit-tokens": "100",
        "x-ratelimit-remaining-tokens": "10",
        "x-ratelimit-reset-tokens": "50s",
    }
    assert windows.admit(70, 60) == 10  # tokens: 40 are there until 70
    assert windows.admit(70, 70) == 0
    assert windows.admit(101, 1000) == float("inf")
    assert RateWindows(RateLimits()).headers(0) == {}
    assert RateWindows(RateLimits(seconds=5)).headers(0) == {}


@pytest.mark.parametrize("seconds", [60.0, 2.0, 90.0])
def test_a_client_learns_the_limits_with_their_window(seconds: float) -> None:
    windows = RateWindows(RateLimits(4, 100, seconds))
    assert windows.admit(40, 0) == 0
    requests, tokens = rate_report(windows.headers(1))
    assert requests is not None
    assert tokens is not None
    assert (requests.limit, requests.seconds or 60.0) == (4, seconds)
    assert (requests.remaining, requests.reset) == (3, seconds - 1)
    assert (tokens.limit, tokens.seconds or 60.0) == (100, seconds)
    assert (tokens.remaining, tokens.reset) == (60, seconds - 1)


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0ms"), (0.0123, "13ms"), (1.5, "1.5s"), (360, "6m0s"), (59, "59s")]
)
def test_durations_are_worded_as_headers_word_them(seconds: float, text: str) -> None:
    assert duration(seconds) == text
