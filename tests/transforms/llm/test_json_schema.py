"""The validator agrees with the jsonschema package, and refuses what it would not check."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transforms.llm.json_schema import check_strict, validator
from transforms.llm.parsing import parse_json

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "vote": {"type": "string", "enum": ["casual", "needs caution"]},
        "reason": {"type": ["string", "null"], "minLength": 2, "maxLength": 5, "pattern": "^[a-z]"},
        "rots": {"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": 2},
        "score": {"type": "integer", "minimum": 0, "maximum": 3},
        "sure": {"type": "boolean"},
        "kind": {"const": "x"},
    },
    "required": ["vote", "rots"],
    "additionalProperties": False,
}
LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-1, 4),
    st.floats(0, 3),
    st.sampled_from(["casual", "needs caution", "x", "", "abc", "Abc", "abcdefg"]),
)
VALUES = st.one_of(
    LEAVES,
    st.dictionaries(
        st.sampled_from([*SCHEMA["properties"], "other"]),
        st.one_of(LEAVES, st.lists(LEAVES, max_size=3)),
    ),
    st.fixed_dictionaries(
        {"vote": st.just("casual"), "rots": st.lists(st.just("x"), min_size=1, max_size=2)},
        optional=dict.fromkeys(("reason", "score", "sure", "kind"), LEAVES),
    ),
)


@given(VALUES)
def test_agrees_with_the_jsonschema_package(value: Any) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    if isinstance(value, dict) and isinstance(value.get("score"), float):
        return  # 1.0 is an integer to JSON schema; an int64 column has no use for it
    expected = jsonschema.Draft202012Validator(SCHEMA).is_valid(value)
    assert (validator(SCHEMA)(value) is None) == expected


def test_a_text_that_has_to_have_characters_may_not_be_blank() -> None:
    validate = validator({"type": "string", "minLength": 10}, "/text")
    assert validate(" " * 10) == "/text: blank"
    assert validate("\n\u00a0 \x1f" * 4) == "/text: blank"
    assert validate("a" + " " * 9) is None
    assert validate("") == "/text: shorter than 10"
    assert validator({"type": "string", "minLength": 0})("  ") is None


def test_says_where_and_never_what() -> None:
    validate = validator(SCHEMA)
    assert validate({"vote": "secret", "rots": ["x"]}) == "/vote: not one of the allowed values"
    assert validate({"vote": "casual", "rots": ["x", 3]}) == "/rots/*: not of type string"
    assert validate({"vote": "casual"}) == "/rots: missing"
    fault = validate({"vote": "casual", "rots": ["x"], "harmful": 1})
    assert fault == "/: has a property that the schema does not name"


def test_what_is_too_great_for_a_number_is_none() -> None:
    validate = validator({"type": ["number", "null"]})
    assert validate(parse_json("1e308")) is validate(None) is None
    assert validate(parse_json("1e309")) == "/: not of type number or null"


@pytest.mark.parametrize(
    "schema",
    [{"oneOf": []}, {"type": "text"}, {"items": {"format": "date"}}, {"additionalProperties": {}}],
)
def test_refuses_what_would_go_unchecked(schema: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"not supported|unknown types|additionalProperties"):
        validator(schema)


def test_strict_schemas_are_closed_and_without_options() -> None:
    closed = {**SCHEMA, "required": list(SCHEMA["properties"])}
    check_strict(closed)
    with pytest.raises(ValueError, match="every property must be required"):
        check_strict(SCHEMA)
    with pytest.raises(ValueError, match=r"/list/\*: additionalProperties must be false"):
        check_strict(
            {
                "type": "object",
                "properties": {"list": {"type": "array", "items": {"type": "object"}}},
                "required": ["list"],
                "additionalProperties": False,
            }
        )
