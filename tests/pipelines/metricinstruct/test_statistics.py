from __future__ import annotations

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from pipelines.metricinstruct import schema
from pipelines.metricinstruct.configurations import released
from pipelines.metricinstruct.publication import PUBLICATION
from pipelines.metricinstruct.stage_frames import SUMS
from pipelines.metricinstruct.statistics import (
    STATISTICS,
    merge_statistics,
    partition_statistics,
    summarise,
)
from transforms.crowd.spans import Tallies, agreement
from transforms.partitions import Frames
from transforms.publishing.publication import Run

RUN = Run("run", "2026-01-01T00:00:00+00:00", "0.1.0", 2, models=("judge",))


def statistics_of(finished: Frames, rows: pl.DataFrame, with_sums: bool = True) -> pl.DataFrame:
    sums = {name: finished[name] if with_sums else finished[name].clear() for name in SUMS}
    verdicts = finished["verdicts"].join(rows, on="id", how="semi")
    return partition_statistics(rows, verdicts, sums)


@pytest.fixture(scope="module")
def rows(finished: Frames) -> pl.DataFrame:
    return released(finished["rows"])


def test_partitions_add_up_to_the_whole(finished: Frames, rows: pl.DataFrame) -> None:
    whole = statistics_of(finished, rows)
    assert dict(whole.schema) == dict(STATISTICS)
    parts = [
        statistics_of(finished, rows[::3]),
        statistics_of(finished, rows[1::3], with_sums=False),
        statistics_of(finished, rows[2::3], with_sums=False),
    ]
    assert_frame_equal(merge_statistics(reversed(parts)), whole)


def test_the_summary_counts_what_is_there(finished: Frames, rows: pl.DataFrame) -> None:
    tables = summarise(statistics_of(finished, rows))
    (version,) = tables["version"]
    errors = rows["error_count"].sum()
    assert version["rows"] == rows.height
    assert version["errors"] == errors
    assert version["error_free_rows"] == rows.filter(pl.col("error_count") == 0).height
    assert version["reduction_per_row"] == pytest.approx(rows["score_reduction"].mean())
    assert version["real_share"] == pytest.approx((rows["channel"] == "real").mean())
    assert version["systems"] == rows["systems"].explode().drop_nulls().n_unique()
    assert [row["task"] for row in tables["tasks"]] == list(schema.TASKS)
    assert sum(row["errors_per_row"] * row["rows"] for row in tables["tasks"] if row["rows"]) == (
        pytest.approx(errors)
    )
    assert sum(row["n"] for row in tables["aspects"]) == errors
    assert sum(row["n"] for row in tables["placements"]) == errors
    failed = {row["rule"]: row["analyses"] for row in tables["filters"]}
    assert failed == dict(finished["funnel"].select("rule", "turns").iter_rows())


def test_agreement_is_that_of_the_sums(finished: Frames, rows: pl.DataFrame) -> None:
    expected = agreement(Tallies(finished["pair_counts"], finished["pair_scores"])).to_dicts()
    assert len(expected) >= 3
    assert summarise(statistics_of(finished, rows))["agreement"] == expected


def test_nothing_at_all_is_undefined_and_not_zero(finished: Frames, rows: pl.DataFrame) -> None:
    tables = summarise(statistics_of(finished, rows.clear(), with_sums=False))
    (version,) = tables["version"]
    assert version["rows"] == version["errors"] == 0
    assert version["errors_per_row"] is version["major_share"] is version["real_share"] is None
    assert tables["agreement"] == tables["sources"] == tables["filters"] == []


def test_the_card_tells_the_figures(finished: Frames, rows: pl.DataFrame) -> None:
    tables = summarise(statistics_of(finished, rows))
    card = PUBLICATION.describe(tables, RUN)
    assert f"| errors per row | {tables['version'][0]['errors_per_row']:.3f} |" in card
    assert "wmt_mqm en-de: rater1" in card
    for name in PUBLICATION.configurations:
        assert f"| `{name}` |" in card
    nothing = summarise(statistics_of(finished, rows.clear(), with_sums=False))
    assert "No analysed output has human annotations." in PUBLICATION.describe(nothing, RUN)
