"""Shards: one parquet file per configuration, split and partition, with bytes that repeat.

The same rows in the same order give the same bytes: the writer's settings are fixed here, no
time stamp and no library metadata but the writer's own name goes into a file.
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from transforms.publishing import storage

#: The configuration whose shards stand in ``data/``.
DEFAULT = "default"
ROW_GROUP_ROWS = 20_000
ZSTD_LEVEL = 3


@dataclass(frozen=True)
class ShardRecord:
    """What is known of one written shard.

    ``path`` is relative to the version's directory, ``bytes`` the file's size.
    """

    configuration: str
    split: str
    partition: int
    path: str
    rows: int
    bytes: int
    sha256: str
    schema_fingerprint: str

    def to_json(self) -> dict[str, Any]:
        """Return the record as a JSON object."""
        return asdict(self)

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> ShardRecord:
        """Return the record that ``to_json`` wrote."""
        return cls(**raw)


def schema_fingerprint(schema: pa.Schema) -> str:
    """Return the SHA-256 of names, types and nullability, in column order.

    Metadata and the names of list elements are left out: parquet readers and writers differ there
    without a difference in the data.
    """
    fields = [[field.name, _type_name(field.type), field.nullable] for field in schema]
    return storage.sha256(json.dumps(fields, separators=(",", ":")).encode())


def _type_name(data_type: pa.DataType) -> str:
    if pa.types.is_list(data_type):
        return f"list<{_type_name(data_type.value_type)}>"
    if pa.types.is_struct(data_type):
        inner = ",".join(f"{field.name}:{_type_name(field.type)}" for field in data_type)
        return f"struct<{inner}>"
    return str(data_type)


def shard_path(configuration: str, split: str, partition: int, partitions: int) -> str:
    """Return a shard's path relative to its version, such as ``data/train-00003-of-00016.parquet``.

    A configuration of a single split names that split like itself.
    """
    directory = "data" if configuration == DEFAULT else configuration
    return f"{directory}/{split}-{partition:05d}-of-{partitions:05d}.parquet"


def to_table(frame: pl.DataFrame, schema: pa.Schema) -> pa.Table:
    """Return ``frame`` as a table of exactly ``schema``: its columns in its order, its types.

    Raises:
        pyarrow.ArrowInvalid: where a value does not fit its column's type.
        polars.exceptions.ColumnNotFoundError: where a column is missing.
    """
    return frame.select(schema.names).to_arrow().cast(schema.remove_metadata())


def parquet_bytes(table: pa.Table) -> bytes:
    """Return ``table`` as one parquet file."""
    buffer = io.BytesIO()
    pq.write_table(
        table.replace_schema_metadata(None).combine_chunks(),
        buffer,
        row_group_size=ROW_GROUP_ROWS,
        version="2.6",
        data_page_version="1.0",
        compression="zstd",
        compression_level=ZSTD_LEVEL,
        use_dictionary=True,
        write_statistics=True,
        use_compliant_nested_type=True,
        store_schema=False,
    )
    return buffer.getvalue()


def write_shard(
    frame: pl.DataFrame,
    schema: pa.Schema,
    version_path: str,
    *,
    configuration: str,
    split: str,
    partition: int,
    partitions: int,
) -> ShardRecord:
    """Write ``frame`` as one shard of the version at ``version_path``; its rows are sorted already.

    Args:
        frame: at least the columns of ``schema``; the others are left out.
        schema: the configuration's published schema.
        version_path: the version's directory, on any Beam filesystem.
        configuration: the configuration the rows belong to.
        split: the split the rows belong to.
        partition: the number of this partition, from 0.
        partitions: the number of partitions of the dataset.

    Raises:
        ValueError: where there are no rows: ``datasets`` fails on an empty shard, and a suite must
            not pass on one.
    """
    if frame.height == 0:
        raise ValueError(f"no rows for a shard of {configuration}, split {split}")
    path = shard_path(configuration, split, partition, partitions)
    table = to_table(frame, schema)
    data = parquet_bytes(table)
    storage.write_bytes(storage.join(version_path, *path.split("/")), data)
    return ShardRecord(
        configuration=configuration,
        split=split,
        partition=partition,
        path=path,
        rows=table.num_rows,
        bytes=len(data),
        sha256=storage.sha256(data),
        schema_fingerprint=schema_fingerprint(schema),
    )


def read_table(data: bytes) -> pa.Table:
    """Return the table in the bytes of a shard."""
    return pq.read_table(io.BytesIO(data))
