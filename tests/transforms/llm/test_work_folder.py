"""The work folder: partitions wait in it as they are, and a run leaves none."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from tests.transforms.llm.memory_filesystem import MemoryFileSystem
from transforms.llm.settings import EngineSettings
from transforms.llm.work_folder import (
    leave_partition,
    new_work_folder,
    remove_work_folders,
    take_partition,
)

Make = Callable[..., EngineSettings]


@settings(deadline=None, max_examples=30)
@given(st.lists(st.integers(0, 99), max_size=20))
def test_a_partition_is_taken_as_it_was_left(column: list[int]) -> None:
    MemoryFileSystem.objects = {}
    frames = {"a": pl.DataFrame({"x": column}, {"x": pl.Int64}), "b": pl.DataFrame({"y": ["1"]})}
    leave_partition("testmemory://bucket/work/run", 7, frames)
    taken = take_partition("testmemory://bucket/work/run", 7)
    assert sorted(taken) == ["a", "b"]
    for name, frame in frames.items():
        assert_frame_equal(taken[name], frame)


def test_a_partition_that_is_left_again_is_there_once(tmp_path: Path) -> None:
    frames = {"a": pl.DataFrame({"x": range(1_500_000)})}  # of several pieces
    for _ in range(2):
        leave_partition(str(tmp_path), 3, frames)
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["p-00003.zip"]
    assert_frame_equal(take_partition(str(tmp_path), 3)["a"], frames["a"])


def test_a_partition_that_nobody_left_is_a_fault(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="p-00003"):
        take_partition(str(tmp_path), 3)


def test_a_run_has_a_folder_of_its_own_and_leaves_none(settings: Make, tmp_path: Path) -> None:
    given = settings("http://127.0.0.1:1/v1", lanes=2)
    first, second = new_work_folder(given), new_work_folder(given)
    assert first != second
    assert first.startswith(f"{tmp_path}/work/")
    leave_partition(first, 0, {})  # of a run that was killed
    leave_partition(second, 0, {})
    remove_work_folders(settings("http://127.0.0.1:1/v1", lanes=2, work=second))
    assert not (tmp_path / "work").exists()
