from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from transforms.crowd.agreement import alpha_of_counts

VALUES = ("a", "b", "c")
UNITS = st.lists(st.lists(st.sampled_from(VALUES), max_size=4).map(tuple), max_size=12)


def test_the_example_of_the_literature() -> None:
    # Nominal data of three coders with missing values, as in Krippendorff's own example.
    coders = ("*****34121133*3", "1*213343*******", "**21344*21133*4")
    units = Counter(
        tuple(vote for vote in votes if vote != "*") for votes in zip(*coders, strict=True)
    )
    assert alpha_of_counts(units, "1234") == pytest.approx(0.691358, abs=1e-6)


def test_undefined_where_nobody_overlaps_or_nothing_can_disagree() -> None:
    assert alpha_of_counts({}, VALUES) is None
    assert alpha_of_counts({("a",): 3, ("b",): 2, (): 1}, VALUES) is None
    assert alpha_of_counts({("a", "a", "a"): 5}, VALUES) is None
    assert alpha_of_counts({("a", "a"): 5, ("b",): 9, ("b", "b"): 0}, VALUES) is None


def test_full_agreement_and_full_disagreement() -> None:
    assert alpha_of_counts({("a", "a"): 3, ("b", "b"): 4}, VALUES) == 1
    disagreement = alpha_of_counts({("a", "b"): 4}, VALUES)
    assert disagreement is not None
    assert disagreement < 0


@given(UNITS, UNITS)
@settings(max_examples=50, deadline=None)
def test_counts_of_partitions_add_up(
    one: list[tuple[str, ...]], two: list[tuple[str, ...]]
) -> None:
    summed = Counter(one) + Counter(two)
    at_once = Counter(tuple(sorted(unit, reverse=True)) for unit in one + two)
    first, second = alpha_of_counts(summed, VALUES), alpha_of_counts(at_once, VALUES)
    assert (first is None) == (second is None)
    if first is not None:
        assert first == pytest.approx(second)
