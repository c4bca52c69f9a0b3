"""Caches of others are found, read beneath one's own whatever their partitions, never written."""

from __future__ import annotations

import gc
import hashlib
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.transforms.llm.memory_filesystem import MemoryFileSystem
from transforms.errors import InputError
from transforms.llm import shared_cache
from transforms.llm.cache import PartitionCache
from transforms.llm.calls import Answer, Caller
from transforms.llm.engine import Engine
from transforms.llm.fake_endpoint.server import FakeEndpoint
from transforms.llm.layers import layered_cache
from transforms.llm.prompts import Prompt
from transforms.llm.settings import EngineSettings
from transforms.llm.shared_cache import (
    SharedCache,
    find_cache,
    find_shared_caches,
    shared_records,
)
from transforms.publishing import storage


def dataset(place: str, partitions: int) -> SharedCache:
    settings = {"settings": {"partitions": partitions}}
    storage.write_bytes(storage.join(place, "dataset.json"), json.dumps(settings).encode())
    return SharedCache(storage.join(place, "cache"), partitions)


def put(cache: SharedCache, partition: int, name: str, body: str) -> str:
    key = hashlib.sha256(name.encode()).hexdigest()
    partition_cache = PartitionCache(cache.directory, partition)
    partition_cache.load()
    partition_cache.put(key, "p.v1", 200, body)
    partition_cache.close()
    return key


def test_a_cache_is_found_by_its_dataset_or_by_itself(tmp_path: Path) -> None:
    cache = dataset(str(tmp_path / "out"), 7)
    for place in ("out", "out/", "out/cache", "out/cache/"):
        assert find_cache(f"{tmp_path}/{place}") == cache


def test_on_object_stores_too(memory: type[MemoryFileSystem]) -> None:
    cache = dataset("testmemory://bucket/out", 7)
    assert find_cache("testmemory://bucket/out") == cache
    assert find_cache("testmemory://bucket/out/cache/") == cache
    key = put(cache, 3, "a", "x")
    assert shared_records(cache, 3, 7).get(key) == (200, "x")


@pytest.mark.parametrize("content", [None, "", "[]", '{"settings": {"partitions": "7"}}'])
def test_where_none_is_or_nothing_tells_its_partitions_it_is_refused(
    content: str | None, tmp_path: Path
) -> None:
    if content is not None:
        (tmp_path / "dataset.json").write_text(content)
    with pytest.raises(InputError, match=r"dataset\.json"):
        find_cache(str(tmp_path))


def test_ones_own_cache_and_one_named_twice_are_refused(tmp_path: Path) -> None:
    cache = dataset(str(tmp_path), 7)
    with pytest.raises(InputError, match="own cache"):
        find_shared_caches([str(tmp_path)], cache.directory)
    with pytest.raises(InputError, match="twice"):
        find_shared_caches([str(tmp_path), cache.directory], "elsewhere")


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 12), st.integers(1, 12), st.lists(st.integers(0, 1000), max_size=8))
def test_an_item_finds_its_answer_whatever_the_partitions_of_the_other_cache(
    own: int, other: int, items: list[int]
) -> None:
    MemoryFileSystem.objects = {}
    cache = SharedCache("testmemory://bucket/cache", other)
    keys = {item: put(cache, item % other, f"{item}", f"{item}") for item in set(items)}
    gc.collect()
    for item, key in keys.items():
        assert shared_records(cache, item % own, own).get(key) == (200, f"{item}")


def test_with_the_same_partitions_one_folder_is_read_and_with_others_as_few_as_can_be(
    memory: type[MemoryFileSystem], monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []
    monkeypatch.setattr(shared_cache, "load_folder", lambda path, records: read.append(path[-2:]))
    for partition, own, other, folders in (
        (3, 16, 16, ["03"]),
        (3, 16, 64, ["03", "19", "35", "51"]),
        (19, 64, 16, ["03"]),
        (1, 4, 6, ["01", "03", "05"]),
    ):
        read.clear()
        shared_records(SharedCache("testmemory://x", other), partition, own)
        assert read == folders


def test_ones_own_answer_counts_then_the_first_shared_one_and_nothing_is_written_there(
    tmp_path: Path,
) -> None:
    own, first, second = (dataset(str(tmp_path / name), 4) for name in ("own", "first", "second"))
    keys = {}
    for name, caches in (("a", (own, first)), ("b", (first, second)), ("c", (second,))):
        for cache in caches:
            keys[name] = put(cache, 1, name, Path(cache.directory).parent.name)
    shared_files = sorted(tmp_path.glob("[fs]*/cache/*/*"))
    settings = EngineSettings(
        "http://x", "m", own.directory, shared_caches=(first, second), partitions=4
    )
    cache = layered_cache(settings, 1)
    cache.load()
    assert [cache.get(keys[name]) for name in "abc"] == [
        (200, "own"),
        (200, "first"),
        (200, "second"),
    ]
    assert all(key in cache for key in keys.values())
    cache.put("0" * 64, "p.v1", 200, "new")
    cache.close()
    assert sorted(tmp_path.glob("[fs]*/cache/*/*")) == shared_files
    assert len(list((tmp_path / "own/cache/p-00001").iterdir())) == 2


def test_a_run_makes_no_call_for_what_a_shared_cache_has(
    tmp_path: Path, prompt: Prompt, settings: Callable[..., EngineSettings]
) -> None:
    async def work(item: str, call: Caller) -> Answer:
        return await call(prompt, {"situation": item})

    with FakeEndpoint() as endpoint:
        theirs = settings(endpoint.base_url, cache=str(tmp_path / "theirs"))
        for partition, items in ((0, ["a", "b"]), (5, ["c"])):
            engine = Engine(theirs, ["none"])
            engine.submit(partition, items, work).result(30)
            engine.close()
        assert endpoint.requests == 3
        shared = SharedCache(str(tmp_path / "theirs"), 8)
        own = settings(endpoint.base_url, shared_caches=(shared,), partitions=4)
        engine = Engine(own, ["none"])
        answers = engine.submit(1, ["c", "d"], work).result(30)
        assert all(answer.ok for answer in answers)
        answers = engine.submit(0, ["a", "b"], work).result(30)
        engine.close()
        assert [answer.attempts for answer in answers] == [0, 0]
        assert endpoint.requests == 4
    assert len(list((tmp_path / "cache").rglob("*.jsonl"))) == 1
