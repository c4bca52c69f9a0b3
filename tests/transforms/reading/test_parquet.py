from __future__ import annotations

from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from transforms.errors import InputError
from transforms.reading import parquet
from transforms.reading.parquet import parquet_columns, read_parquet

SCHEMA = {"id": pl.String, "turn": pl.Int64, "done": pl.Boolean, "rots": pl.List(pl.String)}


def test_rows_are_typed_and_numbered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet, "BLOCK_BYTES", 200)
    path = str(tmp_path / "x.parquet")
    table = pa.table(
        {
            "turn": pa.array([0, 1, None] * 20, pa.int8()),
            "id": pa.array([5, 6, 7] * 20),
            "rots": pa.array(["one", None, "two"] * 20),
            "unused": pa.array([b"\xff"] * 60),
        }
    )
    pq.write_table(table, path, row_group_size=7)

    chunks = list(read_parquet(path, SCHEMA))

    assert len(chunks) > 1
    frame = pl.concat(chunk.frame for chunk in chunks)
    assert frame["line"].to_list() == list(range(1, 61))
    assert frame.rows()[:3] == [
        (1, "5", 0, None, ["one"]),
        (2, "6", 1, None, None),
        (3, "7", None, None, ["two"]),
    ]
    assert sum(chunk.rows for chunk in chunks) == 60
    assert parquet_columns(path) == ["turn", "id", "rots", "unused"]


def test_nul_in_a_text_is_a_reject(tmp_path: Path) -> None:
    path = str(tmp_path / "x.parquet")
    pq.write_table(pa.table({"id": ["a", "b\0c", None]}), path)
    (chunk,) = read_parquet(path, {"id": pl.String})
    assert chunk.frame.rows() == [(1, "a"), (3, None)]
    assert chunk.rejected.select("line", "field", "rule").rows() == [(2, "id", "nul_byte")]
    assert chunk.rows == 3


def test_text_stored_as_dictionary_and_lists(tmp_path: Path) -> None:
    path = str(tmp_path / "x.parquet")
    table = pa.table(
        {"id": pa.array(["a", "b", "a"]).dictionary_encode(), "rots": [["x"], None, []]}
    )
    pq.write_table(table, path)
    (chunk,) = read_parquet(path, {"id": pl.String, "rots": pl.List(pl.String)})
    assert chunk.frame.rows() == [(1, "a", ["x"]), (2, "b", None), (3, "a", [])]


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("id", [1.5]),
        ("id", [True]),
        ("turn", ["1"]),
        ("done", [1]),
        ("rots", [[1]]),
        ("id", [["a"]]),
    ],
)
def test_a_column_of_another_type_is_refused(
    tmp_path: Path, name: str, values: list[object]
) -> None:
    path = str(tmp_path / "x.parquet")
    pq.write_table(pa.table({name: values}), path)
    with pytest.raises(InputError, match=f"x.parquet: column {name} is"):
        list(read_parquet(path, SCHEMA))


def test_what_is_not_parquet_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    pq.write_table(pa.table({"id": ["a" * 100] * 1000}), path)
    whole = path.read_bytes()
    for data in (b"", b"text,label\n", whole[: len(whole) // 2]):
        path.write_bytes(data)
        with pytest.raises(InputError, match=r"x\.parquet"):
            list(read_parquet(str(path), SCHEMA))
