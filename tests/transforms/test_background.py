"""Work done ahead: the same results in the same order, and the same exceptions."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.testing.util import assert_that, equal_to
from hypothesis import given
from hypothesis import strategies as st

from transforms.background import Ahead, MapAhead


@given(st.lists(st.integers()), st.integers(1, 5))
def test_items_come_in_their_order(items: list[int], most: int) -> None:
    ahead = Ahead(items, most)
    assert list(ahead) == items
    assert list(ahead) == []


def test_items_are_made_before_they_are_asked_for_and_not_all_at_once() -> None:
    made = threading.Semaphore(0)
    numbers = []

    def make() -> Iterator[int]:
        for number in range(10):
            numbers.append(number)
            made.release()
            yield number

    ahead = Ahead(make(), 3)
    assert all(made.acquire(timeout=10) for _ in range(3))
    assert not made.acquire(timeout=0.05)
    assert numbers == [0, 1, 2]
    assert list(ahead) == list(range(10))


def test_an_exception_comes_behind_the_items_before_it() -> None:
    def make() -> Iterator[int]:
        yield 1
        raise KeyError("a fault")

    ahead = Ahead(make(), 4)
    assert next(ahead) == 1
    with pytest.raises(KeyError, match="a fault"):
        next(ahead)
    assert list(ahead) == []


def square(number: int) -> int:
    if number < 0:
        raise ValueError("a negative number")
    return number * number


def test_a_step_yields_every_result() -> None:
    with beam.Pipeline(runner="FnApiRunner", options=PipelineOptions([])) as pipeline:
        squares = pipeline | beam.Create(range(20)) | beam.ParDo(MapAhead(square))
        assert_that(squares, equal_to([number * number for number in range(20)]))


def test_a_step_keeps_the_order_and_raises_what_was_raised() -> None:
    step = MapAhead(square)
    step.start_bundle()
    assert [result for number in range(4) for result in step.process(number)] == [0, 1, 4]
    assert [last.value for last in step.finish_bundle()] == [9]
    assert list(step.process(-1)) == []
    with pytest.raises(ValueError, match="a negative number"):
        list(step.finish_bundle())
    step.teardown()
