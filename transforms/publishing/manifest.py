"""The manifest: what a version consists of. It is written last; from then on the version exists."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from transforms.errors import OutputError
from transforms.publishing import storage
from transforms.publishing.shards import ShardRecord

MANIFEST_NAME = "manifest.json"
MANIFEST_FORMAT = 1


@dataclass(frozen=True)
class Manifest:
    """A version's manifest.

    Attributes:
        dataset: the dataset's name.
        version: the version's number.
        run: what ``publication.Run`` says, as a JSON object.
        summary: the one row that sums up the version.
        configurations: by name: ``suite``, ``schema_fingerprint``, and ``splits`` with their rows.
        shards: one record per data file.
        files: ``bytes`` and ``sha256`` of the other files, by path relative to the version.
        suites: the SHA-256 of each suite that was run.
        warnings: one line for each expectation that failed and only warns.
    """

    dataset: str
    version: int
    run: Mapping[str, Any]
    summary: Mapping[str, Any]
    configurations: Mapping[str, Mapping[str, Any]]
    shards: tuple[ShardRecord, ...]
    files: Mapping[str, Mapping[str, Any]]
    suites: Mapping[str, str]
    warnings: tuple[str, ...]

    def expected_files(self) -> dict[str, tuple[int, str]]:
        """Return size and SHA-256 of every file of the version but the manifest, by path."""
        expected = {shard.path: (shard.bytes, shard.sha256) for shard in self.shards}
        others = {path: (file["bytes"], file["sha256"]) for path, file in self.files.items()}
        return {**expected, **others}

    def to_bytes(self) -> bytes:
        """Return the manifest's file."""
        return storage.json_bytes({"format": MANIFEST_FORMAT, **asdict(self)})


def manifest_path(version_path: str) -> str:
    """Return where the manifest of the version at ``version_path`` stands."""
    return storage.join(version_path, MANIFEST_NAME)


def read_manifest(version_path: str) -> Manifest:
    """Return the manifest of the version at ``version_path``.

    Raises:
        OutputError: where there is none, or one that can't be read.
    """
    storage.check_filesystem(version_path)
    path = manifest_path(version_path)
    if not storage.exists(path):
        raise OutputError(f"{version_path} has no {MANIFEST_NAME}, so it is not a version")
    try:
        raw = storage.read_json(path)
        if raw.pop("format") != MANIFEST_FORMAT:
            raise OutputError(f"{path} was written by another release of remint; use that one")
        shards = tuple(ShardRecord.from_json(shard) for shard in raw.pop("shards"))
        manifest = Manifest(shards=shards, warnings=tuple(raw.pop("warnings")), **raw)
        # What is read of a manifest everywhere must be there.
        _ = manifest.run["created"], manifest.summary.keys(), manifest.configurations.keys()
        _ = manifest.expected_files()
        return manifest
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise OutputError(
            f"{path} is damaged; restore it, or remove {version_path} and run again, which repeats "
            "no call"
        ) from error
