"""The cache survives torn records, foreign files, several writers, and object stores."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import threading
import time
from pathlib import Path

import pytest

from tests.transforms.llm.memory_filesystem import MemoryFileSystem
from transforms.llm import cache as cache_module
from transforms.llm import segments
from transforms.llm.cache import PartitionCache
from transforms.llm.records import CacheFaults


def key(number: int) -> str:
    return hashlib.sha256(b"%d" % number).hexdigest()


def filled(directory: Path, count: int, start: int = 0) -> PartitionCache:
    cache = PartitionCache(str(directory), 3)
    cache.load()
    for number in range(start, start + count):
        cache.put(key(number), "p.v1", 200, f"body {number}")
    return cache


def loaded(directory: Path) -> PartitionCache:
    cache = PartitionCache(str(directory), 3)
    cache.load()
    return cache


def segment_files(directory: Path) -> list[Path]:
    return sorted((directory / "p-00003").iterdir())


def test_a_record_is_in_the_file_when_put_returns(tmp_path: Path) -> None:
    cache = filled(tmp_path, 1)
    (line,) = segment_files(tmp_path)[0].read_text(encoding="ascii").splitlines()
    record = json.loads(line)
    assert record.pop("created").endswith("+00:00")
    assert record == {
        "version": 1,
        "key": key(0),
        "prompt": "p.v1",
        "status": 200,
        "body": "body 0",
    }
    assert cache.get(key(0)) == (200, "body 0")
    assert cache.get(key(1)) is None


@pytest.mark.parametrize("body", ["", 'quotes " \\ and\nlines\r\n', "\udcff\udc80", "ü\u2028\x00"])
def test_bodies_come_back_exactly(tmp_path: Path, body: str) -> None:
    filled(tmp_path, 0).put(key(1), "p.v1", 400, body)
    assert loaded(tmp_path).get(key(1)) == (400, body)


def test_a_torn_last_record_costs_that_record_alone(tmp_path: Path) -> None:
    filled(tmp_path, 3).close()
    (path,) = segment_files(tmp_path)
    whole = path.read_bytes()
    last = whole.rindex(b"\n", 0, -1) + 1
    for cut in range(last, len(whole)):
        path.write_bytes(whole[:cut])
        cache = loaded(tmp_path)
        assert len(cache) == 2
        assert cache.faults.torn == (1 if cut > last else 0)
        assert cache.get(key(1)) == (200, "body 1")


@pytest.mark.parametrize("damage", [(b'"status":200', b'"status":null'), (b"body 1", b'"')])
def test_a_damaged_record_is_replaced_once_and_for_all(
    tmp_path: Path, damage: tuple[bytes, bytes]
) -> None:
    filled(tmp_path, 3).close()
    (segment,) = segment_files(tmp_path)
    lines = segment.read_bytes().splitlines(keepends=True)
    segment.write_bytes(lines[0] + lines[1].replace(*damage) + lines[2])
    cache = loaded(tmp_path)
    assert cache.get(key(1)) is None
    cache.put(key(1), "p.v1", 200, "asked again")
    assert cache.get(key(1)) == (200, "asked again")
    cache.close()
    again = loaded(tmp_path)
    assert [again.get(key(number)) for number in range(3)] == [
        (200, "body 0"),
        (200, "asked again"),
        (200, "body 2"),
    ]


def test_damaged_foreign_and_newer_records_are_passed_over_and_counted(tmp_path: Path) -> None:
    filled(tmp_path, 2).close()
    (path,) = segment_files(tmp_path)
    first, second = path.read_bytes().splitlines(keepends=True)
    newer = first.replace(b'"version":1', b'"version":2')
    garbled = second.replace(b'"status":200', b'"status":2x0')
    path.write_bytes(b"not a record\n" + newer + first[:-5] + b"\n" + garbled + first)
    (path.parent / "notes.txt").write_text("mine")
    cache = loaded(tmp_path)
    assert cache.faults == CacheFaults(torn=1, foreign=3)
    assert cache.get(key(0)) == (200, "body 0")
    assert cache.get(key(1)) is None  # only seen to be damaged when it is parsed
    assert cache.faults.torn == 2
    assert key(1) not in cache


def test_two_writers_have_segments_of_their_own_and_the_older_answer_counts(tmp_path: Path) -> None:
    one, other = filled(tmp_path, 0), filled(tmp_path, 0)
    one.put(key(1), "p.v1", 200, "one's")
    other.put(key(1), "p.v1", 200, "other's")
    other.put(key(2), "p.v1", 200, "two")
    assert len(segment_files(tmp_path)) == 2
    cache = loaded(tmp_path)
    assert cache.get(key(1)) == (200, "one's")
    assert len(cache) == 2
    assert cache.faults == CacheFaults(duplicates=1)


def test_threads_may_write_at_once(tmp_path: Path) -> None:
    cache = filled(tmp_path, 0)

    def write(start: int) -> None:
        for number in range(start, start + 100):
            cache.put(key(number), "p.v1", 200, "x" * 500)

    threads = [threading.Thread(target=write, args=(100 * n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    again = loaded(tmp_path)
    assert len(again) == 400
    assert not again.faults


def test_a_failed_write_is_raised_and_the_next_record_starts_another_segment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = filled(tmp_path, 1)
    write = segments.os.write

    def full(file: int, data: bytes) -> int:
        write(file, data[:9])
        raise OSError("disk full")

    monkeypatch.setattr(segments.os, "write", full)
    with pytest.raises(OSError, match="disk full"):
        cache.put(key(1), "p.v1", 200, "lost")
    monkeypatch.undo()
    assert key(1) not in cache
    cache.put(key(2), "p.v1", 200, "kept")
    again = loaded(tmp_path)
    assert len(segment_files(tmp_path)) == 2
    assert again.faults == CacheFaults(torn=1)
    assert again.get(key(2)) == (200, "kept")


def test_failed_writes_leave_no_file_open_or_locked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(file: int, data: bytes) -> int:
        raise OSError("disk full")

    cache = filled(tmp_path, 0)
    monkeypatch.setattr(segments.os, "write", full)
    open_file, close_file = os.open, os.close
    held: set[int] = set()

    def opening(path: str, *given: int) -> int:
        file = open_file(path, *given)
        if str(path).startswith(str(tmp_path)):
            held.add(file)
        return file

    def closing(file: int) -> None:
        held.discard(file)
        close_file(file)

    monkeypatch.setattr(segments.os, "open", opening)
    monkeypatch.setattr(segments.os, "close", closing)
    for number in range(3):
        with pytest.raises(OSError, match="disk full"):
            cache.put(key(number), "p.v1", 200, "lost")
    assert len(segment_files(tmp_path)) == 3
    assert not held
    assert not any(segments.is_being_written(str(path)) for path in segment_files(tmp_path))


def remote() -> PartitionCache:
    cache = PartitionCache("testmemory://bucket/cache", 3)
    cache.load()
    return cache


def test_on_object_stores_records_become_objects(memory: type[MemoryFileSystem]) -> None:
    cache = remote()
    for number in range(5):
        cache.put(key(number), "p.v1", 200, f"body {number}")
    cache.close()
    assert [name[: name.rindex("/")] for name in memory.objects] == [
        "testmemory://bucket/cache/p-00003"
    ]
    again = remote()
    assert len(again) == 5
    assert again.get(key(4)) == (200, "body 4")


def test_on_object_stores_work_is_flushed_while_it_goes_on(
    memory: type[MemoryFileSystem], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segments, "FLUSH_BYTES", 1000)
    memory.refusals = 1  # the first flush fails and is made up for
    monkeypatch.setattr(segments, "FLUSH_SECONDS", 0.01)
    cache = remote()
    cache.put(key(0), "p.v1", 200, "x" * 2000)
    while not memory.objects:
        time.sleep(0.01)
    cache.put(key(1), "p.v1", 200, "y")
    cache.close()
    # Both objects have become one, which sorts where they did.
    (name,) = memory.objects
    assert name.endswith("-000002.merged.jsonl")
    again = remote()
    assert len(again) == 2
    assert again.faults == CacheFaults()


def test_objects_that_cannot_be_merged_stay(
    memory: type[MemoryFileSystem], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segments, "FLUSH_SECONDS", 0.01)
    cache = remote()
    for number in range(2):
        cache.put(key(number), "p.v1", 200, "x")
        while len(memory.objects) <= number:
            time.sleep(0.01)
    memory.refusals = 1
    cache.close()
    assert len(memory.objects) == 2
    assert len(remote()) == 2


def test_many_objects_are_merged_while_work_goes_on(
    memory: type[MemoryFileSystem], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segments, "FLUSH_SECONDS", 0.01)
    monkeypatch.setattr(segments, "MERGE_BYTES", 1000)
    cache = remote()
    for number in range(2):
        cache.put(key(number), "p.v1", 200, "x" * 600)
        while not any(f"-00000{number}." in name for name in memory.objects):
            time.sleep(0.01)
    while len(memory.objects) > 1:
        time.sleep(0.01)
    assert len(remote()) == 2
    cache.close()
    assert len(memory.objects) == 1


def test_a_merge_that_takes_long_is_no_store_that_takes_nothing(
    memory: type[MemoryFileSystem], monkeypatch: pytest.MonkeyPatch
) -> None:
    merging, go_on = threading.Event(), threading.Event()
    delete = MemoryFileSystem.delete

    def slow(self: MemoryFileSystem, paths: list[str]) -> None:
        merging.set()
        assert go_on.wait(60)
        delete(self, paths)

    monkeypatch.setattr(MemoryFileSystem, "delete", slow)
    monkeypatch.setattr(segments, "FLUSH_SECONDS", 0.01)
    monkeypatch.setattr(segments, "MERGE_BYTES", 1000)
    monkeypatch.setattr(cache_module, "HOLD_SECONDS", 0.0)
    cache = remote()
    for number in range(2):
        cache.put(key(number), "p.v1", 200, "x" * 600)
        while not any(f"-00000{number}." in name for name in memory.objects):
            time.sleep(0.01)
    assert merging.wait(60)
    cache.put(key(2), "p.v1", 200, "put while the merge goes on")
    assert not cache.is_behind
    go_on.set()
    cache.close()
    assert len(remote()) == 3


@pytest.fixture
def quick_store(memory: type[MemoryFileSystem], monkeypatch: pytest.MonkeyPatch) -> None:
    """Seconds of a store's outage are hundredths."""
    for name in ("FLUSH_SECONDS", "_LONGEST_PAUSE"):
        monkeypatch.setattr(segments, name, 0.01)


@pytest.mark.usefixtures("quick_store")
def test_closing_waits_for_a_store_that_comes_back(memory: type[MemoryFileSystem]) -> None:
    memory.refusals = 5
    cache = remote()
    for number in range(3):
        cache.put(key(number), "p.v1", 200, f"body {number}")
    cache.close()
    assert memory.refusals == 0
    assert [remote().get(key(number)) for number in range(3)] == [
        (200, f"body {number}") for number in range(3)
    ]


@pytest.mark.usefixtures("quick_store")
def test_what_a_store_has_not_taken_for_too_long_is_told_to_be_lost(
    memory: type[MemoryFileSystem], monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (cache_module, segments):
        monkeypatch.setattr(module, "LONGEST_SECONDS", 0.2)
    monkeypatch.setattr(cache_module, "HOLD_SECONDS", 0.05)
    memory.refusals = 10**6
    cache = remote()
    assert not cache.is_behind
    asyncio.run(cache.caught_up())
    cache.put(key(0), "p.v1", 200, "a")
    cache.put(key(1), "p.v1", 200, "b")
    while not cache.is_behind:
        time.sleep(0.01)
    with pytest.raises(OSError, match="nothing could be written for"):
        asyncio.run(cache.caught_up())
    with pytest.raises(OSError, match="2 answers are lost"):
        cache.close()
