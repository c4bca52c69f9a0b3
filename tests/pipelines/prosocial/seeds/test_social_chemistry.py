from __future__ import annotations

from collections.abc import Callable

import polars as pl
import pytest

from pipelines.prosocial.seeds import social_chemistry
from transforms.keys import content_key

FrameOf = Callable[..., pl.DataFrame]

ROW = {
    "split": "train",
    "rot-agree": "3.0",
    "rot-char-targeting": "char-0",
    "rot-bad": "0",
    "action-pressure": "-1.0",
    "situation": " hiding my sister's keys ",
    "situation-short-id": "reddit/confessions/x1",
    "rot": "It's mean to hide\n someone's keys.",
}


def test_a_qualifying_row(frame_of: FrameOf) -> None:
    rows, rejected = social_chemistry.rows(frame_of(ROW), "sc.tsv")
    assert rejected.is_empty()
    assert rows.row(0, named=True) == {
        "key": content_key("hiding my sister's keys"),
        "file": "sc.tsv",
        "line": 2,
        "source": "socialchemistry",
        "split": "train",
        "situation": "hiding my sister's keys",
        "etc": "reddit/confessions/x1",
        "rot": "It's mean to hide someone's keys.",
        "rule": None,
        "rank": 43,
        "value": None,
    }


@pytest.mark.parametrize("pressure", ["-2", "-2.0", "-1", "-1.0", "-0.5", "2", "2.0"])
def test_pressure_against_the_action_or_strongly_for_it_qualifies(
    frame_of: FrameOf, pressure: str
) -> None:
    rows, _ = social_chemistry.rows(frame_of({**ROW, "action-pressure": pressure}), "sc.tsv")
    assert rows["rule"].to_list() == [None]


@pytest.mark.parametrize(
    ("column", "cell", "rule"),
    [
        *[("action-pressure", cell, "action_pressure") for cell in ("0", "1.0", "3", "", "?")],
        *[("rot-char-targeting", cell, "rot_char_targeting") for cell in ("char-1", "char-none")],
        *[("rot-bad", cell, "rot_bad") for cell in ("1", "", "1.0")],
        *[("split", cell, "split") for cell in ("dev-extra", "test-extra", "", "valid")],
    ],
)
def test_each_rule_fails_with_its_value(
    frame_of: FrameOf, column: str, cell: str, rule: str
) -> None:
    rows, _ = social_chemistry.rows(frame_of({**ROW, column: cell}), "sc.tsv")
    assert rows.select("rule", "value").row(0) == (rule, cell)


def test_a_null_cell_fails_with_an_empty_value(frame_of: FrameOf) -> None:
    rows, _ = social_chemistry.rows(frame_of({**ROW, "action-pressure": None}), "sc.tsv")
    assert rows.select("rule", "value").row(0) == ("action_pressure", "")


def test_rank_tells_how_far_a_row_got_and_then_how_much_agreement_there_is(
    frame_of: FrameOf,
) -> None:
    cells: list[dict[str, str | None]] = [
        {"split": "dev-extra"},
        {"rot-bad": "1"},
        {"rot-char-targeting": "char-1"},
        {"action-pressure": "1"},
        {"rot-agree": "0.0"},
        {"rot-agree": ""},
        {"rot-agree": "4"},
    ]
    rows, _ = social_chemistry.rows(frame_of(*({**ROW, **row} for row in cells)), "sc.tsv")
    assert rows["rank"].to_list() == [3, 13, 23, 33, 40, 42, 44]


def test_candidates_are_acceptable_rules_of_thumb_of_used_splits(frame_of: FrameOf) -> None:
    cells = [{"rot-char-targeting": "char-1"}, {"rot-bad": "1"}, {"split": "dev-extra"}]
    rows, _ = social_chemistry.rows(frame_of(*({**ROW, **row} for row in cells)), "sc.tsv")
    assert rows["rot"].is_null().to_list() == [False, True, True]


def test_dev_is_validation_and_other_splits_are_none(frame_of: FrameOf) -> None:
    splits = ["train", "dev", "test", "dev-extra"]
    rows, _ = social_chemistry.rows(frame_of(*({**ROW, "split": s} for s in splits)), "sc.tsv")
    assert rows["split"].to_list() == ["train", "validation", "test", None]
