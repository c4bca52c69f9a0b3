from __future__ import annotations

from collections.abc import Callable

import polars as pl
import pytest

from pipelines.prosocial.seeds import generic
from pipelines.prosocial.seeds.generic import FieldMap, parse_field_map
from transforms.errors import OptionError

FrameOf = Callable[..., pl.DataFrame]

FULL = FieldMap(situation="text", split="part", rots="norms", etc="id")


def test_a_field_map_is_parsed() -> None:
    assert parse_field_map("mine:situation=text, split=part,rots=norms,etc=id") == ("mine", FULL)
    assert parse_field_map("mine:situation=my text") == ("mine", FieldMap("my text"))


@pytest.mark.parametrize(
    ("option", "part"),
    [
        ("situation=text", "NAME:situation=COLUMN"),
        ("mine:", "NAME:situation=COLUMN"),
        ("mine:situation", "NAME:situation=COLUMN"),
        (":situation=text", "NAME:situation=COLUMN"),
        ("mine:title=text", "no field 'title'"),
        ("mine:split=part", "add situation=COLUMN"),
        ("mine:situation=a,situation=b", "given twice"),
    ],
)
def test_a_wrong_field_map_is_refused_with_the_remedy(option: str, part: str) -> None:
    with pytest.raises(OptionError, match=part):
        parse_field_map(option)


def test_rows_take_their_fields_from_the_mapped_columns(frame_of: FrameOf) -> None:
    norms = '["It\'s ok to hide.",  "You should ask.", ""]'
    frame = frame_of(
        {"text": "hiding keys", "part": "dev", "norms": norms, "id": " 7 "},
        {"text": "hiding maps", "part": "", "norms": "It's mean.", "id": None},
        {"text": "hiding gifts", "part": "other", "norms": " ", "id": ""},
        {"text": " ", "part": "train", "norms": None, "id": ""},
    )
    rows, rejected = generic.rows(frame, "seeds.csv", "mine", FULL)
    assert rows.select("source", "split", "situation", "etc", "rot", "rule", "value").rows() == [
        ("mine", "validation", "hiding keys", "7", "It's ok to hide.\nYou should ask.", None, None),
        ("mine", None, "hiding maps", "", "It's mean.", None, None),
        ("mine", None, "hiding gifts", "", None, "split", "other"),
    ]
    assert rejected.select("line", "rule", "field").rows() == [(5, "blank_situation", "text")]


def test_lists_of_rules_of_thumb_are_taken_as_they_come() -> None:
    frame = pl.DataFrame(
        {
            "line": [1, 2, 3],
            "text": ["a", "b", "c"],
            "norms": [["It's ok\nto ask.", None, " "], [], None],
        },
        schema_overrides={"line": pl.Int64, "norms": pl.List(pl.String)},
    )
    rows, _ = generic.rows(frame, "a.jsonl", "mine", FieldMap(situation="text", rots="norms"))
    assert rows["rot"].to_list() == ["It's ok to ask.", None, None]
