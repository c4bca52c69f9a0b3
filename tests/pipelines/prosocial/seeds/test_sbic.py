from __future__ import annotations

import json
from collections.abc import Callable

import polars as pl
import pytest

from pipelines.prosocial.seeds import sbic
from pipelines.prosocial.seeds.selection import select

FrameOf = Callable[..., pl.DataFrame]

POST = "People who whistle in the morning &amp; hum at noon want  us all awake."
ROW = {
    "post": POST,
    "targetMinority": "people who whistle",
    "targetStereotype": "people who whistle are noisy",
}


def words(number: int) -> str:
    return " ".join(f"word{index}" for index in range(number))


def test_the_post_stays_as_it_is_and_the_file_tells_the_split(frame_of: FrameOf) -> None:
    rows, rejected = sbic.rows(frame_of(ROW), "SBIC.v2.dev.csv")
    row = rows.row(0, named=True)
    assert rejected.is_empty()
    assert (row["situation"], row["split"], row["etc"], row["source"]) == (
        POST,
        "validation",
        "",
        "sbic",
    )
    assert row["rot"] == "It's not right to think people who whistle are noisy."
    assert row["rule"] is None


@pytest.mark.parametrize(
    ("number", "rule"), [(9, "post_words"), (10, None), (40, None), (41, "post_words")]
)
def test_posts_have_10_to_40_words(frame_of: FrameOf, number: int, rule: str | None) -> None:
    rows, _ = sbic.rows(frame_of({**ROW, "post": words(number)}), "SBIC.v2.trn.csv")
    assert rows["rule"].to_list() == [rule]
    assert rows["value"].to_list() == [None if rule is None else str(number)]


@pytest.mark.parametrize(
    ("minority", "stereotype", "rule"),
    [
        ("", "", "target"),
        (None, None, "target"),
        ("  ", "they are noisy", "target_minority"),
        ("people who whistle", "", "target_stereotype"),
        ("[]", '["they are noisy"]', "target_minority"),
        ('["people who whistle"]', "[]", "target_stereotype"),
        ('[""]', "[]", "target"),
    ],
)
def test_posts_have_a_target_and_a_stereotype(
    frame_of: FrameOf, minority: str | None, stereotype: str | None, rule: str
) -> None:
    cells = {**ROW, "targetMinority": minority, "targetStereotype": stereotype}
    rows, _ = sbic.rows(frame_of(cells), "SBIC.v2.trn.csv")
    assert rows["rule"].to_list() == [rule]


def test_both_forms_of_the_files_select_the_same_seeds(frame_of: FrameOf) -> None:
    annotations = [
        ("people who whistle", "people who whistle are noisy"),
        ("people who whistle", "makes fun of whistling"),
        ("", ""),
    ]
    each = frame_of(
        *({"post": POST, "targetMinority": m, "targetStereotype": s} for m, s in annotations)
    )
    lists = [sorted({cell for cell in cells if cell}) for cells in zip(*annotations, strict=True)]
    aggregate = frame_of(
        {
            "post": POST,
            "targetMinority": json.dumps(lists[0]),
            "targetStereotype": json.dumps(lists[1]),
        }
    )
    per_annotator = select(sbic.rows(each, "SBIC.v2.trn.csv")[0], salt="s").seeds
    aggregated = select(sbic.rows(aggregate, "SBIC.v2.agg.trn.csv")[0], salt="s").seeds
    same = ["key", "source", "split", "situation", "rots"]
    assert per_annotator.select(same).rows() == aggregated.select(same).rows()
    assert per_annotator["input_rows"].to_list() == [3]
    assert sorted(aggregated["rots"][0]) == [
        "It's not right to think people who whistle are noisy.",
        "You shouldn't make fun of whistling.",
    ]


def test_annotators_of_a_post_complete_each_other(frame_of: FrameOf) -> None:
    only_group = {**ROW, "targetStereotype": ""}
    only_stereotype = {**ROW, "targetMinority": ""}
    rows, _ = sbic.rows(frame_of(only_group, only_stereotype), "SBIC.v2.trn.csv")
    assert select(rows, salt="s").seeds.height == 1
    for row in (only_group, only_stereotype):
        alone, _ = sbic.rows(frame_of(row, row), "SBIC.v2.trn.csv")
        assert select(alone, salt="s").seeds.is_empty()


def test_a_row_without_a_post_is_a_reject(frame_of: FrameOf) -> None:
    rows, rejected = sbic.rows(
        frame_of({**ROW, "post": None}, {**ROW, "post": "?! ..."}), "SBIC.v2.trn.csv"
    )
    assert rows.is_empty()
    assert rejected.select("unit", "rule", "field", "line", "input_rows").rows() == [
        ("seed_row", "blank_situation", "post", 2, 1),
        ("seed_row", "situation_without_letters", "post", 3, 1),
    ]
