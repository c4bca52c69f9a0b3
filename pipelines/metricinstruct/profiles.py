"""Error profiles: how many errors of which severity and reduction an analysis has.

A model that fills in a form without reading the output gives the same profile again and again (one
real set gives all of its 48 outputs two Major errors of 2 and two Minor ones of 0.5). That shows
over a whole source only, so profiles are counted in every partition and summed.
"""

from __future__ import annotations

from collections.abc import Iterable

import polars as pl

from transforms.frames import Schema, concat

#: How often a profile stands in a source's analyses of a channel; summed by ``sum_profiles``.
PROFILES: Schema = {
    "source": pl.String,
    "channel": pl.String,
    "profile": pl.String,  # empty: no errors
    "n": pl.Int64,
}


def profile(errors: pl.Expr) -> pl.Expr:
    """Return the profile of each list of errors, the same for any order of them."""
    field = pl.element().struct.field
    named = pl.concat_str(
        field("severity").fill_null(""),
        pl.lit(" "),
        field("score_reduction").cast(pl.String).fill_null(""),
    )
    return errors.list.eval(named).list.sort().list.join(", ")


def count_profiles(analyses: pl.DataFrame) -> pl.DataFrame:
    """Return the profiles of ``analyses`` (source, channel, errors), schema ``PROFILES``."""
    return sum_profiles(
        [
            analyses.select(
                "source",
                "channel",
                profile(pl.col("errors")).alias("profile"),
                pl.lit(1, dtype=pl.Int64).alias("n"),
            )
        ]
    )


def sum_profiles(frames: Iterable[pl.DataFrame]) -> pl.DataFrame:
    """Return the profiles of several partitions added up, sorted."""
    return (
        concat(frames, PROFILES)
        .group_by("source", "channel", "profile")
        .agg(pl.col("n").sum())
        .sort("source", "channel", "profile")
    )
