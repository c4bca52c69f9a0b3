"""Percentiles from buckets are those of the latencies themselves, to within a bucket's width."""

from __future__ import annotations

import math
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transforms.llm.latencies import PERCENTILES, bucket, latencies, percentiles, seconds_of

SECONDS = st.floats(0.001, 3600)


@given(SECONDS)
def test_a_bucket_stands_for_its_latencies(seconds: float) -> None:
    assert seconds_of(bucket(seconds)) == pytest.approx(seconds, rel=0.05)


@given(st.lists(SECONDS, min_size=1, max_size=300))
def test_percentiles_are_those_of_the_latencies(seconds: list[float]) -> None:
    found = percentiles(Counter(map(bucket, seconds)))
    for name, share in PERCENTILES.items():
        exact = sorted(seconds)[math.ceil(share * len(seconds)) - 1]
        assert found[name] == pytest.approx(exact, rel=0.05, abs=0.0001)


@given(st.lists(SECONDS, max_size=50), st.lists(SECONDS, max_size=50))
def test_buckets_of_two_processes_add_up(first: list[float], second: list[float]) -> None:
    both = Counter(map(bucket, first)) + Counter(map(bucket, second))
    assert both == Counter(map(bucket, first + second))
    assert sum(latencies(both).values()) == len(first) + len(second)


def test_other_counts_are_no_latencies() -> None:
    assert latencies({"calls_sent": 3, bucket(0.0): 2, bucket(5): 0}) == {0.001: 2}
    assert percentiles({"calls_sent": 3}) == {}
