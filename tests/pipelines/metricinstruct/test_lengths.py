from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.metricinstruct.lengths import EMBEDDED_LENGTHS, Lengths, cut
from pipelines.metricinstruct.schema import SUMMARIZATION, TRANSLATION
from transforms.errors import OptionError


def test_lengths_are_those_of_the_original_by_task():
    lengths = Lengths()
    assert [lengths.of_input(task) for task in (TRANSLATION, SUMMARIZATION, "mathQA")] == [
        400,
        600,
        512,
    ]
    assert EMBEDDED_LENGTHS.of_input(SUMMARIZATION) == EMBEDDED_LENGTHS.of_input("mathQA") < 400


@pytest.mark.parametrize(
    ("text", "tokens", "left"),
    [
        ("one two three", 4, "one two three"),
        ("one two three", 3, "one two"),  # twelve characters would end within a word
        ("one two  three", 2, "one two"),
        ("one two three", 1, "one"),
        ("один два", 3, "один"),
        ("один два", 4, "один два"),
        ("你好世界", 3, "你好世"),
        ("x" * 100, 5, "x" * 20),
        ("short " + "x" * 100, 20, "short " + "x" * 74),
    ],
)
def test_a_text_ends_with_a_word(text, tokens, left):
    assert cut(text, tokens) == left


@given(st.text(), st.integers(1, 20))
def test_what_is_left_is_a_beginning_that_fits(text, tokens):
    left = cut(text, tokens)
    assert text.startswith(left)
    assert len(left) <= 4 * tokens
    assert cut(left, tokens) is left
    if len(text) <= tokens:
        assert left is text


def test_lengths_are_positive():
    with pytest.raises(OptionError):
        Lengths(output=0)
    with pytest.raises(OptionError):
        Lengths(inputs={TRANSLATION: 0})
