"""An object store for tests: Beam's file system ``bucket://``, whose objects are local files."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, ClassVar

from apache_beam.io.filesystem import CompressionTypes, FileMetadata, FileSystem
from apache_beam.io.localfilesystem import LocalFileSystem

SCHEME = "bucket"
_PREFIX = f"{SCHEME}://"


class BucketFileSystem(FileSystem):  # type: ignore[misc]
    """Objects below ``root``; there are no directories, as on any object store."""

    root: ClassVar[Path]

    def __init__(self, pipeline_options: Any) -> None:
        super().__init__(pipeline_options)
        self._local = LocalFileSystem(pipeline_options)

    @classmethod
    def scheme(cls) -> str:
        return SCHEME

    @classmethod
    def path(cls, name: str) -> str:
        """Return the file that is the object ``name``."""
        return str(cls.root / name.removeprefix(_PREFIX))

    def join(self, basepath: str, *paths: str) -> str:
        return "/".join([basepath.rstrip("/"), *(path.strip("/") for path in paths)])

    def split(self, path: str) -> tuple[str, str]:
        head, _, tail = path.rpartition("/")
        return head, tail

    def mkdirs(self, path: str) -> None:
        """Return: object stores have none."""

    def has_dirs(self) -> bool:
        return False

    def _list(self, dir_or_prefix: str) -> Iterator[FileMetadata]:
        for file in sorted(self.root.rglob("*")):
            name = _PREFIX + file.relative_to(self.root).as_posix()
            if file.is_file() and name.startswith(dir_or_prefix):
                yield self.metadata(name)

    def create(self, path: str, mime_type: str, compression_type: str) -> BinaryIO:
        assert compression_type == CompressionTypes.UNCOMPRESSED
        return self._local.create(self.path(path), compression_type=compression_type)

    def open(self, path: str, mime_type: str, compression_type: str) -> BinaryIO:
        assert compression_type == CompressionTypes.UNCOMPRESSED
        return self._local.open(self.path(path), compression_type=compression_type)

    def copy(self, source_file_names: list[str], destination_file_names: list[str]) -> None:
        raise NotImplementedError

    def rename(self, source_file_names: list[str], destination_file_names: list[str]) -> None:
        raise NotImplementedError

    def exists(self, path: str) -> bool:
        return os.path.isfile(self.path(path))

    def size(self, path: str) -> int:
        return os.path.getsize(self.path(path))

    def last_updated(self, path: str) -> float:
        return os.path.getmtime(self.path(path))

    def checksum(self, path: str) -> str:
        return str(self.size(path))

    def metadata(self, path: str) -> FileMetadata:
        return FileMetadata(path, self.size(path), self.last_updated(path))

    def delete(self, paths: list[str]) -> None:
        for path in paths:
            os.remove(self.path(path))
