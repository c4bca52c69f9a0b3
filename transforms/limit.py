"""The limit of a run: what has the smallest keys, the same each time."""

from __future__ import annotations

import heapq
from collections.abc import Iterable

import polars as pl


def smallest_keys(frames: Iterable[pl.DataFrame], n: int) -> str | None:
    """Return the ``n``-th smallest key over the frames' ``key`` columns (no key comes twice).

    What has a key up to this one is within a limit of ``n``; None where there are no more keys.
    """
    if n < 1:
        raise ValueError(f"a limit is at least 1, not {n}")
    keys = (key for frame in frames for key in frame.get_column("key").to_list())
    smallest = heapq.nsmallest(n + 1, keys)
    return smallest[n - 1] if len(smallest) > n else None
