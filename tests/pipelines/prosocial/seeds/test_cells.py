from __future__ import annotations

import json

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.prosocial.seeds.cells import cell_texts, number, stripped


def test_numbers_come_in_several_spellings() -> None:
    cells = ["-2", "-2.0", " 2 ", "0", "", None, "nan", "two"]
    read = pl.DataFrame({"n": cells}).select(number("n")).to_series().to_list()
    assert read == [-2.0, -2.0, 2.0, 0.0, None, None, None, None]


def test_blank_cells_are_empty_texts() -> None:
    read = pl.DataFrame({"t": [" a b ", "  ", None]}).select(stripped("t")).to_series().to_list()
    assert read == ["a b", "", ""]


@pytest.mark.parametrize(
    ("cell", "texts"),
    [
        (None, []),
        ("  ", []),
        ("cat owners", ["cat owners"]),
        ("[]", []),
        ('[""]', []),
        ('["cat owners", "dog owners"]', ["cat owners", "dog owners"]),
        ("['cat owners', \"people's cats\"]", ["cat owners", "people's cats"]),
        ("[the cat owners", ["[the cat owners"]),
        ("[sic] cats", ["[sic] cats"]),
        ("[null, 3]", ["3"]),
    ],
)
def test_a_cell_holds_no_text_one_or_several(cell: str | None, texts: list[str]) -> None:
    assert cell_texts(cell) == texts


@given(st.lists(st.text(min_size=1).filter(lambda text: text.strip() == text and text)))
def test_json_lists_are_read_back(texts: list[str]) -> None:
    assert cell_texts(json.dumps(texts)) == texts


@given(st.text())
def test_any_cell_is_read(cell: str) -> None:
    assert all(text.strip() for text in cell_texts(cell))
