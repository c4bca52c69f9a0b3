from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.metricinstruct.errors import answers
from pipelines.metricinstruct.errors.answers import Fault, settle
from pipelines.metricinstruct.errors.structured import parse_structured
from pipelines.metricinstruct.schema import ASPECTS, TRANSLATION

ERROR: dict[str, Any] = {
    "location": "red door",
    "aspect": "Accuracy",
    "explanation": "It is blue.",
    "severity": "Major",
    "score_reduction": 4,
    "suggestion": "blue door",
    "context": None,
}


def _without(name: str) -> dict[str, Any]:
    return {key: value for key, value in ERROR.items() if key != name}


def test_answer_as_asked_for() -> None:
    parsed = parse_structured(json.dumps({"output": "The red door.", "errors": [ERROR]}))
    (error,) = parsed.errors
    assert (error.location, error.score_reduction, error.suggestion) == (
        "red door",
        4.0,
        "blue door",
    )
    assert (parsed.output, parsed.faults) == ("The red door.", ())


def test_answer_in_the_form_of_the_original_data() -> None:
    old = {
        "error_location": "red door",
        "error_aspect": "Accuracy",
        "explanation": "It is blue.",
        "severity": "Major",
        "score_reduction": "2.5",
    }
    parsed = parse_structured({"errors": {"error_1": old, "error_2": old}})
    assert [error.score_reduction for error in parsed.errors] == [2.5, 2.5]
    assert parsed.errors[0].location == "red door"
    assert parsed.faults == ()


def test_no_errors() -> None:
    for empty in ({"errors": {}}, {"errors": []}):
        parsed = parse_structured(empty)
        assert (parsed.errors, parsed.faults) == ((), ())


@pytest.mark.parametrize(
    "answer",
    [
        'Here it is:\n```json\n{"errors": []}\n```\nDone.',
        'Here it is: {"errors": []}',
        '{"errors": []} is all.',
    ],
)
def test_text_around_the_json_is_read_over_and_said(answer: str) -> None:
    parsed = parse_structured(answer)
    assert parsed.faults == (Fault(answers.TEXT_AROUND),)


@pytest.mark.parametrize("answer", ["", "none", '{"errors": [', "[" * 100_000, '{"errors": tru}'])
def test_what_is_no_json_is_said_and_nothing_else(answer: str) -> None:
    assert parse_structured(answer).faults == (Fault(answers.NOT_JSON),)


@pytest.mark.parametrize(
    ("value", "fault"),
    [
        ({"mistakes": []}, Fault(answers.NOT_AN_ANALYSIS)),
        ({"errors": [], "score": 3}, Fault(answers.UNKNOWN_FIELD, value="score")),
        ({"errors": None}, Fault(answers.NULL_FIELD, value="errors")),
        ({"errors": "none"}, Fault(answers.WRONG_TYPE, value="errors")),
        ({"errors": [], "output": None}, Fault(answers.NULL_FIELD, value="output")),
        ({"errors": ["red door"]}, Fault(answers.WRONG_TYPE, 1, "error")),
        ({"errors": [_without("aspect")]}, Fault(answers.MISSING_FIELD, 1, "aspect")),
        ({"errors": [{**ERROR, "weight": 1}]}, Fault(answers.UNKNOWN_FIELD, 1, "weight")),
        ({"errors": [{**ERROR, "aspect": None}]}, Fault(answers.NULL_FIELD, 1, "aspect")),
        ({"errors": [{**ERROR, "aspect": ["a"]}]}, Fault(answers.WRONG_TYPE, 1, "aspect")),
        ({"errors": [{**ERROR, "location": "\ud83d"}]}, Fault(answers.NOT_TEXT, 1, "location")),
        ({"errors": [], "output": "\0"}, Fault(answers.NOT_TEXT, value="output")),
        ({"errors": [], "\udc80": 1}, Fault(answers.UNKNOWN_FIELD, value="\ufffd")),
        (
            {"errors": [{**ERROR, "error_aspect": "Fluency"}]},
            Fault(answers.REPEATED_FIELD, 1, "aspect"),
        ),
        *(
            ({"errors": [{**ERROR, "score_reduction": value}]}, fault)
            for value, fault in [
                ("much", Fault(answers.NOT_A_NUMBER, 1, "score_reduction")),
                (float("nan"), Fault(answers.NOT_A_NUMBER, 1, "score_reduction")),
                (float("inf"), Fault(answers.NOT_A_NUMBER, 1, "score_reduction")),
                (10**400, Fault(answers.NOT_A_NUMBER, 1, "score_reduction")),
                (True, Fault(answers.WRONG_TYPE, 1, "score_reduction")),
                (None, Fault(answers.NULL_FIELD, 1, "score_reduction")),
            ]
        ),
    ],
)
def test_each_fault_has_its_reason(value: Any, fault: Fault) -> None:
    parsed = parse_structured(value)
    assert parsed.faults == (fault,)
    assert parsed.errors == ()
    assert parse_structured(json.dumps(value)) == parsed


def test_a_repeated_name_is_not_lost_in_silence() -> None:
    answer = '{"errors": {"error_1": {"location": "a"}, "error_1": {"location": "b"}}}'
    assert parse_structured(answer).faults == (Fault(answers.REPEATED_FIELD),)


def test_a_bad_error_leaves_the_others() -> None:
    parsed = parse_structured({"errors": [_without("severity"), ERROR]})
    assert [error.location for error in parsed.errors] == ["red door"]
    assert parsed.faults == (Fault(answers.MISSING_FIELD, 1, "severity"),)


_JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from([*ERROR, "errors", "output", "x"]), inner, max_size=8)
    ),
    max_leaves=12,
)


@settings(max_examples=60, deadline=None)
@given(_JSON)
def test_any_json_is_read_or_said_to_be_faulty(value: Any) -> None:
    parsed = parse_structured(json.dumps(value))
    assert parsed.faults or isinstance(value["errors"], dict | list)
    assert all(fault.reason in answers.FAULTS for fault in parsed.faults)


def test_settling_spells_names_as_given_and_finds_the_place() -> None:
    raw = parse_structured(
        {"errors": [{**ERROR, "aspect": "style  matching", "severity": "minor"}]}
    )
    settled = settle(raw, "The Red Door.", ASPECTS[TRANSLATION])
    (error,) = settled.errors
    assert (error.aspect, error.severity) == ("Style Matching", "Minor")
    assert (error.location, error.start, error.end) == ("Red Door", 4, 12)
    unknown = settle(parse_structured({"errors": [{**ERROR, "aspect": "Tone"}]}), "", ["Fluency"])
    assert unknown.errors[0].aspect == "Tone"


def test_real_answers_of_chatgpt(chatgpt_answers: list[dict[str, Any]]) -> None:
    errors = []
    for row in chatgpt_answers:
        parsed = settle(parse_structured(row["answer"]), row["text"], ASPECTS[TRANSLATION])
        assert parsed.faults == ()
        errors.extend(parsed.errors)
        assert all(
            row["text"][error.start : error.end] == error.location
            for error in parsed.errors
            if error.start is not None
        )
    assert len(errors) == 192
    # 13 as they were quoted; case and quotation marks bring no further one.
    assert sum(error.start is not None for error in errors) == 13
    assert {error.aspect for error in errors} == {"Style Matching", "Terminology"}
