from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from transforms.frames import polars_schema
from transforms.publishing.shards import (
    ROW_GROUP_ROWS,
    ShardRecord,
    parquet_bytes,
    read_table,
    schema_fingerprint,
    shard_path,
    to_table,
    write_shard,
)

SCHEMA = pa.schema(
    [
        pa.field("text", pa.string()),
        pa.field("items", pa.list_(pa.string())),
        pa.field("spans", pa.list_(pa.struct([("start", pa.int64()), ("note", pa.string())]))),
        pa.field("number", pa.int64()),
        pa.field("turn", pa.int32()),
        pa.field("share", pa.float64()),
        pa.field("done", pa.bool_()),
    ]
)


def maybe(strategy: st.SearchStrategy) -> st.SearchStrategy:
    return st.none() | strategy


TEXT = st.text(max_size=20)  # no surrogates: they are no text that UTF-8 can hold
ROW = st.fixed_dictionaries(
    {
        "text": maybe(TEXT),
        "items": maybe(st.lists(maybe(TEXT), max_size=3)),
        "spans": maybe(
            st.lists(
                st.fixed_dictionaries(
                    {"start": maybe(st.integers(-(2**63), 2**63 - 1)), "note": maybe(TEXT)}
                ),
                max_size=2,
            )
        ),
        "number": maybe(st.integers(-(2**63), 2**63 - 1)),
        "turn": maybe(st.integers(-(2**31), 2**31 - 1)),
        "share": maybe(st.floats(allow_nan=False)),
        "done": maybe(st.booleans()),
    }
)


def frame_of(rows: list[dict]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema=polars_schema(SCHEMA))


@given(st.lists(ROW, min_size=1, max_size=6))
@settings(max_examples=60, deadline=None)
def test_rows_come_back_cell_by_cell(rows):
    data = parquet_bytes(to_table(frame_of(rows), SCHEMA))

    table = read_table(data)

    assert table.to_pylist() == rows
    assert schema_fingerprint(table.schema) == schema_fingerprint(SCHEMA)
    assert parquet_bytes(to_table(frame_of(rows), SCHEMA)) == data


ROWS = [
    {
        "text": f"text {n}",
        "items": ["a", None, ""] if n % 2 else None,
        "spans": [{"start": n, "note": None}],
        "number": n,
        "turn": n % 3,
        "share": n / 7,
        "done": n % 2 == 0,
    }
    for n in range(50)
]


def write(path: Path, frame: pl.DataFrame) -> ShardRecord:
    return write_shard(
        frame, SCHEMA, str(path), configuration="default", split="train", partition=3, partitions=16
    )


def test_the_same_rows_give_the_same_bytes_however_the_frame_is_built(tmp_path):
    whole = frame_of(ROWS)
    chunked = pl.concat([frame_of([row]) for row in ROWS], rechunk=False)
    wider = whole.with_columns(other=pl.lit(1)).select(reversed([*whole.columns, "other"]))

    records = [write(tmp_path / str(n), frame) for n, frame in enumerate((whole, chunked, wider))]

    assert len({record.sha256 for record in records}) == 1


def test_another_process_writes_the_same_bytes(tmp_path):
    record = write(tmp_path, frame_of(ROWS))
    script = (
        "import polars as pl, sys\n"
        "from transforms.publishing.shards import *\n"
        "table = read_table(open(sys.argv[1], 'rb').read())\n"
        "data = parquet_bytes(to_table(pl.from_arrow(table), table.schema))\n"
        "from transforms.publishing.storage import sha256\n"
        "print(sha256(data))\n"
    )

    out = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / record.path)],
        capture_output=True, text=True, check=True, cwd=Path(__file__).parents[3],
    )  # fmt: skip

    assert out.stdout.split()[-1] == record.sha256


def test_the_record_says_what_was_written(tmp_path):
    record = write(tmp_path, frame_of(ROWS))

    data = (tmp_path / "data" / "train-00003-of-00016.parquet").read_bytes()
    assert record.path == "data/train-00003-of-00016.parquet"
    assert (record.rows, record.bytes) == (50, len(data))
    assert ShardRecord.from_json(record.to_json()) == record


def test_the_file_is_zstd_with_row_groups_and_no_foreign_metadata():
    rows = [ROWS[n % len(ROWS)] for n in range(ROW_GROUP_ROWS + 1)]

    metadata = pq.read_metadata(pa.BufferReader(parquet_bytes(to_table(frame_of(rows), SCHEMA))))

    assert metadata.num_row_groups == 2
    assert metadata.metadata is None
    assert {metadata.row_group(0).column(n).compression for n in range(metadata.num_columns)} == {
        "ZSTD"
    }
    assert "items.list.element" in [
        metadata.schema.column(n).path for n in range(metadata.num_columns)
    ]


def test_no_rows_make_no_shard(tmp_path):
    with pytest.raises(ValueError, match="no rows"):
        write(tmp_path, frame_of([]))
    assert list(tmp_path.iterdir()) == []


def test_a_missing_column_or_a_value_that_does_not_fit_is_an_error():
    with pytest.raises(pl.exceptions.ColumnNotFoundError):
        to_table(frame_of(ROWS).drop("done"), SCHEMA)
    with pytest.raises(pa.ArrowInvalid):
        to_table(frame_of(ROWS).with_columns(turn=pl.lit(2**40)), SCHEMA)


@pytest.mark.parametrize(
    ("configuration", "split", "path"),
    [
        ("default", "test", "data/test-00000-of-00002.parquet"),
        ("provenance", "test", "provenance/test-00000-of-00002.parquet"),
        ("rejected", "rejected", "rejected/rejected-00000-of-00002.parquet"),
    ],
)
def test_paths(configuration, split, path):
    assert shard_path(configuration, split, 0, 2) == path


@pytest.mark.parametrize(
    "other",
    [
        SCHEMA.remove(0),
        SCHEMA.set(0, pa.field("texts", pa.string())),
        SCHEMA.set(0, pa.field("text", pa.int64())),
        SCHEMA.set(0, pa.field("text", pa.string(), nullable=False)),
        SCHEMA.set(1, pa.field("items", pa.list_(pa.int64()))),
        pa.schema([SCHEMA.field(n) for n in (1, 0, 2, 3, 4, 5, 6)]),
    ],
)
def test_the_fingerprint_tells_schemas_apart(other):
    assert schema_fingerprint(other) != schema_fingerprint(SCHEMA)
