from __future__ import annotations

import random

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from transforms.near_duplicates import jaccard, near_duplicates

SENTENCE = "The council met on Tuesday evening to talk about the new bridge over the river."


def _found(
    texts: list[str], groups: list[str] | None = None, similarity: float = 0.8
) -> list[tuple[int, int]]:
    column = pl.Series(groups or ["g"] * len(texts), dtype=pl.String)
    found = near_duplicates(pl.Series(texts, dtype=pl.String), column, similarity, 5)
    return found.select("row", "original").rows()


def test_later_text_of_the_same_group_is_the_duplicate() -> None:
    texts = [SENTENCE, "Something else.", SENTENCE.upper(), SENTENCE + " Yes."]
    assert _found(texts) == [(2, 0), (3, 0)]
    assert _found(texts, ["a", "a", "b", "b"]) == [(3, 2)]


def test_similarity_bounds_what_is_reported() -> None:
    texts = [SENTENCE, SENTENCE.replace("Tuesday", "Wednesday")]
    measured = jaccard(f" {texts[0].lower()} ", f" {texts[1].lower()} ", 5)
    assert 0.7 < measured < 0.9
    assert _found(texts, similarity=measured + 0.01) == []


@pytest.mark.parametrize("texts", [[], [""], ["", ""], ["a", "b"], ["a", "A"], ["abcdefgh", "ab"]])
def test_short_texts(texts: list[str]) -> None:
    same = len(texts) == 2 and texts[0].lower() == texts[1].lower()
    assert _found(texts) == ([(1, 0)] if same else [])


@settings(max_examples=60, deadline=None)
@given(st.lists(st.text(st.sampled_from("ab c\U0001d521"), max_size=12), max_size=8))
def test_what_is_reported_is_alike_and_what_stays_is_an_original(texts: list[str]) -> None:
    found = near_duplicates(
        pl.Series(texts, dtype=pl.String), pl.Series([0] * len(texts), dtype=pl.Int64), 0.6, 3
    )
    rows, originals = set(found["row"]), set(found["original"])
    assert not rows & originals
    assert all(row > original for row, original in found.select("row", "original").rows())
    assert all(value >= 0.6 for value in found["similarity"])
    plain = [" ".join(text.split()) for text in texts]
    left = [text for row, text in enumerate(plain) if row not in rows]
    assert len(left) == len(set(left))


def test_nearly_all_texts_with_one_changed_word_are_found() -> None:
    draw = random.Random(7)
    vocabulary = ["".join(draw.choices("abcdefghijklmnop", k=6)) for _ in range(400)]
    texts = [" ".join(draw.choices(vocabulary, k=40)) for _ in range(100)]
    changed = [f"{text} {draw.choice(vocabulary)}" for text in texts]
    found = _found([*texts, *changed], similarity=0.9)
    assert all((100 + original, original) == (row, original) for row, original in found)
    assert len(found) >= 98
