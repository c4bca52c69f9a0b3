"""Shards as a plain script writes them: one parquet file for each split and partition."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import polars as pl


def write_shards(
    directory: Path,
    rows: pl.DataFrame,
    columns: Sequence[str],
    partitions: int,
    split: str = "split",
) -> None:
    """Write ``rows``, sorted already, below a new ``directory``.

    Args:
        directory: a configuration's.
        rows: at least ``columns``, partition and the column called ``split``.
        columns: those that are written.
        partitions: how many there are.
        split: the column that holds each row's split.
    """
    directory.mkdir(parents=True)
    parts = rows.partition_by(split, "partition", as_dict=True, maintain_order=True)
    for (name, number), part in parts.items():
        part.select(columns).write_parquet(
            directory / f"{name}-{number:05d}-of-{partitions:05d}.parquet",
            compression="zstd",
            compression_level=3,
            row_group_size=20_000,
        )
