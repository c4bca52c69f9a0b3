"""Datasets and their versions: what an output directory holds, and which number is next.

    <output>/<dataset>/dataset.json   written once: what every version of the dataset shares
    <output>/<dataset>/v0003/         a version, from the moment its manifest is there
    <output>/<dataset>/.claims/       on object stores: which numbers were ever taken

A directory without a manifest is not a version: it is what a dead or failed run left behind.
"""

from __future__ import annotations

import os
import random
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from transforms.errors import OutputError
from transforms.publishing import storage
from transforms.publishing.claims import claim_once, claims
from transforms.publishing.manifest import manifest_path, read_manifest
from transforms.publishing.shards import DEFAULT

DATASET_NAME = "dataset.json"
#: Layout of a dataset's directory; a later layout gets the next number.
FORMAT_VERSION = 1
CLAIMS_NAME = ".claims"
_VERSION = re.compile(r"v(\d{4,})")


@dataclass(frozen=True)
class Version:
    """A version's number and directory, complete or only claimed."""

    number: int
    path: str

    @property
    def complete(self) -> bool:
        """Whether its manifest is there."""
        return storage.exists(manifest_path(self.path))


def dataset_path(output: str, dataset: str) -> str:
    """Return the directory of ``dataset`` below ``output``; creates nothing.

    Raises:
        OutputError: where ``output`` is a file, or holds things but no dataset of remint's.
    """
    storage.check_filesystem(output)
    path = storage.join(output, dataset)
    if not storage.is_local(output):
        return path
    for place in (output, path):
        if os.path.lexists(place) and not os.path.isdir(place):
            raise OutputError(f"{place} is not a directory; give another --output")
    if os.path.exists(os.path.join(output, DATASET_NAME)):
        raise OutputError(f"{output} is a dataset itself; give the directory above it as --output")
    if _visible(path) and not os.path.exists(os.path.join(path, DATASET_NAME)):
        raise OutputError(
            f"{path} holds files but no {DATASET_NAME}, so it is not an output of remint; "
            "give a new or an empty directory as --output"
        )
    names = [name for name in _visible(output) if name != dataset]
    if names and not any(_is_dataset(os.path.join(output, name)) for name in [*names, dataset]):
        raise OutputError(
            f"{output} holds files but no dataset of remint's; "
            "give a new or an empty directory as --output"
        )
    return path


def _visible(directory: str) -> list[str]:
    if not os.path.isdir(directory):
        return []
    return [name for name in os.listdir(directory) if not name.startswith(".")]


def _is_dataset(directory: str) -> bool:
    return os.path.isfile(os.path.join(directory, DATASET_NAME))


def open_dataset(
    path: str, dataset: str, defaults: Mapping[str, Any], chosen: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the settings that every version of the dataset at ``path`` shares.

    The first run writes them. For later runs they stand; call it with the dataset locked.

    Raises:
        OutputError: see ``read_dataset``.
    """
    settings = read_dataset(path, dataset, defaults, chosen)
    place = storage.join(path, DATASET_NAME)
    if not storage.exists(place):
        written = {"dataset": dataset, "format_version": FORMAT_VERSION, "settings": settings}
        storage.write_bytes(place, storage.json_bytes(written), durable=True)
    return settings


def read_dataset(
    path: str, dataset: str, defaults: Mapping[str, Any], chosen: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the settings of the dataset at ``path``, or those that a first run would give it.

    These are the ``defaults`` overlaid with what the user has ``chosen``; nothing is written.

    Raises:
        OutputError: where a chosen value is not the dataset's, or ``path`` is another dataset.
    """
    place = storage.join(path, DATASET_NAME)
    if not storage.exists(place):
        return {**defaults, **chosen}
    try:
        stored = storage.read_json(place)
        name, layout = stored["dataset"], stored["format_version"]
        settings = {**defaults, **stored["settings"]}
        if not all(_is_like(settings[option], value) for option, value in defaults.items()):
            raise ValueError("a setting of another kind")
    except (ValueError, KeyError, TypeError) as error:
        raise OutputError(f"{place} can't be read; restore it or give another --output") from error
    if (name, layout) != (dataset, FORMAT_VERSION):
        raise OutputError(
            f"{path} is dataset {name!r} in layout {layout}, not {dataset!r} in layout "
            f"{FORMAT_VERSION}; give another --output"
        )
    for option, value in chosen.items():
        if option in settings and settings[option] != value:
            raise OutputError(
                f"{path} was begun with {option} = {settings[option]!r} and every version of it "
                f"shares that, so {value!r} can't be used; leave the option out or give another "
                "--output"
            )
    return settings


def _is_like(value: Any, default: Any) -> bool:
    """Whether ``value`` can stand for ``default``: a text that is not empty, a number from 1 on."""
    return type(value) is type(default) and (value >= 1 if isinstance(value, int) else bool(value))


def versions(path: str) -> list[Version]:
    """Return the versions of the dataset at ``path`` by number, claimed ones among them."""
    if storage.is_local(path):
        names = {name for name in _visible(path) if os.path.isdir(os.path.join(path, name))}
    else:
        names = {name.split("/", 1)[0] for name in storage.stored_files(path, "v")}
    numbers = [int(match[1]) for name in names if (match := _VERSION.fullmatch(name))]
    return [Version(number, _version_path(path, number)) for number in sorted(numbers)]


def latest_version(path: str) -> Version | None:
    """Return the newest complete version of the dataset at ``path``."""
    return next((version for version in reversed(versions(path)) if version.complete), None)


def claim_version(path: str) -> Version:
    """Claim the next version of the dataset at ``path`` and return it; the dataset is locked.

    On a local filesystem what dead and failed runs have left is removed and the directory is made.
    Elsewhere nothing is removed, since its writer might still live: the number above all that were
    ever claimed is taken, and by one run alone. So there are gaps where a run had nothing to
    publish, and what a worker writes that everybody thought dead is in nobody's way.

    Raises:
        OutputError: where another run has made that directory in the meantime, or the newest
            version's manifest is damaged.
    """
    if not storage.is_local(path):
        return _claim_stored(path)
    existing = versions(path)
    complete = [version.number for version in existing if version.complete]
    for version in existing:
        if version.number not in complete:
            storage.remove_tree(version.path)
    if complete:
        # The new version is held against it at the end: it must not turn out damaged only then.
        read_manifest(_version_path(path, max(complete)))
    number = 1 + max(complete, default=0)
    claimed = Version(number, _version_path(path, number))
    try:
        os.mkdir(claimed.path)
    except FileExistsError as error:
        raise OutputError(
            f"{claimed.path} was made by another run just now; run again when that one has ended"
        ) from error
    return claimed


def _claim_stored(path: str) -> Version:
    directory = storage.join(path, CLAIMS_NAME)
    latest = latest_version(path)
    if latest is not None:
        read_manifest(latest.path)  # the new version is held against it at the end
    while True:
        names = (claim.rpartition("/")[2].partition(".")[0] for claim in claims(directory))
        taken = [int(match[1]) for name in names if (match := _VERSION.fullmatch(name))]
        number = 1 + max([*taken, *(version.number for version in versions(path))], default=0)
        if claim_once(directory, f"v{number:04d}."):
            return Version(number, _version_path(path, number))
        time.sleep(random.uniform(0.0, 0.5))


@dataclass(frozen=True)
class VersionEntry:
    """One line of a listing.

    A version that is not complete has a path and nothing else; one whose manifest can't be read
    has its ``fault``.
    """

    dataset: str
    number: int
    path: str
    complete: bool
    created: str | None = None
    rows: int | None = None
    bytes: int | None = None
    fault: str | None = None


def list_versions(output: str) -> list[VersionEntry]:
    """Return what versions the datasets below ``output`` have, by dataset and number.

    Raises:
        OutputError: where no dataset of remint's is below ``output``.
    """
    storage.check_filesystem(output)
    datasets = _datasets(output)
    if not datasets:
        raise OutputError(f"{output} holds no dataset of remint's; give a run's --output")
    return [
        _entry(dataset, version)
        for dataset in datasets
        for version in versions(storage.join(output, dataset))
    ]


def _datasets(output: str) -> list[str]:
    if storage.is_local(output):
        return sorted(name for name in _visible(output) if _is_dataset(os.path.join(output, name)))
    names = (path.split("/") for path in storage.files_below(output))
    return sorted({parts[0] for parts in names if parts[1:] == [DATASET_NAME]})


def _entry(dataset: str, version: Version) -> VersionEntry:
    if not version.complete:
        return VersionEntry(dataset, version.number, version.path, complete=False)
    try:
        manifest = read_manifest(version.path)
    except OutputError as error:
        return VersionEntry(dataset, version.number, version.path, complete=True, fault=str(error))
    return VersionEntry(
        dataset,
        version.number,
        version.path,
        complete=True,
        created=manifest.run["created"],
        rows=sum(shard.rows for shard in manifest.shards if shard.configuration == DEFAULT),
        bytes=sum(size for size, _ in manifest.expected_files().values()),
    )


def dataset_of(version: Version) -> str:
    """Return the directory of the dataset that ``version`` is one of."""
    return version.path.rstrip("/").rsplit("/", 1)[0]


def _version_path(path: str, number: int) -> str:
    return storage.join(path, f"v{number:04d}")
