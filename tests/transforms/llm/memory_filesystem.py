"""A Beam filesystem kept in memory, which has no more than an object store has."""

from __future__ import annotations

from typing import ClassVar

from apache_beam.io.filesystem import CompressionTypes, FileMetadata, FileSystem, MatchResult


class MemoryFileSystem(FileSystem):
    """A Beam filesystem without append or rename, like an object store; kept in memory."""

    objects: ClassVar[dict[str, bytes]] = {}
    refusals = 0

    @classmethod
    def scheme(cls) -> str:
        return "testmemory"

    def join(self, base: str, *paths: str) -> str:
        return "/".join([base.rstrip("/"), *paths])

    def match(self, patterns: list[str], limits: object = None) -> list[MatchResult]:
        found = [
            FileMetadata(name, len(data))
            for name, data in self.objects.items()
            if name.startswith(patterns[0].rstrip("*"))
        ]
        return [MatchResult(patterns[0], found)]

    def create(self, path: str, mime_type: str = "", compression_type: str = "") -> MemoryObject:
        assert compression_type == CompressionTypes.UNCOMPRESSED
        if MemoryFileSystem.refusals:
            MemoryFileSystem.refusals -= 1
            raise OSError("refused")
        assert path not in self.objects
        return MemoryObject(path)

    def open(self, path: str, mime_type: str = "", compression_type: str = "") -> MemoryObject:
        return MemoryObject(path)

    def mkdirs(self, *_: object) -> None: ...
    def has_dirs(self) -> bool: ...  # type: ignore[empty-body]
    def split(self, *_: object) -> None: ...
    def _list(self, *_: object) -> None: ...
    def copy(self, *_: object) -> None: ...
    def rename(self, *_: object) -> None: ...
    def exists(self, path: str) -> bool:
        return path in self.objects

    def size(self, *_: object) -> None: ...
    def last_updated(self, *_: object) -> None: ...
    def checksum(self, *_: object) -> None: ...
    def metadata(self, *_: object) -> None: ...
    def delete(self, paths: list[str]) -> None:
        for path in paths:
            del self.objects[path]


class MemoryObject:
    def __init__(self, path: str) -> None:
        self._path, self._data = path, b""

    def __enter__(self) -> MemoryObject:
        return self

    def __exit__(self, *_: object) -> None:
        if self._data:
            MemoryFileSystem.objects[self._path] = self._data

    def write(self, data: bytes) -> None:
        self._data += data

    def read(self) -> bytes:
        return MemoryFileSystem.objects[self._path]
