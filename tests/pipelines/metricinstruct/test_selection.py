from __future__ import annotations

from collections.abc import Callable

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.metricinstruct.choice import ChoiceSettings
from pipelines.metricinstruct.schema import CHOSEN
from pipelines.metricinstruct.selection import (
    SelectionSettings,
    candidates,
    select,
    selection,
)
from transforms.keys import content_key

Chosen = Callable[..., pl.DataFrame]


def chosen_rows(rows: int, source: str = "wmt_mqm", per_input: int = 1) -> pl.DataFrame:
    data = [
        {
            "key": content_key(f"{source} {number // per_input}"),
            "id": content_key(f"{source} output {number}")[:16],
            "channel": "real",
            "source": source,
            "stratum": "en-de" if number % 2 else None,
            "input_rows": 1,
            "references": [],
            "hypothesis": f"output {number}",
        }
        for number in range(rows)
    ]
    frame = pl.DataFrame(data, schema={name: CHOSEN[name] for name in data[0]})
    missing = [pl.lit(None, kind).alias(name) for name, kind in CHOSEN.items() if name not in frame]
    return frame.with_columns(missing).select(list(CHOSEN))


def run(
    partitions: list[pl.DataFrame], settings: SelectionSettings
) -> tuple[list[pl.DataFrame], list[pl.DataFrame], list[pl.DataFrame]]:
    made = selection([candidates(part, settings) for part in partitions], settings)
    done = [select(part, made, settings) for part in partitions]
    return [d.chosen for d in done], [d.rejected for d in done], [d.waiting for d in done]


@given(st.integers(1, 40), st.integers(1, 40), st.one_of(st.none(), st.integers(1, 30)))
def test_samples_and_limit_are_exact_and_nothing_is_lost(
    rows: int, size: int, limit: int | None
) -> None:
    settings = SelectionSettings(ChoiceSettings({"wmt_mqm": "sample"}), {"wmt_mqm": size}, limit)
    frame = chosen_rows(rows)
    chosen, rejected, waiting = run([frame[: rows // 3], frame[rows // 3 :]], settings)
    strata = frame["stratum"].value_counts()["count"].to_list()
    sampled = sum(min(size, n) for n in strata)
    kept = sum(part.height for part in chosen)
    assert kept == min(sampled, limit or sampled)
    assert sum(part.height for part in rejected) == rows - sampled
    assert sum(part.height for part in waiting) == sampled - kept
    assert set(pl.concat(rejected)["rule"]) <= {"not_sampled"}
    assert set(pl.concat(waiting)["waits_for"]) <= {"limit"}


def test_the_same_rows_are_taken_however_they_are_parted() -> None:
    settings = SelectionSettings(ChoiceSettings({"wmt_mqm": "sample"}), {"wmt_mqm": 9}, 7)
    frame = chosen_rows(40)
    once, _, _ = run([frame], settings)
    parted, _, _ = run([frame[25:], frame[:5], frame[5:25]], settings)
    assert sorted(once[0]["id"]) == sorted(pl.concat(parted)["id"])
    ordered = pl.concat(once).sort("key", "id")
    larger, _, waiting = run([frame], SelectionSettings(settings.choice, settings.sizes, None))
    assert waiting[0].is_empty()
    assert larger[0].sort("key", "id").head(7)["id"].to_list() == ordered["id"].to_list()


def test_an_inputs_outputs_are_sampled_together() -> None:
    settings = SelectionSettings(ChoiceSettings({"mine": "all"}), {"mine": 10})
    frame = chosen_rows(60, "mine", per_input=6).with_columns(pl.lit(None).alias("stratum"))
    chosen, _, _ = run([frame], settings)
    assert chosen[0].group_by("key").len()["len"].unique().to_list() == [6]
    assert chosen[0].height == pytest.approx(10, abs=6)


@given(
    st.lists(st.integers(1, 6), min_size=1, max_size=8),  # outputs of each input
    st.integers(1, 20),
)
def test_a_sample_of_inputs_is_never_empty_and_the_largest_that_fits(
    outputs: list[int], size: int
) -> None:
    settings = SelectionSettings(ChoiceSettings({"mine": "all"}), {"mine": size})
    inputs = [
        chosen_rows(count, f"mine{number}", per_input=6).with_columns(
            pl.lit("mine").alias("source"), pl.lit(None, pl.String).alias("stratum")
        )
        for number, count in enumerate(outputs)
    ]
    chosen, rejected, _ = run(inputs, settings)
    kept = sum(part.height for part in chosen)
    assert kept + sum(part.height for part in rejected) == sum(outputs)
    assert all(
        not part.height or not left.height for part, left in zip(chosen, rejected, strict=True)
    )
    whole = [part.height for part in chosen if part.height]
    assert whole
    assert kept <= size or len(whole) == 1
    assert kept > size - max(outputs) or kept == sum(outputs)


def test_only_sampled_sources_tell_candidates_where_there_is_no_limit() -> None:
    frame = pl.concat([chosen_rows(4), chosen_rows(4, "mine")])
    settings = SelectionSettings(ChoiceSettings({}), {"mine": 10})
    assert set(candidates(frame, settings)["source"]) == {"mine"}
    limited = SelectionSettings(ChoiceSettings({}), {}, 1)
    assert candidates(frame, limited).height == 8
