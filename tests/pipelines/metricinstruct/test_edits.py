"""Edits of a reference: the output that follows from them, and its errors."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.metricinstruct.edits import apply_edits
from pipelines.metricinstruct.errors.places import find
from pipelines.metricinstruct.errors.suggestions import apply_suggestion

REFERENCE = "The shop opens at nine, and at nine the bakery opens, too."


def an_edit(correct: str, wrong: str) -> dict[str, Any]:
    return {
        "correct": correct,
        "wrong": wrong,
        "explanation": "The source says something else.",
        "aspect": "Accuracy",
        "severity": "Major",
        "score_reduction": 3,
    }


def test_errors_come_in_the_order_of_their_places():
    made = apply_edits(REFERENCE, [an_edit("bakery", "butcher"), an_edit("shop", "school")])
    assert made.output == "The school opens at nine, and at nine the butcher opens, too."
    assert [(error.location, error.suggestion) for error in made.errors] == [
        ("school", "shop"),
        ("butcher", "bakery"),
    ]
    assert made.errors[0].score_reduction == 3.0


def test_the_same_words_are_changed_where_they_still_stand():
    made = apply_edits(REFERENCE, [an_edit("nine", "ten"), an_edit("nine", "ten")])
    assert made.output == "The shop opens at ten, and at ten the bakery opens, too."
    assert [(error.start, error.occurrence) for error in made.errors] == [(18, 1), (30, 2)]


def test_what_cannot_be_changed_leaves_no_error():
    edits = [
        an_edit("butcher", "bakery"),  # not there
        an_edit("shop", " shop"),  # no change
        an_edit("too", " "),  # nothing that could be pointed at
        an_edit("opens at nine", "opens at ten"),
        an_edit("at nine,", "at eight,"),  # overlaps
    ]
    made = apply_edits(REFERENCE, edits)
    assert made.output == "The shop opens at ten, and at nine the bakery opens, too."
    assert len(made.errors) == 1
    assert apply_edits(REFERENCE, []).output == REFERENCE


@pytest.mark.parametrize(
    ("correct", "wrong", "location", "suggestion"),
    [
        ("The shop opens at nine,", "The shop opens at ten,", "ten,", "nine,"),
        ("shop opens", "school opens", "school", "shop"),
        ("opens at nine", "opens", "opens", "opens at nine"),  # left out
        ("opens at nine", "at nine", "at", "opens at"),
        (REFERENCE, REFERENCE.replace("shop", "big shop"), "big shop", "shop"),
    ],
)
def test_words_that_stay_are_no_part_of_the_error(correct, wrong, location, suggestion):
    made = apply_edits(REFERENCE, [an_edit(correct, wrong)])
    assert made.output == REFERENCE.replace(correct, wrong, 1)
    (error,) = made.errors
    assert (error.location, error.suggestion) == (location, suggestion)


def test_words_are_found_in_spite_of_quotes_case_and_line_breaks():
    made = apply_edits("Water them.\nGive light.", [an_edit('"water them. Give"', "Give")])
    assert made.output == "Give light."
    assert made.errors[0].suggestion == "Water them.\nGive"
    assert made.errors[0].location == "Give"


@pytest.mark.parametrize(
    ("correct", "wrong"),
    [
        (" bakery", "butcher"),
        ("\nbakery ", "\tbutcher "),
        (" bakery opens ", "butcher opens"),
        ("“bakery”", "“butcher”"),
        ('" bakery"', "… butcher"),
    ],
)
def test_what_stands_around_the_words_of_an_edit_stays_out(correct, wrong):
    made = apply_edits(REFERENCE, [an_edit(correct, wrong)])
    assert made.output == REFERENCE.replace("bakery", "butcher")
    (error,) = made.errors
    assert (error.location, error.suggestion) == ("butcher", "bakery")


@pytest.mark.parametrize(
    ("reference", "correct", "wrong", "output"),
    [
        ("Ask the Mill owner.", "the mill owner", '"the mill owner"', 'Ask "the mill owner".'),
        ("He said the End.", "the end.", "the end...", "He said the end..."),
    ],
)
def test_marks_of_an_error_stay_where_only_case_differs(reference, correct, wrong, output):
    assert apply_edits(reference, [an_edit(correct, wrong)]).output == output


def test_marks_of_the_reference_stay_and_are_not_doubled():
    for correct, wrong in (("“Up”", "“Down”"), ('"Up"', '"Down"')):
        assert apply_edits('He read "Up".', [an_edit(correct, wrong)]).output == 'He read "Down".'


BLANKS = st.sampled_from(["", " ", "\n"])
WORDS = st.builds(
    "{}{}{}".format,
    BLANKS,
    st.sampled_from(["nine", "at", "opens", "the", "shop", "n", "bakery opens", "ten", "x y"]),
    BLANKS,
)


@given(st.lists(st.tuples(WORDS, WORDS), max_size=6))
def test_suggestions_lead_back_to_the_reference(pairs):
    made = apply_edits(REFERENCE, [an_edit(*pair) for pair in pairs])
    text = made.output
    for error in reversed(made.errors):
        assert made.output[error.start : error.end] == error.location
        found = [start for start, _ in find(error.location, made.output)[0]]
        assert found[error.occurrence - 1] == error.start
        text = apply_suggestion(text, error)
        for words in (error.location, error.suggestion):
            assert words == words.strip()
    assert text == REFERENCE
