from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from transforms.tokens import cut, tokens


@pytest.mark.parametrize(
    ("text", "most", "left"),
    [
        ("one two three", 4, "one two three"),
        ("one two three", 3, "one two"),  # twelve characters would end within a word
        ("one two  three", 2, "one two"),
        ("one two three", 1, "one"),
        ("один два", 3, "один"),
        ("один два", 4, "один два"),
        ("你好世界", 3, "你好世界"),
        ("你好世界", 2, "你好"),
        ("日本語の文", 3, "日本語の"),
        ("안녕하세요", 3, "안녕하세"),
        ("x" * 100, 5, "x" * 20),
        ("short " + "x" * 100, 20, "short " + "x" * 74),
    ],
)
def test_a_text_ends_with_a_word(text: str, most: int, left: str) -> None:
    assert cut(text, most) == left


@given(st.text(), st.integers(1, 20))
def test_what_is_left_is_a_beginning_that_fits(text: str, most: int) -> None:
    left = cut(text, most)
    assert text.startswith(left)
    assert len(left.encode()) <= 4 * most
    assert cut(left, most) is left
    if len(text) <= most:
        assert left is text


def test_tokens_of_any_script_and_of_nothing() -> None:
    texts = pl.DataFrame({"text": ["four", "one two", "мост", "桥", "", None]})
    assert texts.select(tokens(pl.col("text")))["text"].to_list() == [1, 1.75, 2, 0.75, 0, 0]


@given(st.text(min_size=1), st.integers(1, 20))
def test_what_fits_by_count_is_not_cut(text: str, most: int) -> None:
    (count,) = pl.DataFrame({"text": [text]}).select(tokens(pl.col("text")))["text"]
    assert (cut(text, most) is text) == (count <= most)
