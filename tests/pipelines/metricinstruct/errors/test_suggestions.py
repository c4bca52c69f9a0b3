from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.metricinstruct.errors.places import place
from pipelines.metricinstruct.errors.record import ErrorRecord
from pipelines.metricinstruct.errors.suggestions import apply_suggestion, suggestion_in


def _error(location: str, suggestion: str | None, output: str) -> ErrorRecord:
    return place(ErrorRecord(location, "Accuracy", "Why.", "Major", 4.0, suggestion), output)


@pytest.mark.parametrize(
    ("location", "suggestion", "corrected"),
    [
        ("red", "blue", "The blue door, the red roof."),
        ("red ", "", "The door, the red roof."),
        ("red", "", "The door, the red roof."),
        (", the red roof", "", "The red door."),
        ("roof.", "", "The red door, the red"),
        ("The", "", "red door, the red roof."),
        ("the red roof", "its roof", "The red door, its roof."),
    ],
)
def test_suggestion_stands_in_place_of_the_location(
    location: str, suggestion: str, corrected: str
) -> None:
    output = "The red door, the red roof."
    assert apply_suggestion(output, _error(location, suggestion, output)) == corrected


def test_only_the_place_of_the_error_changes() -> None:
    output = "The red door, the red roof."
    second = place(
        ErrorRecord("red", "A", "Why.", "Major", 4.0, suggestion="old", context="the red roof"),
        output,
    )
    assert apply_suggestion(output, second) == "The red door, the old roof."


def test_nothing_to_apply() -> None:
    assert apply_suggestion("The door.", _error("door", None, "The door.")) is None
    assert apply_suggestion("The door.", _error("roof", "house", "The door.")) is None


def test_error_of_another_output_is_refused() -> None:
    with pytest.raises(ValueError, match="placed in another output"):
        apply_suggestion("A long roof.", _error("door", "gate", "The door."))


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=8), st.text(min_size=1, max_size=5), st.text(max_size=8), st.text())
def test_a_replacement_that_is_undone_gives_the_output(
    before: str, words: str, after: str, suggestion: str
) -> None:
    output = before + words + after
    error = _error(words, suggestion, output)
    if error.start is None or not suggestion.strip():
        return
    corrected = apply_suggestion(output, error)
    assert corrected is not None
    assert corrected == output[: error.start] + suggestion + output[error.end :]


@pytest.mark.parametrize(
    ("explanation", "suggestion"),
    [
        ("The correct term should be 'blue'.", "blue"),
        ('It should read "the blue door".', "the blue door"),
        ('The correction would be to replace "red" with "blue".', "blue"),
        ("A more accurate translation would be 'the blue door' or 'a blue door'.", "the blue door"),
        ("The correct translation is: “Haustür”.", "Haustür"),
        ('The phrase "can be replaced with" is odd here, "is" is better.', None),
        ("It should be blue.", None),
        ("The word 'red' is wrong.", None),
    ],
)
def test_suggestion_in_an_explanation(explanation: str, suggestion: str | None) -> None:
    assert suggestion_in(explanation) == suggestion
