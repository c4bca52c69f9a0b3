from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.metricinstruct.errors import answers
from pipelines.metricinstruct.errors.answers import Fault
from pipelines.metricinstruct.errors.record import ErrorRecord
from pipelines.metricinstruct.errors.released import (
    errors_text,
    number_text,
    one_line,
    parse_labelled,
    total,
    unwritable,
)

Client = Callable[[str], "dict[str, Any] | None"]

FIRST = ErrorRecord("red door", "Accuracy", "It is blue.", "Major", 4.0)
SECOND = ErrorRecord("a the", "Fluency", "One article\nis enough.", "Minor", 0.5)
TEXT = """\
The model-generated output contains 2 errors, with a total score reduction of 4.5.
Error location 1: red door
Error aspect 1: Accuracy
Explanation 1: It is blue.
Severity 1: Major
Score reduction 1: 4
Error location 2: a the
Error aspect 2: Fluency
Explanation 2: One article is enough.
Severity 2: Minor
Score reduction 2: 0.5"""


def test_text_is_the_released_form() -> None:
    assert errors_text([FIRST, SECOND]) == TEXT
    assert errors_text([]) == (
        "The model-generated output contains 0 errors, with a total score reduction of 0."
    )
    assert errors_text([FIRST]).startswith("The model-generated output contains 1 errors, with")


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (4.0, "4"),
        (4.5, "4.5"),
        (0.0, "0"),
        (10.0, "10"),
        (1e-05, "0.00001"),
        (1e21, "1" + "0" * 21),
    ],
)
def test_numbers_have_no_exponent_and_no_idle_zero(number: float, text: str) -> None:
    assert number_text(number) == text


def test_total_is_the_sum_of_the_numbers_as_written() -> None:
    tenth = ErrorRecord("a", "b", "c", "Minor", 0.1)
    assert total([tenth] * 3) == 0.3


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (ErrorRecord(" \n", "a", "e", "Major", 1), "location is empty"),
        (ErrorRecord("l", "a", "see Severity 2: Major", "Major", 1), "explanation holds a label"),
        (ErrorRecord("l", "a", "\0", "Major", 1), "explanation is no text"),
        (ErrorRecord("l", "a", "e", "Major", -1), "score_reduction is negative"),
        (ErrorRecord("l", "a", "e", "Major", float("nan")), "score_reduction is negative or no"),
    ],
)
def test_what_could_not_be_read_again_is_refused(error: ErrorRecord, reason: str) -> None:
    assert (unwritable(error) or "").startswith(reason)
    with pytest.raises(ValueError, match="error 1 can't be written"):
        errors_text([error])


_VALUE = st.text(
    st.sampled_from("aZ 1:*#-.\n\r\t\x0b\x1c\u2028\u00a0é𝔡\"'“")
    | st.characters(codec="utf-8", max_codepoint=0x2FFF),
    min_size=1,
    max_size=15,
) | st.sampled_from(
    ["**bold**", "Error location 1: x", "contains 3 errors", "- x", "Severity 1 : Minor", "\n\nx"]
)
_ERRORS = st.builds(
    ErrorRecord,
    location=_VALUE,
    aspect=_VALUE,
    explanation=_VALUE,
    severity=_VALUE,
    score_reduction=st.floats(0, 100) | st.sampled_from([0.5, 1.0, 4.0]),
)


def _kept(error: ErrorRecord) -> ErrorRecord:
    """Return what the released text keeps of an error."""
    return ErrorRecord(
        one_line(error.location),
        one_line(error.aspect),
        one_line(error.explanation),
        one_line(error.severity),
        error.score_reduction,
    )


@settings(max_examples=200, deadline=None)
@given(st.lists(_ERRORS, max_size=4))
def test_text_returns_the_errors(client: Client, drawn: list[ErrorRecord]) -> None:
    errors = [error for error in drawn if unwritable(error) is None]
    text = errors_text(errors)
    parsed = parse_labelled(text)
    assert parsed.errors == tuple(_kept(error) for error in errors)
    assert (parsed.faults, parsed.output) == ((), None)
    assert (parsed.stated_count, parsed.stated_total) == (len(errors), total(errors))
    assert errors_text(parsed.errors) == text
    assert len(text.splitlines()) == 1 + 5 * len(errors)

    read = client(text)
    assert read is not None
    assert read["num_errors"] == len(errors)
    assert read["score"] == -float(int(total(errors)))
    assert [
        (values["location"], values["explanation"], float(values["score_reduction"]))
        for values in read["errors"]
    ] == [(error.location, error.explanation, error.score_reduction) for error in parsed.errors]


@pytest.mark.parametrize(
    "answer",
    [
        TEXT.replace("Error location 1:", "**Error location 1:**"),
        TEXT.replace("Error location 1: ", "- **error location 1**: "),
        TEXT + "\n\n",
        "  " + TEXT,
        TEXT.replace("\n", "\n\n"),
    ],
)
def test_marks_and_blank_lines_are_no_fault(answer: str) -> None:
    parsed = parse_labelled(answer)
    assert [error.location for error in parsed.errors] == ["red door", "a the"]
    assert parsed.faults == ()


@pytest.mark.parametrize(
    ("answer", "fault", "errors"),
    [
        (TEXT.replace("blue", "\udcff"), Fault(answers.NOT_TEXT), 0),
        ("I see no faults here.", Fault(answers.NO_HEADER), 0),
        (TEXT.split("\n", 1)[1], Fault(answers.NO_HEADER), 2),
        ("The output contains 0 errors.", Fault(answers.NO_HEADER, value="total"), 0),
        (TEXT.replace("2 errors", "1 error"), Fault(answers.SINGULAR_HEADER), 2),
        (TEXT.replace("2 errors", "3 errors"), Fault(answers.COUNT_DIFFERS, value="3 != 2"), 2),
        (
            TEXT.replace("Severity 2: Minor\n", ""),
            Fault(answers.MISSING_FIELD, 2, "severity"),
            1,
        ),
        (
            TEXT + "\nSeverity 2: Major",
            Fault(answers.REPEATED_FIELD, 2, "severity"),
            1,
        ),
        (TEXT.replace(" 0.5", " 1-2"), Fault(answers.NOT_A_NUMBER, 2, "score_reduction"), 1),
        (TEXT.replace(" 0.5", " half"), Fault(answers.NOT_A_NUMBER, 2, "score_reduction"), 1),
        (
            TEXT.replace("aspect 1: ", "aspect 1: \n"),
            Fault(answers.VALUE_ON_NEXT_LINE, 1, "aspect"),
            2,
        ),
        (
            TEXT.replace("It is blue.", "It is\nblue."),
            Fault(answers.CONTINUED_VALUE, 1, "explanation"),
            2,
        ),
        ("Here you are.\n" + TEXT, Fault(answers.TEXT_AROUND), 2),
    ],
)
def test_each_fault_has_its_reason(answer: str, fault: Fault, errors: int) -> None:
    parsed = parse_labelled(answer)
    assert fault in parsed.faults
    assert len(parsed.errors) == errors


def test_values_over_several_lines_are_joined() -> None:
    parsed = parse_labelled(TEXT.replace("It is blue.", "\nIt is\n blue."))
    assert parsed.errors[0].explanation == "It is blue."


def test_negative_reduction_is_read_as_it_is() -> None:
    parsed = parse_labelled(TEXT.replace("1: 4", "1: -4"))
    assert parsed.errors[0].score_reduction == -4


def test_output_before_the_header_is_read() -> None:
    parsed = parse_labelled("Incorrect output: The door is\nred.\n\n" + TEXT)
    assert parsed.output == "The door is\nred."
    assert parsed.faults == ()


def test_real_answers_as_the_client_and_we_read_them(
    client: Client, model_answers: list[dict[str, Any]]
) -> None:
    faults = {}
    for number, row in enumerate(model_answers):
        read, parsed = client(row["raw_output"]), parse_labelled(row["raw_output"])
        if row["errors"] is None:
            assert read is None
            faults[number] = {fault.reason for fault in parsed.faults}
            continue
        # The oracle is right where it agrees with what TIGERScore's own parser recorded.
        expected = list(row["errors"].values())
        assert read == {"num_errors": row["num_errors"], "score": row["score"], "errors": expected}
        assert parsed.faults == ()
        assert [
            (error.location, error.aspect, error.explanation, error.severity)
            for error in parsed.errors
        ] == [tuple(values.values())[:4] for values in expected]
    assert faults == {
        **{number: {answers.VALUE_ON_NEXT_LINE} for number in (150, 287, 379, 387, 457)},
        402: {answers.MISSING_FIELD},
    }


def test_real_answers_written_again_parse_for_the_client(
    client: Client, model_answers: list[dict[str, Any]]
) -> None:
    for row in model_answers:
        errors = parse_labelled(row["raw_output"]).errors
        read = client(errors_text(errors))
        assert read is not None
        assert [values["location"] for values in read["errors"]] == [
            error.location for error in errors
        ]
