"""Files: which ones a user means, how they are opened, and what they are known by.

Local paths are handled by the standard library, everything with a scheme (``gs://``, ``s3://``) by
Beam's file systems, which are imported only then.
"""

from __future__ import annotations

import bz2
import glob
import gzip
import hashlib
import lzma
import os
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, BinaryIO, cast

from transforms.errors import InputError

#: Compression by extension, the same table as Beam's (``.deflate``, which can't tell that it was
#: cut off, is left out).
COMPRESSIONS = {
    ".gz": "gzip",
    ".bz2": "bzip2",
    ".zst": "zstd",
    ".zstd": "zstd",
    ".xz": "lzma",
    ".lzma": "lzma",
}
#: Extensions of files that compress by themselves.
PARQUET = (".parquet", ".pq")
_HASH_BLOCK = 1 << 20


def expand(patterns: Sequence[str]) -> list[str]:
    """Return the paths of all files that ``patterns`` name, sorted, each file once.

    A pattern is a path or a glob, local or on a file system that Beam knows. A path that exists is
    taken as it is, even where it holds glob characters.

    Raises:
        InputError: a pattern names no file, a directory, or a place that can't be reached.
    """
    found: dict[str, str] = {}
    for pattern in patterns:
        for path in _remote_matches(pattern) if _is_remote(pattern) else _local_matches(pattern):
            identity = path if _is_remote(path) else os.path.realpath(path)
            found[identity] = min(path, found.get(identity, path))
    return sorted(found.values())


def open_bytes(path: str) -> BinaryIO:
    """Open ``path`` for reading its content, decompressed as its extension says.

    Read it within ``reading(path)``, so that damage found on the way names the file.

    Raises:
        InputError: the file is missing or can't be opened.
    """
    compression = compression_of(path)
    with reading(path):
        if compression is None:
            return _open_stored(path)
        if compression == "zstd":
            # pyarrow's stream says when a file was cut off, zstandard's own reader does not.
            import pyarrow as pa

            stored = pa.PythonFile(_open_stored(path), "r")
            return cast("BinaryIO", pa.CompressedInputStream(stored, "zstd"))
        # A local file is opened by its path, so that it is closed together with its reader.
        source = _open_stored(path) if _is_remote(path) else path
        openers: dict[str, Callable[..., Any]] = {
            "gzip": gzip.open,
            "bzip2": bz2.open,
            "lzma": lzma.open,
        }
        return cast("BinaryIO", openers[compression](source, "rb"))


def compression_of(path: str) -> str | None:
    """Return the compression that the extension of ``path`` stands for, None for none."""
    return COMPRESSIONS.get(os.path.splitext(path)[1].lower())


def decompressed_name(path: str) -> str:
    """Return ``path`` without the extension of a compression."""
    return os.path.splitext(path)[0] if compression_of(path) else path


def extension_of(path: str) -> str:
    """Return the extension of ``path``, that of a compression aside, in lower case: ``.csv``."""
    return os.path.splitext(decompressed_name(path))[1].lower()


def fingerprint(path: str) -> dict[str, Any]:
    """Return what identifies a file's content: ``path``, ``bytes`` and ``sha256`` as stored."""
    digest = hashlib.sha256()
    size = 0
    with reading(path), _open_stored(path) as stored:
        while block := stored.read(_HASH_BLOCK):
            digest.update(block)
            size += len(block)
    return {"path": path, "bytes": size, "sha256": digest.hexdigest()}


def stored_size(path: str) -> int:
    """Return the bytes of the file at ``path`` as it is stored.

    Raises:
        InputError: the file is not there.
    """
    if not _is_remote(path):
        with reading(path):
            return os.path.getsize(path)
    from apache_beam.io.filesystems import FileSystems

    try:
        ((found,),) = (match.metadata_list for match in FileSystems.match([glob.escape(path)]))
    except Exception as error:  # each file system has exceptions of its own
        raise InputError(f"{path}: can't be looked at ({error}); check access to it") from error
    return int(found.size_in_bytes)


@contextmanager
def reading(path: str) -> Iterator[None]:
    """Turn any failure of a file or its compression into an InputError that names ``path``."""
    try:
        yield
    except FileNotFoundError as error:
        raise InputError(f"{path}: no such file; check the path") from error
    except IsADirectoryError as error:
        raise InputError(f"{path}: is a directory; name its files, e.g. {path}/*.csv") from error
    except PermissionError as error:
        raise InputError(f"{path}: may not be read; check its permissions") from error
    except EOFError as error:
        raise InputError(f"{path}: is cut off in the middle; fetch or write it again") from error
    except (OSError, zlib.error, lzma.LZMAError) as error:
        if compression := compression_of(path):
            raise InputError(
                f"{path}: is named as {compression} data but can't be decompressed ({error}); "
                "it is damaged, cut off, or has the wrong extension"
            ) from error
        raise InputError(f"{path}: can't be read ({error})") from error


def _is_remote(path: str) -> bool:
    return "://" in path


def _local_matches(pattern: str) -> list[str]:
    if os.path.isdir(pattern):
        raise InputError(
            f"{pattern}: is a directory; name its files, e.g. {os.path.join(pattern, '*.csv')}"
        )
    if os.path.exists(pattern):
        return [os.path.normpath(pattern)]
    if not glob.has_magic(pattern):
        raise InputError(f"{pattern}: no such file; check the path")
    matches = [path for path in glob.glob(pattern, recursive=True) if os.path.isfile(path)]
    if not matches:
        raise InputError(
            f"{pattern}: no file matches; check the pattern, and quote it so that remint expands it"
        )
    return [os.path.normpath(path) for path in matches]


def _remote_matches(pattern: str) -> list[str]:
    from apache_beam.io.filesystems import FileSystems

    if pattern.startswith("file://"):
        raise InputError(f"{pattern}: write a local file as a plain path, without file://")
    _share_clients(pattern)
    try:
        if glob.has_magic(pattern) and FileSystems.exists(pattern):
            return [pattern]
        matches = FileSystems.match([pattern])[0].metadata_list
    except ValueError as error:
        raise InputError(
            f"{pattern}: no file system for this scheme; install the extra that brings it "
            "(remint[gcp] for gs://, remint[s3] for s3://) or copy the file here"
        ) from error
    except Exception as error:  # each file system has exceptions of its own
        raise InputError(f"{pattern}: can't be listed ({error}); check access to it") from error
    if not matches:
        raise InputError(f"{pattern}: no file matches; check the path or pattern")
    return [match.path for match in matches]


def _open_stored(path: str) -> BinaryIO:
    if not _is_remote(path):
        return open(path, "rb")
    from apache_beam.io.filesystem import CompressionTypes
    from apache_beam.io.filesystems import FileSystems

    _share_clients(path)
    try:
        return cast(
            "BinaryIO", FileSystems.open(path, compression_type=CompressionTypes.UNCOMPRESSED)
        )
    except Exception as error:  # each file system has exceptions of its own
        raise InputError(f"{path}: can't be opened ({error}); check access to it") from error


def _share_clients(path: str) -> None:
    if path.startswith("s3://"):
        from transforms.publishing.s3_clients import share_clients

        share_clients()
