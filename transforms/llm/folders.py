"""A partition's folder of the cache: which segments it has, and in which order they count.

    <creation time>-<random>.jsonl        one writer's records, see ``transforms.llm.segments``
    <creation time>-<random>.jsonl.zst    a compacted segment: what several others held

The older segment counts, and a compacted one before all others: it holds the oldest. Its first
line, the header, names the segments it replaces and tells how many lines follow. Only when they
are all there is it complete, and only a complete one replaces anything: so it may be written and
the replaced ones be deleted at any pace, in any order, and be broken off anywhere, on filesystems
without renames too.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import zstandard
from apache_beam.io.filesystems import FileSystems

from transforms.llm.parsing import parse_json
from transforms.llm.records import FORMAT_VERSION
from transforms.publishing import storage

COMPACTED = ".jsonl.zst"
#: A segment's name begins with the time by which it counts; any other file is somebody else's.
_NAME = re.compile(r"[0-9a-f]{16}-[\w-]+(\.merged)?\.jsonl(\.zst)?", re.ASCII)
#: Of zstandard: higher ones gain nothing on replies and take five times as long.
_LEVEL = 3
_CHUNK = 1 << 20
#: How often a folder is read anew because a compaction changed it meanwhile.
_ATTEMPTS = 10


@dataclass(frozen=True)
class Segment:
    """A segment as read.

    Attributes:
        name: its file's name.
        size: bytes of the file.
        lines: its lines, a compacted one's without the header.
        torn: something is cut off or damaged beside the lines: a last record, the compressed data.
        replaces: the names of the segments it stands for; None for any but a complete compacted
            one.
    """

    name: str
    size: int
    lines: list[bytes]
    torn: bool = False
    replaces: frozenset[str] | None = None

    @property
    def compacted(self) -> bool:
        """Whether it is a compacted one, complete or not."""
        return self.name.endswith(COMPACTED)


@dataclass(frozen=True)
class Folder:
    """A partition's folder as read.

    Attributes:
        path: the folder.
        segments: in the order in which they count; replaced ones are left out.
        replaced: names of segments that are still there and are replaced by a compacted one.
        foreign: names of files that are none of ours.
    """

    path: str
    segments: list[Segment] = field(default_factory=list)
    replaced: list[str] = field(default_factory=list)
    foreign: list[str] = field(default_factory=list)


def folder_path(directory: str, partition: int) -> str:
    """Return the folder of ``partition`` in the cache at ``directory``."""
    return str(FileSystems.join(directory, f"p-{partition:05d}"))


def list_folder(path: str) -> list[str]:
    """Return the names of the files of the folder at ``path``, sorted; none where it is not there.

    Hidden files are left out: a compaction's that was killed before it was done.
    """
    if storage.is_local(path):
        names = os.listdir(path) if os.path.isdir(path) else []
    else:
        names = [name for name in storage.stored_files(path) if "/" not in name]
    return sorted(name for name in names if not name.startswith("."))


def read_folder(path: str) -> Folder:
    """Read the segments of the folder at ``path``.

    A compaction may run meanwhile. A segment that is gone was replaced by one that was written
    before; and as a listing may see neither of the two, what is there is listed once more at the
    end.

    Raises:
        OSError: a segment can't be read.
    """
    attempts = 0
    while True:
        names = list_folder(path)
        try:
            folder = _read(path, names)
        except Exception:  # what an object store raises for a missing object is its own
            attempts += 1
            if attempts == _ATTEMPTS or set(names) <= set(list_folder(path)):
                raise
            continue
        if not any(name.endswith(COMPACTED) for name in set(list_folder(path)) - set(names)):
            return folder


def _read(path: str, names: Iterable[str]) -> Folder:
    folder = Folder(path)
    replaced: set[str] = set()
    ours: dict[str, Segment | None] = {}
    for name in names:
        if not _NAME.fullmatch(name):
            folder.foreign.append(name)
        elif name.endswith(COMPACTED):
            segment = _compacted(name, storage.read_bytes(storage.join(path, name)))
            if segment is None:
                folder.foreign.append(name)
            else:
                ours[name] = segment
                replaced |= segment.replaces or frozenset()
        else:
            ours[name] = None
    for name in sorted(ours, key=lambda name: (ours[name] is None, name)):
        if name in replaced:
            folder.replaced.append(name)
        else:
            folder.segments.append(ours[name] or _plain(path, name))
    return folder


def _plain(path: str, name: str) -> Segment:
    data = storage.read_bytes(storage.join(path, name))
    lines = data.split(b"\n")
    # What follows the last line break is a record cut off.
    return Segment(name, len(data), lines, torn=bool(lines.pop()))


def compacted_bytes(lines: list[bytes], replaces: Iterable[str]) -> bytes:
    """Return the compacted segment that holds ``lines`` and replaces the segments named."""
    header = {
        "version": FORMAT_VERSION,
        "lines": len(lines),
        "replaces": sorted(replaces),
    }
    text = b"\n".join([json.dumps(header, separators=(",", ":")).encode(), *lines, b""])
    return bytes(zstandard.ZstdCompressor(_LEVEL, write_checksum=True).compress(text))


def _compacted(name: str, data: bytes) -> Segment | None:
    """Return the compacted segment of a file, what of it can be read; None: another version's."""
    lines, torn = _decompressed(data)
    header = _header(lines[0]) if lines else {}
    if header.get("version", FORMAT_VERSION) != FORMAT_VERSION:
        return None
    count, replaces = header.get("lines"), header.get("replaces")
    if not isinstance(count, int) or not isinstance(replaces, list):
        return Segment(name, len(data), lines, torn=True)
    del lines[0]
    if torn or len(lines) != count:
        return Segment(name, len(data), lines, torn=True)
    return Segment(name, len(data), lines, replaces=frozenset(replaces))


def _header(line: bytes) -> dict[str, Any]:
    try:
        header = parse_json(line)
    except ValueError:
        return {}
    return header if isinstance(header, dict) else {}


def _decompressed(data: bytes) -> tuple[list[bytes], bool]:
    """Return the whole lines of ``data`` as far as it can be read, and whether more is lost."""
    reader = zstandard.ZstdDecompressor().decompressobj()
    parts: list[bytes] = []
    try:
        for start in range(0, len(data), _CHUNK):
            parts.append(reader.decompress(data[start : start + _CHUNK]))
        whole = reader.eof and not reader.unused_data
    except zstandard.ZstdError:
        whole = False
    lines = b"".join(parts).split(b"\n")
    return lines, bool(lines.pop()) or not whole
