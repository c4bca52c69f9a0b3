from __future__ import annotations

import io
from collections.abc import Iterator
from typing import ClassVar

import pytest
from apache_beam.io.filesystem import FileMetadata, FileSystem

from transforms.errors import OutputError
from transforms.publishing import storage
from transforms.publishing.lock import lock_dataset
from transforms.publishing.versions import (
    claim_version,
    dataset_path,
    latest_version,
    list_versions,
    open_dataset,
    versions,
)


class StoredObject(io.BytesIO):
    def __init__(self, path: str) -> None:
        super().__init__()
        self.path = path

    def close(self) -> None:
        if not self.closed:
            ObjectStore.objects[self.path] = self.getvalue()
        super().close()


class ObjectStore(FileSystem):
    """A Beam filesystem that knows objects by name and has no directories."""

    objects: ClassVar[dict[str, bytes]] = {}

    @classmethod
    def scheme(cls) -> str:
        return "objectstore"

    def join(self, base: str, *paths: str) -> str:
        return "/".join([base.rstrip("/"), *paths])

    def split(self, path: str) -> tuple[str, ...]:
        return tuple(path.rsplit("/", 1))

    def has_dirs(self) -> bool:
        return False

    def _list(self, prefix: str) -> Iterator[FileMetadata]:
        for path, data in list(self.objects.items()):
            if path.startswith(prefix):
                yield FileMetadata(path, len(data))

    def create(self, path: str, mime_type: str = "", compression_type: str = "") -> StoredObject:
        return StoredObject(path)

    def open(self, path: str, mime_type: str = "", compression_type: str = "") -> io.BytesIO:
        return io.BytesIO(self.objects[path])

    def exists(self, path: str) -> bool:
        return path in self.objects

    def delete(self, paths: list[str]) -> None:
        for path in paths:
            del self.objects[path]

    mkdirs = copy = rename = size = last_updated = checksum = metadata = None


@pytest.fixture(params=["local", "objects"])
def base(request, tmp_path):
    ObjectStore.objects.clear()
    return str(tmp_path) if request.param == "local" else "objectstore://bucket/a"


@pytest.fixture
def bucket():
    ObjectStore.objects.clear()
    return "objectstore://bucket/out"


def test_what_was_written_is_found_read_and_removed(base):
    storage.write_bytes(storage.join(base, "v[1]", "data", "x.parquet"), b"abc")
    storage.write_bytes(storage.join(base, "v[1]", "README.md"), b"")

    place = storage.join(base, "v[1]")
    assert storage.files_below(place) == {"README.md": 0, "data/x.parquet": 3}
    assert storage.read_bytes(storage.join(place, "data", "x.parquet")) == b"abc"
    storage.remove_tree(place)
    assert storage.files_below(place) == {}
    storage.remove_tree(place)


def test_json_keeps_the_order_of_its_keys(base):
    storage.write_bytes(storage.join(base, "a.json"), storage.json_bytes({"b": "é", "a": None}))

    assert storage.read_json(storage.join(base, "a.json")) == {"a": None, "b": "é"}
    assert storage.json_bytes({"b": 1, "a": 2}).index(b"b") < storage.json_bytes(
        {"b": 1, "a": 2}
    ).index(b"a")
    with pytest.raises(ValueError, match="JSON"):
        storage.json_bytes({"a": float("nan")})


def test_an_object_store_never_loses_what_another_run_is_writing(bucket):
    path = dataset_path(bucket, "prosocial")
    with lock_dataset(path):
        open_dataset(path, "prosocial", {"partitions": 2}, {})
    first = claim_version(path)
    storage.write_bytes(storage.join(first.path, "shard.parquet"), b"half")

    second = claim_version(path)

    assert (first.number, second.number) == (1, 2)
    assert storage.files_below(first.path) == {"shard.parquet": 4}
    assert latest_version(path) is None
    assert versions(path) == [first]


def test_datasets_are_listed_in_an_object_store(bucket):
    with pytest.raises(OutputError, match="no dataset"):
        list_versions(bucket)
    path = dataset_path(bucket, "prosocial")
    open_dataset(path, "prosocial", {"partitions": 2}, {})
    storage.write_bytes(storage.join(claim_version(path).path, "shard.parquet"), b"half")

    (entry,) = list_versions(bucket)

    assert (entry.dataset, entry.number, entry.complete) == ("prosocial", 1, False)
    with pytest.raises(OutputError, match="partitions = 2"):
        open_dataset(path, "prosocial", {"partitions": 2}, {"partitions": 3})


def test_a_file_that_could_not_be_written_wholly_is_not_there(tmp_path, monkeypatch):
    path = tmp_path / "v0001" / "manifest.json"
    storage.write_bytes(str(path), b"first")

    def full(begun, place):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(storage.os, "replace", full)
    with pytest.raises(OSError, match="No space"):
        storage.write_bytes(str(path), b"second, and longer")

    assert path.read_bytes() == b"first"
    assert [file.name for file in path.parent.iterdir()] == ["manifest.json"]


def test_two_writers_of_a_file_are_not_in_each_others_way(tmp_path, monkeypatch):
    path = tmp_path / "train.parquet"
    replace = storage.os.replace

    def meanwhile(begun, place):
        monkeypatch.setattr(storage.os, "replace", replace)
        storage.write_bytes(str(path), b"successor")
        replace(begun, place)

    monkeypatch.setattr(storage.os, "replace", meanwhile)
    storage.write_bytes(str(path), b"zombie")

    assert path.read_bytes() == b"zombie"
    assert list(tmp_path.iterdir()) == [path]


def test_a_tree_is_synced_with_every_file_and_directory_and_its_own_entry(tmp_path, monkeypatch):
    version = tmp_path / "v0001"
    storage.write_bytes(str(version / "data" / "train.parquet"), b"rows")
    storage.write_bytes(str(version / "README.md"), b"card")
    synced = set()
    fsync = storage.os.fsync

    def noted(number):
        synced.add(storage.os.readlink(f"/proc/self/fd/{number}"))
        fsync(number)

    monkeypatch.setattr(storage.os, "fsync", noted)
    storage.sync_tree(str(version))

    assert synced == {
        str(place)
        for place in (
            *(tmp_path, version, version / "README.md"),
            *(version / "data", version / "data" / "train.parquet"),
        )
    }
