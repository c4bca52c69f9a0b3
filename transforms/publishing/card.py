"""The dataset card: README.md with the YAML by which ``datasets`` finds configurations and splits.

``dataset_info`` names exactly the splits that have files and their exact numbers of rows: a
difference makes ``datasets.load_dataset`` refuse the directory. It can't load a split without rows
either (datasets 5.2: "corresponds to no data"), so a configuration without rows is left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import yaml

from transforms.publishing.publication import Publication, Run, Tables
from transforms.publishing.shards import DEFAULT, ShardRecord

_SIZES = (
    (1_000, "n<1K"),
    (10_000, "1K<n<10K"),
    (100_000, "10K<n<100K"),
    (1_000_000, "100K<n<1M"),
    (10_000_000, "1M<n<10M"),
)


def render_card(
    publication: Publication, run: Run, shards: Sequence[ShardRecord], tables: Tables
) -> str:
    """Return the card of a version that consists of ``shards`` and is summed up by ``tables``."""
    rows = publication.rows_of(shards)
    metadata: dict[str, Any] = {
        **publication.metadata,
        "size_categories": [next((name for limit, name in _SIZES if rows < limit), "n>10M")],
        "configs": [],
        "dataset_info": [],
    }
    for configuration, schema in publication.configurations.items():
        own = [shard for shard in shards if shard.configuration == configuration]
        splits = [
            (split, [shard for shard in own if shard.split == split])
            for split in publication.splits_of(configuration)
        ]
        present = [(split, members) for split, members in splits if members]
        if not present:
            continue
        metadata["configs"].append(_config(configuration, present))
        metadata["dataset_info"].append(_info(configuration, schema, present))
    front = yaml.safe_dump(metadata, sort_keys=False, allow_unicode=True, width=100)
    return f"---\n{front}---\n\n{publication.describe(tables, run).strip()}\n"


def _config(
    configuration: str, splits: Sequence[tuple[str, Sequence[ShardRecord]]]
) -> dict[str, Any]:
    files = [
        {"split": split, "path": f"{members[0].path.rsplit('/', 1)[0]}/{split}-*.parquet"}
        for split, members in splits
    ]
    config: dict[str, Any] = {"config_name": configuration, "data_files": files}
    return {**config, "default": True} if configuration == DEFAULT else config


def _info(
    configuration: str, schema: pa.Schema, splits: Sequence[tuple[str, Sequence[ShardRecord]]]
) -> dict[str, Any]:
    return {
        "config_name": configuration,
        "features": [{"name": field.name, **_feature(field.type)} for field in schema],
        "splits": [
            {
                "name": split,
                "num_bytes": sum(member.bytes for member in members),
                "num_examples": sum(member.rows for member in members),
            }
            for split, members in splits
        ],
    }


def _feature(data_type: pa.DataType) -> dict[str, Any]:
    """Return a column's type as the YAML of ``datasets`` spells it."""
    if pa.types.is_struct(data_type):
        return {"struct": [{"name": field.name, **_feature(field.type)} for field in data_type]}
    if pa.types.is_list(data_type):
        inner = _feature(data_type.value_type)
        return {"list": inner.get("dtype", inner.get("struct", inner))}
    names = {"double": "float64", "float": "float32"}
    return {"dtype": names.get(str(data_type), str(data_type))}
