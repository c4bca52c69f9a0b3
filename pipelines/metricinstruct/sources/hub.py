"""Datasets of the Hub as sources: ``hub:owner/name[@revision][:configuration[:split]]``.

A revision (branch, tag or commit) pins what is read; without one it is the newest that the client
has or gets. A folder in the form of such a dataset is read in the same way.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any

from transforms.errors import InputError

HUB = "hub:"
_DEFAULT_SPLIT = "train"


def hub_rows(path: str) -> Iterable[Mapping[str, Any]]:
    """Return the rows of the dataset that ``path`` names.

    Raises:
        InputError: it can't be loaded.
    """
    import datasets

    place, _, rest = path.removeprefix(HUB).partition(":")
    configuration, _, split = rest.partition(":")
    name, _, revision = place.partition("@")
    try:
        rows: Iterable[Mapping[str, Any]] = datasets.load_dataset(
            name,
            configuration or None,
            split=split or _DEFAULT_SPLIT,
            revision=revision or None,
        )
    except Exception as error:  # the Hub's client has many ways to fail
        raise InputError(
            f"{path}: can't be loaded from the Hub ({type(error).__name__}: {error}); write it as "
            "hub:owner/name:configuration:split, or download its files and name those"
        ) from error
    return rows


def hub_fingerprint(path: str) -> dict[str, Any]:
    """Return what identifies a dataset's content, as ``files.fingerprint`` does of a file.

    ``bytes`` and ``sha256`` are those of its rows as JSON lines: the same wherever it was
    downloaded, which the fingerprints of ``datasets`` are not.

    Raises:
        InputError: it can't be loaded.
    """
    digest, size = hashlib.sha256(), 0
    for row in hub_rows(path):
        line = json.dumps(row, ensure_ascii=False, sort_keys=True, default=str) + "\n"
        data = line.encode("utf-8", "surrogatepass")
        digest.update(data)
        size += len(data)
    return {"path": path, "bytes": size, "sha256": digest.hexdigest()}
