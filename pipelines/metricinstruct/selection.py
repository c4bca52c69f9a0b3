"""Which chosen examples a run works on: samples of exact size, and the run's limit.

Both look at the whole dataset, so every partition tells its candidates, all of them together give
one ``Selection``, and each partition then selects for itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import polars as pl

from pipelines.metricinstruct.choice import ChoiceSettings
from pipelines.metricinstruct.sampling import (
    STRATUM,
    sample,
    sampling_fractions,
    sampling_thresholds,
)
from pipelines.metricinstruct.schema import WAITING
from transforms.frames import Schema, concat, polars_schema
from transforms.limit import smallest_keys

#: One row per chosen example that a threshold or the limit may turn down.
CANDIDATES: Schema = {
    "channel": pl.String,
    "source": pl.String,
    "stratum": pl.String,
    "fraction": pl.Float64,
    "key": pl.String,  # place in the order by which a limit takes
}


@dataclass(frozen=True)
class SelectionSettings:
    """What is asked of the selection.

    Attributes:
        choice: how outputs are chosen; says what a row's fraction is drawn from.
        sizes: for each source the most rows of a stratum; those without one are not sampled.
        limit: the most rows of all; None for no limit.
    """

    choice: ChoiceSettings
    sizes: Mapping[str, int]
    limit: int | None = None


@dataclass(frozen=True)
class Selection:
    """What every partition selects by.

    Attributes:
        thresholds: columns channel, source, stratum, threshold (see ``choice.sample``).
        last: the last place within the limit, None where all are within it.
    """

    thresholds: pl.DataFrame
    last: str | None


@dataclass(frozen=True)
class Selected:
    """The chosen rows to work on (``CHOSEN``), rejects (``REJECTED``), and ``WAITING``."""

    chosen: pl.DataFrame
    rejected: pl.DataFrame
    waiting: pl.DataFrame


def candidates(chosen: pl.DataFrame, settings: SelectionSettings) -> pl.DataFrame:
    """Return the ``CANDIDATES`` among the chosen rows of a partition (``CHOSEN``)."""
    rows = sampling_fractions(chosen, settings.choice).with_columns(
        chosen.select(_place().alias("key"))["key"]
    )
    if settings.limit is None:
        rows = rows.filter(pl.col("source").is_in(list(settings.sizes)))
    return rows.select(list(CANDIDATES))


def selection(frames: Iterable[pl.DataFrame], settings: SelectionSettings) -> Selection:
    """Return what the ``CANDIDATES`` of all partitions come to."""
    rows = concat(frames, CANDIDATES)
    parts = [
        sampling_thresholds(rows.filter(pl.col("source") == source), size)
        for source, size in sorted(settings.sizes.items())
    ]
    nothing = sampling_thresholds(rows.clear(), 1)
    thresholds = pl.concat([nothing, *parts])
    if settings.limit is None:
        return Selection(thresholds, None)
    drawn = rows.join(thresholds, on=STRATUM, how="left", nulls_equal=True)
    within = drawn.filter(
        pl.col("threshold").is_null() | (pl.col("fraction") < pl.col("threshold"))
    )
    return Selection(thresholds, smallest_keys([within], settings.limit))


def select(chosen: pl.DataFrame, selected: Selection, settings: SelectionSettings) -> Selected:
    """Return the chosen rows (``CHOSEN``) that a run works on, and what becomes of the others."""
    drawn = sample(chosen, selected.thresholds, settings.choice)
    within = pl.lit(value=True) if selected.last is None else _place() <= selected.last
    kinds = polars_schema(WAITING)
    waits = {"waits_for": pl.lit("limit"), "step": pl.lit(None), "error_class": pl.lit(None)}
    waiting = drawn.chosen.filter(~within).select(
        waits.get(name, pl.col(name)).cast(kind).alias(name) for name, kind in kinds.items()
    )
    return Selected(drawn.chosen.filter(within), drawn.rejected, waiting)


def _place() -> pl.Expr:
    return pl.concat_str("key", "id", "channel", separator=" ")
