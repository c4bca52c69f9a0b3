"""JSON read quickly is JSON read by the standard library."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transforms.llm.parsing import parse_json

_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)  # fmt: skip


@given(_VALUES, st.booleans())
def test_every_value_comes_back(value: object, ascii_only: bool) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only)
    assert parse_json(text) == value
    assert parse_json(text.encode("utf-8", "surrogatepass")) == value


@given(st.text('[]{}",:0123456789.eE+-tfn\\u ab\n', max_size=12))
def test_what_is_no_json_is_refused_and_nothing_else(text: str) -> None:
    def refuse(name: str) -> None:
        raise ValueError(name)

    try:
        value = json.loads(text, parse_constant=refuse)
    except ValueError:
        with pytest.raises(ValueError):  # noqa: PT011 - whatever it says
            parse_json(text)
    else:
        assert parse_json(text) == value


@pytest.mark.parametrize("text", ["NaN", "[Infinity]", '{"a": -Infinity}'])
def test_constants_that_json_lacks_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="JSON"):
        parse_json(text)


def test_a_byte_order_mark_is_passed_over() -> None:
    assert parse_json("\ufeff[1]") == parse_json("\ufeff[1]".encode()) == [1]


def test_lone_surrogates_are_taken() -> None:
    assert parse_json('"\\ud800"') == "\ud800"
    assert parse_json('"\ud800"') == "\ud800"
