from __future__ import annotations

import polars as pl

from pipelines.metricinstruct.errors.record import ErrorRecord, to_column
from pipelines.metricinstruct.profiles import PROFILES, count_profiles, sum_profiles


def _analyses(*profiles: list[tuple[str, float]]) -> pl.DataFrame:
    errors = [
        [ErrorRecord("x", "Accuracy", "Why.", severity, points) for severity, points in row]
        for row in profiles
    ]
    return pl.DataFrame(
        {"source": ["dart"] * len(errors), "channel": ["real"] * len(errors)},
        schema={"source": pl.String, "channel": pl.String},
    ).with_columns(to_column(errors))


def test_profile_is_the_same_for_any_order_of_errors() -> None:
    counted = count_profiles(
        _analyses([("Major", 4.0), ("Minor", 1.0)], [("Minor", 1.0), ("Major", 4.0)], [])
    )
    assert counted.rows() == [("dart", "real", "", 1), ("dart", "real", "Major 4.0, Minor 1.0", 2)]


def test_partitions_add_up() -> None:
    rows = [[("Major", 4.0)], [("Minor", 1.0)], [("Major", 4.0)], []]
    parts = [count_profiles(_analyses(*rows[:2])), count_profiles(_analyses(*rows[2:]))]
    assert sum_profiles(parts).equals(count_profiles(_analyses(*rows)))
    assert sum_profiles([]).schema == pl.Schema(dict(PROFILES))
