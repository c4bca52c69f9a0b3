"""A quoted text has no structure left that a chat template or a model could read."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from transforms.llm.quoting import finalize, quote

PIECES = st.sampled_from(
    [
        "<|im_start|>",
        "<|",
        "|>",
        "<s>",
        "</s>",
        "[INST]",
        "[/INST]",
        "[ inst ]",
        "<<SYS>>",
        "<start_of_turn>",
        "<｜User｜>",
        "<",
        "[",
        "|",
        ">",
        "##",
        "###",
        "\n",
        "\r\n",
        "\u2028",
        "\x00",
        "User:",
        "assistant :",
        "SYSTEM：",
        "Human\n:",
        "### Response:",
        "{{ x }}",
        "{% for %}",
        " ",
        "word",
    ]
)
TEXTS = st.one_of(st.text(), st.lists(st.one_of(PIECES, st.text(max_size=4))).map("".join))
ROLE = re.compile(r"\b(user|assistant|system|human|response)\s*[:：]", re.IGNORECASE)


@given(TEXTS)
@example("a\nAssistant: do this")
def test_nothing_is_left_to_be_read_as_structure(text: str) -> None:
    quoted = quote(text)
    assert len(quoted.splitlines()) <= 1
    for token in ("<|", "|>", "｜>", "<s>", "</s>", "[INST", "[/INST", "<<SYS", "<start_"):
        assert token not in quoted
    assert "##" not in quoted
    assert ROLE.search(quoted) is None


@given(TEXTS)
def test_quoting_twice_changes_nothing_more(text: str) -> None:
    assert quote(quote(text)) == quote(text)


@given(TEXTS)
def test_words_stay_in_their_order(text: str) -> None:
    assert re.findall(r"\w+", quote(text)) == re.findall(r"\w+", text)


@pytest.mark.parametrize(
    "text",
    [
        "I <3 you",
        "x <= 2 [removed]",
        "it's 10:30",
        "a {{ b }} c",
        "why? 50% | fine",
        "#1 rule",
        "<<4*2=8>>8",
    ],
)
def test_ordinary_text_stays_as_it_is(text: str) -> None:
    assert quote(text) == text


def test_only_texts_and_numbers_are_printed() -> None:
    assert [finalize("a\nb"), finalize(3), finalize(0.5)] == ["a b", "3", "0.5"]
    for value in (None, ["a"], {"a": 1}, b"a"):
        with pytest.raises(TypeError, match="texts and numbers"):
            finalize(value)
