from __future__ import annotations

from collections.abc import Callable

import polars as pl
import pytest

from pipelines.prosocial.seeds import ethics

FrameOf = Callable[..., pl.DataFrame]

SHORT = {"label": "1", "input": " I hid my sister's keys. ", "is_short": "True"}
LONG = {
    "label": "1",
    "input": "AITA for hiding my sister's keys? | She was | late.\n\nI was late too.",
    "is_short": "False",
}


def test_short_rows_are_used_as_they_are_and_long_ones_by_their_title(frame_of: FrameOf) -> None:
    rows, rejected = ethics.rows(frame_of(SHORT, LONG), "cm_test_hard.csv")
    assert rejected.is_empty()
    assert rows.select("source", "split", "situation", "etc", "rot", "rule").rows() == [
        ("ethics_amt", "test", "I hid my sister's keys.", "", None, None),
        ("ethics_reddit", "test", "hiding my sister's keys", "", None, None),
    ]


@pytest.mark.parametrize(
    ("title", "situation"),
    [
        ("AITA for leaving early?", "leaving early"),
        ("WIBTA if I left early ?", "I left early"),
        ("AITAH for leaving early??", "leaving early"),
        ("wibtah If I left early.", "I left early."),
        ("AITA, for leaving early", "leaving early"),
        ("AITA: For leaving early", "leaving early"),
        ("AITA - I left early", "I left early"),
        ("AITA? - I left early", "I left early"),
        ("AITA? I left early.", "I left early."),
        ("AITA...leaving early", "leaving early"),
        ("Aitah/ didn’t stay", "didn’t stay"),
        ("AITA (24M) for leaving (early)", "leaving (early)"),
        ("AITA (M27) for leaving early", "leaving early"),
        ("UPDATE: AITA if I leave early?", "I leave early"),
        ("Update AITA for leaving early", "leaving early"),
        ("AITA or WIBTA if I left early?", "I left early"),
        ("AITA because I left? Or not?", "because I left? Or not"),
        ("AITA forgetting a birthday", "forgetting a birthday"),
        ('AITA for a "late" call?', 'a "late" call'),
        ("I left early, AITA?", "I left early, AITA"),
        ("META: about this forum", "META: about this forum"),
    ],
)
def test_titles_lose_the_question_around_the_situation(title: str, situation: str) -> None:
    posts = pl.DataFrame({"input": [f"{title} | A body."]})
    assert posts.select(ethics.situation_of_post("input")).item() == situation


@pytest.mark.parametrize(
    ("label", "rule"),
    [
        ("1", None),
        ("1.0", None),
        ("0", "label"),
        ("", "no_label"),
        (None, "no_label"),
        ("x", "label"),
    ],
)
def test_only_rows_with_the_label_1_qualify(
    frame_of: FrameOf, label: str | None, rule: str | None
) -> None:
    rows, _ = ethics.rows(frame_of({**SHORT, "label": label}), "cm_train.csv")
    assert rows["rule"].to_list() == [rule]


def test_rows_that_can_not_be_judged_are_rejects(frame_of: FrameOf) -> None:
    rows, rejected = ethics.rows(
        frame_of(
            {**SHORT, "is_short": "perhaps"},
            {**LONG, "input": "No title here."},
            {**LONG, "input": "AITA? | A body."},
            {**SHORT, "input": None},
        ),
        "cm_train.csv",
    )
    assert rows.is_empty()
    assert rejected.select("line", "rule", "field", "value").rows() == [
        (2, "is_short", "is_short", "perhaps"),
        (3, "no_title", "input", ""),
        (4, "blank_situation", "input", ""),
        (5, "blank_situation", "input", ""),
    ]


def test_ambiguous_posts_have_no_label(frame_of: FrameOf) -> None:
    frame = frame_of({"input": LONG["input"]})
    rows, rejected = ethics.ambiguous_rows(frame, "cm_ambig.csv")
    assert rejected.is_empty()
    assert rows.select("source", "split", "situation", "rule").rows() == [
        ("ethics_reddit", None, "hiding my sister's keys", "no_label")
    ]


@pytest.mark.parametrize(
    ("path", "ambiguous"),
    [("data/cm_ambig.csv.gz", True), ("CM_AMBIG.csv", True), ("ambig/cm_train.csv", False)],
)
def test_files_of_ambiguous_posts_are_known_by_their_name(path: str, ambiguous: bool) -> None:
    assert ethics.is_named_ambiguous(path) is ambiguous


@pytest.mark.parametrize(
    ("first_row", "headerless"),
    [(["AITA for x? | y"], True), (["input"], False), (["label", "input", "is_short"], False)],
)
def test_a_first_row_that_is_a_post_is_no_header(first_row: list[str], headerless: bool) -> None:
    assert ethics.is_headerless(first_row) is headerless
