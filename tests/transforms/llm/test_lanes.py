"""Lanes: every partition has one, and together they have what the job has."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transforms.llm.lanes import lane_of, lanes_for, share
from transforms.llm.settings import EngineSettings


@given(
    lanes=st.integers(1, 40),
    more=st.integers(0, 100),
    rpm=st.none() | st.floats(1, 1e5),
    tpm=st.none() | st.floats(1, 1e7),
)
def test_shares_add_up_to_the_whole(
    lanes: int, more: int, rpm: float | None, tpm: float | None
) -> None:
    settings = EngineSettings(
        "http://localhost/v1", "m", "c", concurrency=lanes + more, rpm=rpm, tpm=tpm, lanes=lanes
    )
    shares = [share(lane, settings) for lane in range(lanes)]
    assert sum(each.concurrency for each in shares) == lanes + more
    assert min(each.concurrency for each in shares) >= 1
    for name, whole in (("requests", rpm), ("tokens", tpm)):
        parts = [getattr(each, name) for each in shares]
        if whole is None:
            assert parts == [None] * lanes
        else:
            assert sum(parts) == pytest.approx(whole)


@given(partitions=st.integers(1, 500), lanes=st.integers(1, 40))
def test_partitions_are_spread_evenly(partitions: int, lanes: int) -> None:
    found = [lane_of(partition, lanes) for partition in range(partitions)]
    sizes = [found.count(lane) for lane in range(lanes)]
    assert sum(sizes) == partitions
    assert max(sizes) - min(sizes) <= 1


@pytest.mark.parametrize(
    ("partitions", "given", "lanes"),
    [
        (16, {}, 8),
        (3, {}, 3),
        (16, {"concurrency": 2}, 2),
        (16, {"rpm": 5.5}, 5),
        (16, {"rpm": 0.5}, 1),
        (16, {"tpm": 30_000}, 3),
        (16, {"tpm": 2_000}, 1),
        (16, {"tpm": 2_000_000, "rpm": 500}, 8),
    ],
)
def test_no_lane_is_without_partition_place_request_or_tokens(
    partitions: int, given: dict[str, Any], lanes: int
) -> None:
    assert (
        lanes_for(8, partitions, EngineSettings("http://localhost/v1", "m", "c", **given)) == lanes
    )


def test_settings_refuse_lanes_without_a_place() -> None:
    with pytest.raises(ValueError, match="each lane needs a place"):
        EngineSettings("http://localhost/v1", "m", "c", concurrency=2, lanes=3)
    with pytest.raises(ValueError, match="must be positive"):
        EngineSettings("http://localhost/v1", "m", "c", rpm=0)
