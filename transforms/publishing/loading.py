"""Loading a published version as its users do: every configuration, by ``datasets``."""

from __future__ import annotations

import tempfile
from typing import Any

from transforms.publishing import storage
from transforms.publishing.manifest import Manifest


def loading_failures(version_path: str, manifest: Manifest) -> list[str]:
    """Return one line for each configuration that ``datasets`` can't load, or not in full.

    A version on an object store is read by fsspec's filesystem for it (s3fs, gcsfs).

    Args:
        version_path: the version's directory.
        manifest: its manifest.
    """
    failures = []
    for name, configuration in manifest.configurations.items():
        # A configuration, or a split, without rows has no file.
        rows = {split: n for split, n in configuration["splits"].items() if n}
        if not rows:
            continue
        with tempfile.TemporaryDirectory(prefix="remint-") as cache:
            try:
                loaded = _load(version_path, name, manifest, cache)
            except Exception as error:  # datasets has many ways to fail
                # Its messages may hold rows; its class says what kind of fault it is.
                failures.append(f"{name}: datasets can't load it ({type(error).__name__})")
                continue
            found = {split: part.num_rows for split, part in loaded.items()}
            del loaded
        if found != rows:
            failures.append(f"{name}: datasets loads {found} rows, the manifest says {rows}")
    return failures


def _load(version_path: str, configuration: str, manifest: Manifest, cache: str) -> Any:
    import datasets

    if storage.is_local(version_path):
        return datasets.load_dataset(version_path, configuration, cache_dir=cache)
    # It takes no directory there, but files.
    files: dict[str, list[str]] = {}
    for shard in manifest.shards:
        if shard.configuration == configuration:
            path = storage.join(version_path, *shard.path.split("/"))
            files.setdefault(shard.split, []).append(path)
    return datasets.load_dataset("parquet", data_files=files, cache_dir=cache)
