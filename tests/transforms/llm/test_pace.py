"""Rates are of the last minute, and what is left follows from the partitions that came."""

from __future__ import annotations

from collections import Counter

import pytest

from transforms.llm.pace import Pace


def counts(sent: int, keys: int, begun: int, partitions: int) -> Counter[str]:
    return Counter(calls_sent=sent, keys_done=keys, keys_begun=begun, partitions_begun=partitions)


def test_keys_ahead_are_estimated_from_the_partitions_that_came() -> None:
    pace = Pace(counts(5, 5, 5, 1), 100.0, 8)
    snapshot = pace.snapshot(counts(25, 15, 105, 3), 7, 110.0)
    assert snapshot.counts == {
        "calls_sent": 20,
        "keys_done": 10,
        "keys_begun": 100,
        "partitions_begun": 2,
    }
    assert (snapshot.in_flight, snapshot.seconds) == (7, 10)
    assert snapshot.rate == pytest.approx(2)
    assert snapshot.keys == 400  # 100 in two of eight partitions
    assert snapshot.left == pytest.approx(390)  # 10 in ten seconds


def test_without_a_number_of_partitions_those_that_came_count() -> None:
    assert Pace({}, 0.0, None).snapshot(counts(0, 0, 100, 2), 0, 1.0).keys == 100
    beginning = Pace({}, 0.0, 4).snapshot(Counter(), 0, 0.0)
    assert (beginning.keys, beginning.left, beginning.worked) == (0, None, False)
    # More partitions than the dataset has come where several stages make calls.
    assert Pace({}, 0.0, 2).snapshot(counts(0, 0, 100, 4), 0, 1.0).keys == 100


def test_rates_are_of_the_last_minute() -> None:
    pace = Pace({}, 0.0, 1)
    for second in range(0, 301, 10):
        fast = min(second, 200)
        snapshot = pace.snapshot(counts(10 * fast, fast, 1000, 1), 0, float(second))
    assert snapshot.rate == 0
    assert snapshot.left is None
    snapshot = pace.snapshot(counts(2060, 260, 1000, 1), 0, 310.0)
    assert snapshot.rate == pytest.approx(1)
    assert snapshot.left == pytest.approx(740)
