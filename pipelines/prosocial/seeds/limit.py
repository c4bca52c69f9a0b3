"""The limit of a run: the seeds with the smallest keys, the same each time; the others wait."""

from __future__ import annotations

import polars as pl

from pipelines.prosocial.schema import WAITING
from transforms.frames import polars_schema

WAITS_FOR = "limit"

_WAITING_SCHEMA = polars_schema(WAITING)


def apply_limit(seeds: pl.DataFrame, threshold: str | None) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the seeds of a partition up to ``threshold`` (SEEDS) and the others as WAITING.

    Args:
        seeds: schema SEEDS.
        threshold: the last key within the limit, from ``smallest_keys`` over all partitions;
            with None all seeds are within it.
    """
    within = pl.lit(value=True) if threshold is None else pl.col("key") <= threshold
    waiting = seeds.filter(~within).select(
        key="key",
        waits_for=pl.lit(WAITS_FOR),
        turn=pl.lit(0),
        have=pl.lit(0),
        need=pl.lit(1),
        source="source",
        split="split",
        situation="situation",
        utterances=pl.lit([], dtype=pl.List(pl.String)),
        rots="rots",
        input_rows="input_rows",
    )
    return seeds.filter(within), waiting.cast(dict(_WAITING_SCHEMA))  # type: ignore[arg-type]
