from __future__ import annotations

import csv
import gzip
import io
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from transforms.errors import InputError
from transforms.reading.records import REJECTED_ROWS, TableFormat
from transforms.reading.tables import header, read_table, table_format


def write(tmp_path: Path, name: str, content: str | bytes) -> str:
    path = tmp_path / name
    data = content.encode() if isinstance(content, str) else content
    path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    return str(path)


@pytest.mark.parametrize(
    ("name", "content", "form"),
    [
        ("x.csv", "a,b\n", TableFormat("csv", ",")),
        ("x.csv", "a\tb,c\td\n", TableFormat("tsv", "\t")),
        ("x.tsv", "a,b,c\n", TableFormat("csv", ",")),
        ("x.tsv.gz", "one\n", TableFormat("tsv", "\t")),
        ("x.CSV", 'a;"b,c,d"\n', TableFormat("csv", ";")),
        ("x.jsonl", "", TableFormat("jsonl")),
        ("x.json", ' [{"a": 1}]', TableFormat("json")),
        ("x.json", '{"a": 1}\n', TableFormat("jsonl")),
    ],
)
def test_format_by_extension_and_header_line(
    tmp_path: Path, name: str, content: str, form: TableFormat
) -> None:
    assert table_format(write(tmp_path, name, content)) == form


def test_format_as_told(tmp_path: Path) -> None:
    path = write(tmp_path, "x.csv", "a,b\n")
    form = table_format(path, delimiter="|", columns=["text"], quoted=False)
    assert form == TableFormat("csv", "|", False, ("text",))
    assert table_format(path, columns=["text"]).delimiter == ","
    for wrong in ("", "ab", '"', "é", "\n"):
        with pytest.raises(InputError, match="not one ASCII character"):
            table_format(path, delimiter=wrong)


@pytest.mark.parametrize("name", ["x", "x.txt", "x.xlsx", "x.gz", "x.parquet.gz"])
def test_unknown_kinds_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match=f"{name}: "):
        table_format(write(tmp_path, name, "a\n"))


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("x.csv", "", "is empty"),
        ("x.csv", b"\xef\xbb\xbf", "is empty"),
        ("x.jsonl", "", "is empty"),
        ("x.csv", "\n \n"[:1], "no header line"),
        ("x.csv", "a, b,a \n", "names a column twice: a"),
        ("x.csv", b"PAR1....", "is a parquet file"),
        ("x.jsonl", b"\x1f\x8b....", "is gzip data"),
        ("x.parquet", "a,b\n", "is not a parquet file"),
    ],
)
def test_headers_that_are_refused(
    tmp_path: Path, name: str, content: str | bytes, message: str
) -> None:
    path = write(tmp_path, name, content)
    with pytest.raises(InputError, match=message) as caught:
        header(path, table_format(path))
    assert name in str(caught.value)


def test_header_names_are_stripped_and_may_be_blank(tmp_path: Path) -> None:
    path = write(tmp_path, "x.csv", b'\xef\xbb\xbf, a ,,"b\nc"\r\n0,1,2,3\r\n')
    form = table_format(path)
    assert header(path, form) == ["", "a", "", "b\nc"]
    (chunk,) = read_table(path, form, {"b\nc": pl.String, "a": pl.String})
    assert chunk.frame.rows() == [(3, "3", "1")]


@pytest.mark.parametrize("name", ["x.csv", "x.jsonl", "x.json", "x.parquet"])
def test_columns_come_in_the_order_wanted_and_absent_ones_are_null(
    tmp_path: Path, name: str
) -> None:
    path = write(tmp_path, name, {"x.csv": "a,b\n1,2\n"}.get(name, '{"a": 1, "b": 2}\n'))
    if name == "x.json":
        write(tmp_path, name, '[{"a": 1, "b": 2}]')
    if name == "x.parquet":
        pq.write_table(pa.table({"a": [1], "b": [2]}), path)
    form = table_format(path)
    schema = {"b": pl.String, "extra": pl.String, "a": pl.String}

    (chunk,) = read_table(path, form, schema, optional=frozenset({"extra"}))

    assert dict(chunk.frame.schema) == {"line": pl.Int64, **schema}
    assert [row[1:] for row in chunk.frame.rows()] == [("2", None, "1")]
    assert dict(chunk.rejected.schema) == REJECTED_ROWS
    with pytest.raises(InputError, match=rf"{name}: lacks the column extra; it has a, b"):
        read_table(path, form, schema)


def test_the_header_alone_gives_no_rows(tmp_path: Path) -> None:
    for content in ("a,b", "a,b\n", "a,b\r\n\r\n"):
        path = write(tmp_path, "x.csv", content)
        assert sum(c.rows for c in read_table(path, table_format(path), {"a": pl.String})) == 0


def test_a_headerless_file_needs_its_number_of_columns(tmp_path: Path) -> None:
    path = write(tmp_path, "x.csv", "1,some text\n")
    with pytest.raises(InputError, match="first row has 2 cells, but 1 columns are named"):
        header(path, table_format(path, columns=["text"]))


def test_utf16_is_read_like_utf8(tmp_path: Path) -> None:
    text = 'label,input\r\n1,"é, 😀\r\nx"\r\n0,last'
    path = write(tmp_path, "x.csv", text.encode("utf-16"))
    (*_, chunk) = read_table(path, table_format(path), {"input": pl.String})
    assert chunk.frame.rows()[-1] == (4, "last")


def test_damage_behind_the_header_names_the_file(tmp_path: Path) -> None:
    data = gzip.compress(b"a,b\n" + b"".join(b"%d,x\n" % (n * 7919) for n in range(150_000)))
    (tmp_path / "x.csv.gz").write_bytes(data[: len(data) - 1000])
    path = str(tmp_path / "x.csv.gz")
    with pytest.raises(InputError, match=r"x\.csv\.gz: is cut off"):
        list(read_table(path, table_format(path), {"a": pl.String}))


REAL = [
    "social_chem_101/obligatory_sc101.csv.gz",
    "social_chem_101/optional_sc101.csv.gz",
    "ethics_commonsense/cm_test.csv.gz",
    "ethics_commonsense/cm_ambig.csv.gz",
    "schema_fixtures/social_bias_frames__SBIC.v2.dev.csv",
    "schema_fixtures/social_bias_frames__SBIC.v2.trn.csv",
    "schema_fixtures/social_bias_frames__SBIC.v2.tst.csv",
]


@pytest.mark.parametrize("name", REAL)
def test_real_files_cell_by_cell(shared_data: Callable[[str], Path], name: str) -> None:
    path = shared_data(name)
    columns = ["text"] if "ambig" in name else None
    form = table_format(str(path), columns=columns)
    names = header(str(path), form)
    data = path.read_bytes()
    text = (gzip.decompress(data) if name.endswith(".gz") else data).decode()
    expected = list(csv.reader(io.StringIO(text, newline="")))
    expected = expected if columns else expected[1:]

    chunks = list(read_table(str(path), form, dict.fromkeys(filter(None, names), pl.String)))

    frame = pl.concat(chunk.frame for chunk in chunks).drop("line")
    assert sum(chunk.rows for chunk in chunks) == len(expected) == frame.height
    indices = [names.index(column) for column in frame.columns]
    assert frame.rows() == [tuple(row[i] or None for i in indices) for row in expected]
