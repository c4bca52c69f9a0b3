from __future__ import annotations

from collections.abc import Callable

import polars as pl
from polars.testing import assert_frame_equal

from pipelines.prosocial.schema import WAITING
from pipelines.prosocial.seeds.limit import apply_limit
from pipelines.prosocial.seeds.selection import select
from transforms.frames import polars_schema
from transforms.limit import smallest_keys


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
