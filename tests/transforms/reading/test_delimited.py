from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transforms.errors import InputError
from transforms.reading import cells as cells_module
from transforms.reading import decode, delimited
from transforms.reading.cells import clean_layout
from transforms.reading.decode import TextBlock
from transforms.reading.delimited import RecordReader, header_record, read_delimited
from transforms.reading.records import TableFormat

CSV = TableFormat("csv")


def read(
    tmp_path: Path, data: bytes, columns: str = "ab", form: TableFormat = CSV
) -> tuple[list[tuple[object, ...]], list[tuple[object, ...]], int]:
    """Return rows, rejects as (line, rule, value, text), and the count of records."""
    path = tmp_path / "x.csv"
    path.write_bytes(data)
    wanted = {name: index for index, name in enumerate(columns)}
    chunks = list(read_delimited(str(path), form, list(columns), wanted))
    rows = [row for chunk in chunks for row in chunk.frame.iter_rows()]
    rejects = [
        row
        for chunk in chunks
        for row in chunk.rejected.select("line", "rule", "value", "text").iter_rows()
    ]
    count = sum(chunk.rows for chunk in chunks)
    assert len(rows) + len(rejects) == count
    return rows, rejects, count


def test_cells_of_all_kinds(tmp_path: Path) -> None:
    data = b'a,b\r\n1,"x, ""y""\r\nz"\r\n"",\r\n\n 2 ,"\xf0\x9f\x98\x80"\r\n'
    rows, rejects, count = read(tmp_path, data)
    assert rows == [(2, "1", 'x, "y"\r\nz'), (4, None, None), (6, " 2 ", "😀")]
    assert (rejects, count) == ([], 3)


def test_quotes_amid_an_unquoted_cell_are_content(tmp_path: Path) -> None:
    rows, rejects, _ = read(tmp_path, b'a,b\n5" pipe,x"y"\n')
    assert rows == [(2, '5" pipe', 'x"y"')]
    assert rejects == []


def test_quotes_are_content_where_cells_are_never_quoted(tmp_path: Path) -> None:
    form = TableFormat("tsv", "\t", quoted=False)
    rows, rejects, _ = read(tmp_path, b'a\tb\n"Well\tx\ny\t"z"\n', form=form)
    assert rows == [(2, '"Well', "x"), (3, "y", '"z"')]
    assert rejects == []


@pytest.mark.parametrize(
    ("row", "rule", "value"),
    [
        (b"1", "ragged_row", "1/2"),
        (b"1,2,3", "ragged_row", "3/2"),
        (b'1,"x\ny",3', "ragged_row", "3/2"),
        (b'1,"he said "no" to me"', "stray_quote", None),
        (b'1,"x', "unclosed_quote", None),
        (b"1,x\0y", "nul_byte", None),
        (b"1,x\xffy", "invalid_bytes", None),
        (b"1,\xed\xa0\x80", "invalid_bytes", None),
        (b"a,b", "repeated_header", None),
        (b"\xef\xbb\xbfa,b", "repeated_header", None),
    ],
)
def test_a_bad_row_costs_itself_only(
    tmp_path: Path, row: bytes, rule: str, value: str | None
) -> None:
    data = b'a,b\n0,"good"\n' + row + b'\n7,"also, good"\n8,"and\nthis"\n'
    rows, rejects, _ = read(tmp_path, data)
    assert [row[1:] for row in rows] == [("0", "good"), ("7", "also, good"), ("8", "and\nthis")]
    assert [(reject[0], reject[1], reject[2]) for reject in rejects] == [(3, rule, value)]
    assert rejects[0][3]


def test_an_unclosed_quote_does_not_swallow_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delimited, "MAX_RECORD_BYTES", 2000)
    monkeypatch.setattr(cells_module, "MAX_RECORD_BYTES", 2000)
    monkeypatch.setattr(delimited, "text_blocks", lambda path: decode.text_blocks(path, 500))
    lines = [f"{number},text" for number in range(2000)]
    lines[3] = '3,"text'
    rows, rejects, count = read(tmp_path, ("a,b\n" + "\n".join(lines)).encode())
    assert [row[0] for row in rows] == [2, 3, 4, *range(6, 2002)]
    assert [reject[:2] for reject in rejects] == [(5, "unclosed_quote")]
    assert count == 2000


def test_a_quote_closed_by_another_row_frees_the_rows_between(tmp_path: Path) -> None:
    between = [f"{number},y" for number in range(2, 9)]
    data = "\n".join(["a,b", '1,"x', *between, '9,z",w', "10,v"])
    rows, rejects, _ = read(tmp_path, data.encode())
    assert [row[1] for row in rows] == [*map(str, range(2, 9)), "10"]
    assert [reject[:2] for reject in rejects] == [(2, "unclosed_quote"), (10, "ragged_row")]


def test_lines_are_counted_across_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = b"a,b\n" + b'1,"x\n\ny"\n2,z\n' * 200
    whole = read(tmp_path, data)
    monkeypatch.setattr(delimited, "text_blocks", lambda path: decode.text_blocks(path, 50))
    assert read(tmp_path, data) == whole
    assert whole[0][2][0] == 6


def test_a_line_that_is_too_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decode, "MAX_RECORD_BYTES", 1000)
    monkeypatch.setattr(delimited, "text_blocks", lambda path: decode.text_blocks(path, 100))
    data = b'a,b\n1,x\n2,"open\n3,' + b"y" * 3000 + b"\n4,z\n"
    rows, rejects, _ = read(tmp_path, data)
    assert [row[1] for row in rows] == ["1", "4"]
    assert [reject[:2] for reject in rejects] == [(3, "unclosed_quote"), (4, "too_long")]


def test_a_cell_of_five_megabytes(tmp_path: Path) -> None:
    cell = "some words, and\n" * 320_000
    rows, rejects, _ = read(tmp_path, f'a,b\n1,"{cell}"\n2,x\n'.encode())
    assert rows == [(2, "1", cell), (320_003, "2", "x")]
    assert rejects == []


def test_many_columns(tmp_path: Path) -> None:
    names = [f"c{number}" for number in range(20_000)]
    path = tmp_path / "x.csv"
    path.write_text(",".join(names) + "\n" + ",".join(names[::-1]) + "\n")
    (chunk,) = read_delimited(str(path), CSV, names, {"c7": 7})
    assert chunk.frame.rows() == [(2, "c19992")]


def test_a_file_without_header_line(tmp_path: Path) -> None:
    form = TableFormat("csv", columns=("text",))
    rows, rejects, _ = read(tmp_path, b'"one\n\ntwo"\n\nthree\n""\n', "t", form)
    assert rows == [(1, "one\n\ntwo"), (5, "three"), (6, None)]
    assert rejects == []


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b'"a,b\n1,2\n', "broken quotes"),
        (b"a,\0\n", "not text"),
        (b"a,\xff\n", "not text"),
        (b"\n\r\n", "no header line"),
    ],
)
def test_a_broken_header_is_refused(data: bytes, message: str) -> None:
    with pytest.raises(InputError, match=message):
        header_record(TextBlock(data, 1), CSV, "x.csv")


# What follows holds for any text: small alphabets make the rare cases frequent.
pieces = st.lists(
    st.sampled_from([b"a", b"b", b",", b",", b'"', b'"', b"\n", b"\n", b"\r"])
    | st.sampled_from([b'""', b'"\n"', b"\r\n", "é".encode(), b"\xff", b"\0", b"\xef\xbb\xbf"]),
    max_size=30,
).map(b"".join)
cells = st.text(st.sampled_from('ab,"\n\r é'), max_size=6)


@given(st.lists(st.lists(cells, min_size=2, max_size=2), min_size=1, max_size=20))
def test_written_by_the_csv_module_means_read_the_same(table: list[list[str]]) -> None:
    buffer = io.StringIO()
    csv.writer(buffer, quoting=csv.QUOTE_ALL).writerows(table)
    data = buffer.getvalue().encode()
    form = TableFormat("csv", columns=("p", "q"))
    layout = clean_layout(data, form, 2)
    assert layout is not None
    assert layout.end == len(data)
    chunk = RecordReader("x", form, ["p", "q"], {"p": 0, "q": 1}).read_clean(data, 1, layout)
    assert chunk is not None
    assert chunk.frame.drop("line").rows() == [tuple(c or None for c in row) for row in table]


@given(pieces, st.booleans(), st.integers(1, 3))
def test_both_ways_of_reading_agree(text: bytes, final: bool, width: int) -> None:
    data = text + b"\n"
    names = ["a", "b", "é"][:width]
    reader = RecordReader("x", CSV, names, dict(zip(names, range(width), strict=True)))
    fast, fast_end = reader.read(data, 5, final)
    careful, careful_end = reader.read_cells(data, 5, final)
    assert fast.frame.equals(careful.frame)
    assert fast.rejected.equals(careful.rejected)
    assert fast.frame.height + fast.rejected.height == fast.rows == careful.rows
    assert fast_end == careful_end
    layout = clean_layout(data, CSV, width)
    if layout and layout.end == len(data):
        assert set(careful.rejected["rule"]) <= {"repeated_header"}
