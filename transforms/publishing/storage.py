"""Small files on any Beam filesystem; directories need care only where the filesystem has them."""

from __future__ import annotations

import glob
import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from apache_beam.io.filesystem import CompressionTypes
from apache_beam.io.filesystems import FileSystems

from transforms.errors import OutputError
from transforms.publishing.s3_clients import share_clients


class StoredFile(NamedTuple):
    """What a listing says of a file; ``updated`` is seconds since 1970 by the store's clock."""

    bytes: int
    updated: float


def is_local(path: str) -> bool:
    """Return whether ``path`` is a plain path, so that locks and exclusive directories exist."""
    return FileSystems.get_scheme(path) is None


def check_filesystem(path: str) -> None:
    """Return if there is a filesystem for ``path``'s scheme.

    Raises:
        OutputError: there is none.
    """
    try:
        FileSystems.get_filesystem(path)
    except ValueError as error:
        raise OutputError(
            f"{path}: no file system for this scheme; install the extra that brings it "
            "(remint[gcp] for gs://, remint[s3] for s3://) or give a local directory"
        ) from error


@contextmanager
def at_store(path: str) -> Iterator[None]:
    """Turn what an object store's client raises into an OSError that names ``path``."""
    if path.startswith("s3://"):
        share_clients()
    try:
        yield
    except OSError:
        raise
    except Exception as error:  # each filesystem has exceptions of its own
        raise OSError(f"{path}: {error}") from error


def join(base: str, *parts: str) -> str:
    """Return ``base`` with ``parts`` appended, by the rules of its filesystem."""
    return str(FileSystems.join(base, *parts)) if parts else base


def read_bytes(path: str) -> bytes:
    """Return what the file at ``path`` holds."""
    with (
        at_store(path),
        FileSystems.open(path, compression_type=CompressionTypes.UNCOMPRESSED) as file,
    ):
        return bytes(file.read())


def write_bytes(path: str, data: bytes, *, durable: bool = False) -> None:
    """Write ``data`` to ``path``, whose directories are made; where that fails, nothing is there.

    Object stores have that property themselves; a local file takes its place by being renamed. A
    worker that was taken for dead and its successor may write one file at once: each has begun one
    of its own, and the last to be renamed stands.

    Args:
        path: the file.
        data: what it is to hold.
        durable: it is on the disk when this returns, so that a power failure does not undo it.
    """
    if is_local(path):
        directory, name = os.path.split(path)
        os.makedirs(directory or ".", exist_ok=True)
        begun = os.path.join(directory, f".{name}.{os.urandom(4).hex()}.begun")
        try:
            with open(begun, "wb") as local:
                local.write(data)
                if durable:
                    local.flush()
                    os.fsync(local.fileno())
            os.replace(begun, path)
        except BaseException:
            Path(begun).unlink(missing_ok=True)
            raise
        if durable:
            _sync(directory or ".")
        return
    with (
        at_store(path),
        FileSystems.create(path, compression_type=CompressionTypes.UNCOMPRESSED) as file,
    ):
        file.write(data)


def sync_tree(directory: str) -> None:
    """Return when all that is below ``directory`` is on the disk; at once where it is not local.

    What other processes have written and closed counts. Syncing once at the end costs less than
    durable writing of each file: the kernel has written much of it by then.
    """
    if not is_local(directory):
        return
    for base, _, names in os.walk(directory):
        for name in names:
            with suppress(FileNotFoundError):  # what somebody had begun has its name by now
                _sync(os.path.join(base, name))
        _sync(base)
    _sync(os.path.dirname(os.path.abspath(directory)))


def _sync(path: str) -> None:
    """Wait until the file or directory at ``path`` is on the disk."""
    opened = os.open(path, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


def read_json(path: str) -> Any:
    """Return the JSON value that the file at ``path`` holds."""
    return json.loads(read_bytes(path))


def json_bytes(value: Mapping[str, Any]) -> bytes:
    """Return ``value`` as indented UTF-8 JSON, its keys in the order they have there."""
    text = json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False)
    return (text + "\n").encode("utf-8")


def exists(path: str) -> bool:
    """Return whether there is a file or directory at ``path``."""
    with at_store(path):
        return bool(FileSystems.exists(path))


def sha256(data: bytes) -> str:
    """Return the SHA-256 of ``data`` in hex digits."""
    return hashlib.sha256(data).hexdigest()


def files_below(directory: str) -> dict[str, int]:
    """Return the files below ``directory``: size in bytes by path relative to it, sorted."""
    if is_local(directory):
        base = Path(directory)
        found = {
            path.relative_to(base).as_posix(): path.stat().st_size
            for path in base.rglob("*")
            if path.is_file()
        }
    else:
        found = {path: file.bytes for path, file in stored_files(directory).items()}
    return dict(sorted(found.items()))


def stored_files(directory: str, begin: str = "") -> dict[str, StoredFile]:
    """Return the files below ``directory``, not a local one, by path relative to it, sorted.

    Args:
        directory: the directory.
        begin: what their relative paths begin with; the store lists no others.
    """
    prefix = directory.rstrip("/") + "/"
    with at_store(directory):
        (match,) = FileSystems.match([glob.escape(prefix + begin) + "**"])
    found = {
        item.path[len(prefix) :]: StoredFile(
            int(item.size_in_bytes), float(item.last_updated_in_seconds)
        )
        for item in match.metadata_list
    }
    return dict(sorted(found.items()))


def remove_file(path: str) -> None:
    """Remove the file at ``path``; nothing happens where it is not."""
    if is_local(path):
        Path(path).unlink(missing_ok=True)
    elif exists(path):
        remove_stored([path])


def remove_stored(paths: Sequence[str]) -> None:
    """Remove the files at ``paths``, which are not local ones; one may be gone already.

    Raises:
        OSError: one is still there.
    """
    if not paths:
        return
    try:
        with at_store(paths[0]):
            FileSystems.delete(list(paths))
    except OSError:
        if any(map(exists, paths)):
            raise


def remove_tree(directory: str) -> None:
    """Remove ``directory`` and what is in it; nothing happens where it is not."""
    if is_local(directory):
        if os.path.lexists(directory):
            shutil.rmtree(directory)
        return
    remove_stored([join(directory, name) for name in files_below(directory)])
