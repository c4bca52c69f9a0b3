from __future__ import annotations

from collections.abc import Callable
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from pipelines.prosocial.schema import WAITING
from pipelines.prosocial.seeds.limit import apply_limit, smallest_keys
from pipelines.prosocial.seeds.selection import select
from transforms.frames import polars_schema


@given(st.sets(st.text("0123456789abcdef", min_size=4, max_size=4)), st.integers(1, 30), st.data())
def test_exactly_the_smallest_keys_are_within_a_limit(keys: set[str], n: int, data: Any) -> None:
    ordered = data.draw(st.permutations(sorted(keys)))
    cut = data.draw(st.integers(0, len(ordered)))
    frames = [
        pl.DataFrame({"key": part}, schema={"key": pl.String})
        for part in (ordered[:cut], ordered[cut:])
    ]
    threshold = smallest_keys(frames, n)
    within = [key for key in keys if threshold is None or key <= threshold]
    assert sorted(within) == sorted(keys)[:n]


def test_a_limit_is_at_least_one() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        smallest_keys([], 0)


def test_seeds_beyond_the_limit_wait(
    seed_rows_of: Callable[..., pl.DataFrame],
) -> None:
    texts = [f"hiding key {number}" for number in range(8)]
    rows = seed_rows_of([{"situation": t, "rot": "a"} for t in texts for _ in range(2)])
    seeds = select(rows, salt="s").seeds
    within, waiting = apply_limit(seeds, smallest_keys([seeds], 3))
    assert_frame_equal(within, seeds.head(3))
    assert dict(waiting.schema) == polars_schema(WAITING)
    assert waiting["key"].to_list() == seeds["key"].to_list()[3:]
    assert waiting.select("waits_for", "turn", "rots", "input_rows").unique().rows() == [
        ("limit", 0, ["a"], 2)
    ]
    within, waiting = apply_limit(seeds, None)
    assert_frame_equal(within, seeds)
    assert waiting.is_empty()
