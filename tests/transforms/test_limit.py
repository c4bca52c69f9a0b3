from __future__ import annotations

from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from transforms.limit import smallest_keys


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
