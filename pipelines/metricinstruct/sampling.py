"""Samples of exact size, drawn from keys: the same inputs give the same sample.

``sampling_fractions`` of all partitions together give ``sampling_thresholds``, by which each
partition then samples for itself.
"""

from __future__ import annotations

import polars as pl

from pipelines.metricinstruct.choice import Choice, ChoiceSettings, Rule, parted_examples
from pipelines.metricinstruct.schema import CHOSEN
from transforms.keys import fraction_of

#: Columns by which rows are sampled apart.
STRATUM = ("channel", "source", "stratum")


def sampling_fractions(chosen: pl.DataFrame, settings: ChoiceSettings) -> pl.DataFrame:
    """Return ``channel``, ``source``, ``stratum`` and ``fraction`` of each chosen row.

    The fraction is drawn from the output's id where a source's outputs are sampled for themselves
    (choice ``sample``), else from the input's key, so that an input's outputs stay together.
    """
    by_output = [name for name, choice in settings.choices.items() if choice == "sample"]
    drawn_from = pl.when(pl.col("source").is_in(by_output)).then("id").otherwise("key")
    names = chosen.select(drawn_from.alias("from"))["from"].to_list()
    fractions = [fraction_of(name, f"sample{settings.salt}") for name in names]
    return chosen.select(*STRATUM, pl.Series("fraction", fractions, dtype=pl.Float64))


def sampling_thresholds(fractions: pl.DataFrame, size: int) -> pl.DataFrame:
    """Return for each stratum larger than ``size`` the ``threshold`` below which ``size`` rows lie.

    Args:
        fractions: those of all partitions.
        size: rows to keep in each stratum; fewer are kept where an input's outputs would be parted,
            more where the first input alone has more.
    """
    fraction = pl.col("fraction")
    at_size = fraction.sort().get(size, null_on_oob=True)
    behind_the_first = fraction.filter(fraction > fraction.min()).min()
    return (
        fractions.group_by(STRATUM)
        .agg(
            pl.when(at_size > fraction.min())
            .then(at_size)
            .when(at_size.is_not_null())
            .then(behind_the_first)
            .alias("threshold")
        )
        .filter(pl.col("threshold").is_not_null())
        .sort(STRATUM)
    )


def sample(chosen: pl.DataFrame, thresholds: pl.DataFrame, settings: ChoiceSettings) -> Choice:
    """Keep the rows below their stratum's threshold; the others are rejected by ``not_sampled``."""
    drawn = chosen.with_columns(sampling_fractions(chosen, settings)["fraction"]).join(
        thresholds, on=STRATUM, how="left", nulls_equal=True, maintain_order="left"
    )
    is_below = pl.col("threshold").is_null() | (pl.col("fraction") < pl.col("threshold"))
    left, dropped = parted_examples(drawn, Rule("not_sampled", is_below, pl.col("fraction")))
    return Choice(left.select(list(CHOSEN)), dropped)
