from __future__ import annotations

from collections.abc import Callable
from itertools import combinations_with_replacement, permutations
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.prosocial import released, schema
from pipelines.prosocial.labels import label_of, severity_of

CASUAL, CAUTION, INTERVENTION = schema.VOTES
#: All ten multisets of three votes, with the label that the facts give each.
TEN = {
    (CASUAL, CASUAL, CASUAL): "__casual__",
    (CASUAL, CASUAL, CAUTION): "__possibly_needs_caution__",
    (CASUAL, CAUTION, CAUTION): "__probably_needs_caution__",
    (CAUTION, CAUTION, CAUTION): "__needs_caution__",
    (CASUAL, CASUAL, INTERVENTION): "__needs_intervention__",
    (CASUAL, CAUTION, INTERVENTION): "__needs_intervention__",
    (CAUTION, CAUTION, INTERVENTION): "__needs_intervention__",
    (CASUAL, INTERVENTION, INTERVENTION): "__needs_intervention__",
    (CAUTION, INTERVENTION, INTERVENTION): "__needs_intervention__",
    (INTERVENTION, INTERVENTION, INTERVENTION): "__needs_intervention__",
}


def labels(votes: list[list[str | None] | None]) -> list[str | None]:
    frame = pl.DataFrame({"votes": votes}, schema={"votes": pl.List(pl.String)})
    return frame.select(label_of(pl.col("votes"))).to_series().to_list()


def test_ten_multisets_have_their_label_in_every_order() -> None:
    assert set(TEN) == set(combinations_with_replacement(schema.VOTES, 3))
    for multiset, label in TEN.items():
        orders = [list(order) for order in permutations(multiset)]
        assert labels(orders) == [label] * len(orders)


@pytest.mark.parametrize(
    "votes",
    [None, [], [CAUTION], [CASUAL] * 4, [CASUAL, CASUAL, "unsafe"], [CASUAL, CASUAL, None]],
)
def test_the_rule_says_nothing_about_other_lists(votes: list[str | None] | None) -> None:
    assert labels([votes]) == [None]


@given(st.lists(st.sampled_from(schema.VOTES), min_size=3, max_size=3), st.integers(0, 2))
def test_a_graver_vote_never_makes_a_milder_label(votes: list[str], index: int) -> None:
    graver = list(votes)
    graver[index] = schema.VOTES[min(schema.VOTES.index(votes[index]) + 1, 2)]
    frame = pl.DataFrame({"votes": [votes, graver]})
    before, after = frame.select(severity_of(label_of(pl.col("votes")))).to_series()
    assert before <= after


def test_severity_is_not_the_alphabetical_order() -> None:
    frame = pl.DataFrame({"label": [*schema.LABELS, "caution"]})
    severities = frame.select(severity_of(pl.col("label"))).to_series().to_list()
    assert severities == [0, 1, 2, 3, 4, None]
    assert sorted(schema.LABELS) != list(schema.LABELS)


@pytest.mark.parametrize("name", ["original_examples.json", "converted_examples.json"])
def test_real_rows_keep_their_label(shared_data: Callable[[str], Path], name: str) -> None:
    frame = released.read_released(shared_data(f"prosocial_dialog_samples/{name}"), "train")
    assert frame.height >= 5
    again = frame.select(label_of(pl.col("safety_annotations"))).to_series()
    assert again.to_list() == frame["safety_label"].to_list()
