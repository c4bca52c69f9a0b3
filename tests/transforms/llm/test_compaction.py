"""Compaction changes no answer: whatever the segments hold, wherever it is broken off."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.transforms.llm.memory_filesystem import MemoryFileSystem
from transforms.llm import compaction, folders
from transforms.llm.cache import PartitionCache
from transforms.llm.compaction import compact_folder
from transforms.llm.folders import COMPACTED, compacted_bytes, list_folder, read_folder
from transforms.llm.records import new_line
from transforms.llm.segments import LocalSegment
from transforms.publishing import storage

ROOT = Path(__file__).resolve().parents[3]
KEYS = [hashlib.sha256(b"%d" % number).hexdigest() for number in range(6)]


def answers(directory: str) -> list[tuple[int, str] | None]:
    cache = PartitionCache(directory, 0)
    cache.load()
    return [cache.get(key) for key in KEYS]


def write_segments(directory: str, segments: Sequence[Sequence[tuple[int, str]]]) -> str:
    """Write segments of (key's number, body), the oldest first; return their folder."""
    folder = storage.join(directory, "p-00000")
    for number, records in enumerate(segments):
        data = b"".join(line(*record) for record in records)
        storage.write_bytes(storage.join(folder, f"{number:016x}-{number:012x}.jsonl"), data)
    return folder


def line(number: int, body: str) -> bytes:
    whole = new_line(KEYS[number], "p.v1", 200, body) + b"\n"
    return {"damaged": whole.replace(b'"status":200', b'"status":2x0'), "torn": whole[:90]}.get(
        body, whole
    )


HISTORIES = st.lists(
    st.lists(st.tuples(st.integers(0, 5), st.sampled_from(["a", "b", "c", "damaged"])), max_size=6),
    max_size=6,
)


@settings(max_examples=60, deadline=None)
@given(HISTORIES, HISTORIES, st.booleans())
def test_no_answer_changes(
    before: list[list[tuple[int, str]]], later: list[list[tuple[int, str]]], torn: bool
) -> None:
    with tempfile.TemporaryDirectory() as directory:
        folder = write_segments(directory, [*before, [(0, "d"), (1, "torn")] if torn else []])
        known = answers(directory)
        result = compact_folder(folder)
        assert answers(directory) == known
        assert len(list_folder(folder)) == min(1, sum(one is not None for one in known))
        assert result.segments_after <= 1
        # And again with what later runs add: the compacted answers are older than all of them.
        for records in later:
            name = f"{time.time_ns():016x}-x.jsonl"
            storage.write_bytes(storage.join(folder, name), b"".join(line(*one) for one in records))
        both = answers(directory)
        assert [new for new, old in zip(both, known, strict=True) if old] == [
            old for old in known if old
        ]
        compact_folder(folder)
        assert answers(directory) == both


def test_a_compacted_folder_is_smaller_and_is_left_alone(tmp_path: Path) -> None:
    body = "an answer such as models give to very many situations " * 5
    folder = write_segments(str(tmp_path), [[(n, f"{n} {body}") for n in range(6)]] * 3)
    result = compact_folder(folder)
    assert (result.segments_before, result.segments_after, result.duplicates) == (3, 1, 12)
    assert result.bytes_after < result.bytes_before / 5
    (name,) = list_folder(folder)
    written = os.stat(Path(folder) / name)
    assert compact_folder(folder).segments_after == 1
    assert list_folder(folder) == [name]
    assert os.stat(Path(folder) / name).st_mtime_ns == written.st_mtime_ns


def test_records_of_another_version_are_kept_and_rubbish_is_dropped(tmp_path: Path) -> None:
    folder = write_segments(str(tmp_path), [[(0, "a")]])
    newer = line(1, "b").replace(b'"version":1', b'"version":2')
    (Path(folder) / "0000000000000009-x.jsonl").write_bytes(newer + b"rubbish\n" + newer)
    for name in ("notes.txt", "notes.jsonl", "notes.jsonl.zst"):
        (Path(folder) / name).write_text("mine\n")
    assert read_folder(folder).foreign == ["notes.jsonl", "notes.jsonl.zst", "notes.txt"]
    assert compact_folder(folder).damaged == 1
    (segment,) = read_folder(folder).segments
    assert segment.lines == [line(0, "a")[:-1], newer[:-1]]
    for name in ("notes.txt", "notes.jsonl", "notes.jsonl.zst"):
        assert (Path(folder) / name).read_text() == "mine\n"


def test_where_only_what_is_open_for_writing_can_be_locked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On NFS flock is a lock of a range of bytes, and that is its rule."""
    lock = fcntl.flock

    def of_nfs(file: int, operation: int) -> None:
        if operation & fcntl.LOCK_EX and fcntl.fcntl(file, fcntl.F_GETFL) & 3 == os.O_RDONLY:
            raise OSError(errno.EBADF, "Bad file descriptor")
        lock(file, operation)

    monkeypatch.setattr(fcntl, "flock", of_nfs)
    folder = write_segments(str(tmp_path), [[(0, "a")], [(1, "b")], []])
    assert compact_folder(folder).segments_after == 1
    running = PartitionCache(str(tmp_path), 0)
    running.load()
    running.put(KEYS[2], "p.v1", 200, "c")
    assert compact_folder(folder).in_use == 1
    running.close()
    assert compact_folder(folder).segments_after == 1
    assert answers(str(tmp_path))[:3] == [(200, "a"), (200, "b"), (200, "c")]


def test_what_a_run_is_writing_is_left_and_what_follows_it_too(tmp_path: Path) -> None:
    folder = write_segments(str(tmp_path), [[(0, "a")], [(0, "b"), (1, "b")]])
    running = PartitionCache(str(tmp_path), 0)
    running.load()
    running.put(KEYS[2], "p.v1", 200, "c")
    late = "f" * 16 + "-late.jsonl"
    storage.write_bytes(storage.join(folder, late), line(2, "d"))
    result = compact_folder(folder)
    assert (result.segments_after, result.in_use) == (3, 2)
    running.put(KEYS[3], "p.v1", 200, "e")  # into a segment that is still there
    expected = [(200, "a"), (200, "b"), (200, "c"), (200, "e"), None, None]
    assert answers(str(tmp_path)) == expected
    running.close()
    assert compact_folder(folder).segments_after == 1
    assert answers(str(tmp_path)) == expected


def test_a_segment_that_was_made_and_not_locked_yet_is_given_up_by_its_writer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write_segments(str(tmp_path), [[(0, "a")]])
    lock = LocalSegment._is_ours

    def compacted_before(segment: LocalSegment) -> bool:
        monkeypatch.undo()
        compact_folder(folder)
        return lock(segment)

    monkeypatch.setattr(LocalSegment, "_is_ours", compacted_before)
    cache = PartitionCache(str(tmp_path), 0)
    cache.load()
    cache.put(KEYS[1], "p.v1", 200, "b")
    assert answers(str(tmp_path))[:2] == [(200, "a"), (200, "b")]
    assert len(list_folder(folder)) == 2


class _Killed(BaseException):
    """What ends a compaction where a kill would: no handler of ours catches it."""


def _dying(function: Callable[..., Any], dies: Callable[[], bool]) -> Callable[..., Any]:
    def wrapped(*arguments: Any, **named: Any) -> Any:
        if dies():
            raise _Killed
        return function(*arguments, **named)

    return wrapped


@pytest.mark.parametrize("where", ["local", "objects"])
def test_broken_off_before_any_step_it_loses_and_changes_nothing(
    where: str, tmp_path: Path, memory: type[MemoryFileSystem], monkeypatch: pytest.MonkeyPatch
) -> None:
    history = [[(0, "a"), (1, "a")], [(1, "b"), (2, "damaged")], [(2, "b"), (3, "b")]]
    steps = 0
    while True:
        directory = str(tmp_path / str(steps)) if where == "local" else f"testmemory://b/{steps}"
        folder = write_segments(directory, history)
        known = answers(directory)
        left = [steps]

        def dies(left: list[int] = left) -> bool:
            left[0] -= 1
            return left[0] < 0

        with monkeypatch.context() as patched:
            for module, name in (
                (storage, "write_bytes"),
                (storage.os, "replace"),
                (storage.os, "fsync"),
                (compaction, "read_folder"),
                (compaction, "remove_finished"),
            ):
                patched.setattr(module, name, _dying(getattr(module, name), dies))
            patched.setattr(MemoryFileSystem, "delete", _one_by_one(dies))
            try:
                compact_folder(folder)
                killed = False
            except _Killed:
                killed = True
        assert answers(directory) == known
        compact_folder(folder)
        assert answers(directory) == known
        assert len(list_folder(folder)) == 1
        if where == "local":
            assert len(os.listdir(folder)) == 1  # also of hidden files
        steps += 1
        if not killed:
            break
    assert steps > 6


def _one_by_one(dies: Callable[[], bool]) -> Callable[[MemoryFileSystem, list[str]], None]:
    def delete(self: MemoryFileSystem, paths: list[str]) -> None:
        for path in paths:
            if dies():
                raise _Killed
            del self.objects[path]

    return delete


def test_a_compacted_segment_that_is_not_whole_replaces_nothing(
    memory: type[MemoryFileSystem],
) -> None:
    folder = write_segments("testmemory://b/cache", [[(0, "a"), (1, "a")], [(2, "b")]])
    names = list_folder(folder)
    lines = [line(0, "a")[:-1], line(1, "a")[:-1], line(2, "b")[:-1]]
    whole = compacted_bytes(lines, names)
    for size in range(len(whole)):
        memory.objects[f"{folder}/{'c' * 16}-x{COMPACTED}"] = whole[:size]
        assert answers("testmemory://b/cache")[:4] == [(200, "a"), (200, "a"), (200, "b"), None]
        assert read_folder(folder).replaced == []
    flipped = bytearray(whole)
    flipped[-2] ^= 1  # in the checksum: all lines are there, and none can be trusted to be
    memory.objects[f"{folder}/{'c' * 16}-x{COMPACTED}"] = bytes(flipped)
    assert read_folder(folder).replaced == []
    compact_folder(folder)
    assert len(memory.objects) == 1
    assert answers("testmemory://b/cache")[:4] == [(200, "a"), (200, "a"), (200, "b"), None]


def test_a_compaction_of_a_later_format_is_left_alone(tmp_path: Path) -> None:
    folder = write_segments(str(tmp_path), [[(0, "a")]])
    data = b'{"version":2,"something":"else"}\n{"version":2}\n'
    later = Path(folder) / f"{'c' * 16}-x{COMPACTED}"
    later.write_bytes(folders.zstandard.ZstdCompressor().compress(data))
    assert compact_folder(folder).segments_after == 1
    assert later.exists()
    assert answers(str(tmp_path))[0] == (200, "a")


def test_a_reader_that_a_compaction_overtakes_reads_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write_segments(str(tmp_path), [[(0, "a")], [(1, "b")], [(2, "c")]])
    listing, reading = folders.list_folder, storage.read_bytes

    def overtaken(path: str) -> bytes:
        monkeypatch.undo()
        compact_folder(folder)
        return reading(path)

    monkeypatch.setattr(folders.storage, "read_bytes", overtaken)
    assert answers(str(tmp_path))[:3] == [(200, "a"), (200, "b"), (200, "c")]

    def saw_neither(path: str) -> list[str]:
        monkeypatch.undo()
        return []

    monkeypatch.setattr(folders, "list_folder", saw_neither)
    assert listing(folder)
    assert answers(str(tmp_path))[:3] == [(200, "a"), (200, "b"), (200, "c")]


def test_a_segment_that_cannot_be_read_is_told_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write_segments(str(tmp_path), [[(0, "a")]])

    def refused(path: str) -> bytes:
        raise PermissionError(path)

    monkeypatch.setattr(folders.storage, "read_bytes", refused)
    with pytest.raises(PermissionError):
        read_folder(folder)


COMPACT = """
import sys
from transforms.llm.compaction import compact_folder
while True:
    compact_folder(sys.argv[1])
"""


def test_killed_at_any_moment_beside_a_run_that_writes(tmp_path: Path) -> None:
    folder = str(tmp_path / "p-00000")
    written: dict[str, tuple[int, str]] = {}
    for kill in range(6):
        with subprocess.Popen(
            [sys.executable, "-c", COMPACT, folder],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        ) as process:
            number = 0
            until = time.monotonic() + 1.5 + kill * 0.037
            while time.monotonic() < until:
                cache = PartitionCache(str(tmp_path), 0)
                cache.load()
                assert {key: cache.get(key) for key in written} == written
                for _ in range(20):
                    key = hashlib.sha256(b"%d %d" % (kill, number)).hexdigest()
                    cache.put(key, "p.v1", 200, f"{kill} {number}" * 50)
                    written[key] = (200, f"{kill} {number}" * 50)
                    number += 1
                cache.close()
            process.send_signal(signal.SIGKILL)
    compact_folder(folder)
    cache = PartitionCache(str(tmp_path), 0)
    cache.load()
    assert {key: cache.get(key) for key in written} == written
    assert len(cache) == len(written) > 100
    assert not cache.faults
    shutil.rmtree(folder)
