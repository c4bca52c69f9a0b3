from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transforms.reading.cells import Record, clean_layout, split_records
from transforms.reading.records import TableFormat

CSV = TableFormat("csv")


@pytest.mark.parametrize(
    ("text", "records"),
    [
        ("a,b\n\n", [Record(0, 4, ["a", "b"]), Record(4, 5, [])]),
        ('"a\nb",""\r\n', [Record(0, 10, ["a\nb", ""])]),
        ('a,"b"\r\r\nc\r\r\n', [Record(0, 8, ["a", "b"]), Record(8, 12, ["c"])]),
        ('a"b\n', [Record(0, 4, ['a"b'])]),
        ('"a"b\nc\n', [Record(0, 5, ["a"], "stray_quote"), Record(5, 7, ["c"])]),
        ('"a\n"b\n', [Record(0, 3, ["a\n"], "unclosed_quote"), Record(3, 6, [], "unclosed_quote")]),
    ],
)
def test_records(text: str, records: list[Record]) -> None:
    assert list(split_records(text, CSV, final=True)) == records


def test_a_record_that_goes_on_behind_the_text_waits() -> None:
    assert list(split_records('a\n"b\n', CSV, final=False)) == [Record(0, 2, ["a"])]


def test_layout_ends_before_a_record_that_goes_on() -> None:
    layout = clean_layout(b'a,"x\ny"\nb,\nc,"d\n', CSV, 2)
    assert layout is not None
    assert layout.end == 11
    assert layout.lines.tolist() == [0, 2]


@pytest.mark.parametrize(
    "data",
    [
        b"a\n",
        b"a,b,c\n",
        b"a,b\n\n",
        b"a,b\n\r\n",
        b'a,b"c\n',
        b'a,"b"c\n',
        b'a,"b" \n',
        b'a,"b"\rc\n',
        b"\r,b\n",
        b"a,\0\n",
        b"a,\xff\n",
        b"\xef\xbb\xbfa,b\n",
        b"a,b\n\xef\xbb\xbfa,b\n",
    ],
)
def test_a_block_that_may_have_a_fault_has_no_layout(data: bytes) -> None:
    assert clean_layout(data, CSV, 2) is None


@given(st.text(st.sampled_from('ab,,""\n\n\ré\ufeff'), max_size=40), st.integers(1, 3))
def test_every_character_belongs_to_one_record(text: str, width: int) -> None:
    position = 0
    for record in split_records(text + "\n", CSV, True, width):
        assert record.begin == position < record.end
        position = record.end
    assert position == len(text) + 1
