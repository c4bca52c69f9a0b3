"""Sizing: partitions, lanes and memory by the input's size."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.options import DEFAULT_PARTITIONS, MAX_PARTITIONS
from pipelines.sizing import (
    BASE_BYTES,
    MEMORY_PER_BYTE,
    PARTITION_BYTES,
    Sizing,
    input_size,
    recommend,
    render_sizing,
)
from transforms.errors import InputError
from transforms.frames import MAX_FRAME_BYTES
from transforms.llm.settings import EngineSettings

ENGINE = EngineSettings(base_url="https://model.example/v1", model="m", cache="c", concurrency=4096)
SIZES = st.integers(0, 10**12)
WORKERS = st.integers(1, 512)


@given(SIZES, WORKERS)
def test_a_partition_is_one_frame_unless_there_would_be_too_many(size: int, workers: int) -> None:
    found = recommend("prosocial", size, workers, ENGINE)
    assert DEFAULT_PARTITIONS <= found.partitions <= MAX_PARTITIONS
    if found.partitions < MAX_PARTITIONS:
        assert size / found.partitions <= PARTITION_BYTES <= MAX_FRAME_BYTES
        assert found.partitions >= 8 * workers


@given(SIZES, SIZES, st.integers(2, 512))
def test_more_input_needs_no_less(one: int, other: int, workers: int) -> None:
    small, large = (recommend("prosocial", size, workers, ENGINE) for size in sorted((one, other)))
    assert small.partitions <= large.partitions
    less, more = (
        recommend("prosocial", size, workers, ENGINE, 64).memory for size in sorted((one, other))
    )
    assert less <= more


@given(st.integers(10**9, 10**12))
def test_more_workers_need_less_memory_each(size: int) -> None:
    needed = [recommend("prosocial", size, 2**n, ENGINE).memory for n in range(1, 9)]
    assert needed == sorted(needed, reverse=True)


@pytest.mark.parametrize("dataset", MEMORY_PER_BYTE)
def test_one_process_holds_everything(dataset: str) -> None:
    found = recommend(dataset, 10**9, 1, ENGINE)
    assert found.lanes is None
    assert found.memory == BASE_BYTES + MEMORY_PER_BYTE[dataset] * 10**9


@pytest.mark.parametrize(
    ("dataset", "input_bytes", "measured"),
    [  # benchmarks/assemble.py at the released size and at a tenth of it: input, peak memory
        ("prosocial", 217_000_000, 1_100_000_000),
        ("prosocial", 21_700_000, 610_000_000),
        ("metricinstruct", 53_000_000, 940_000_000),
        ("metricinstruct", 5_300_000, 620_000_000),
    ],
)
def test_the_memory_told_is_what_was_measured(
    dataset: str, input_bytes: int, measured: int
) -> None:
    told = recommend(dataset, input_bytes, 1, ENGINE).memory
    assert measured <= 1.02 * told
    assert told <= 1.2 * measured


def test_lanes_have_enough_of_each_limit() -> None:
    few = EngineSettings(base_url="", model="m", cache="c", concurrency=64, tpm=50_000)
    assert recommend("prosocial", 10**9, 8, few).lanes == 5
    assert recommend("prosocial", 10**9, 8, ENGINE).lanes == 32


def test_files_that_are_compressed_are_taken_for_more(tmp_path: Path) -> None:
    plain, packed = tmp_path / "a.csv", tmp_path / "b.csv.gz"
    plain.write_bytes(b"x" * 100)
    packed.write_bytes(b"x" * 10)
    assert input_size([str(plain), str(packed)]) == 140
    for name in ("c.parquet", "c.pq", "c.PARQUET"):
        (tmp_path / name).write_bytes(b"x" * 10)
        assert input_size([str(tmp_path / name)]) == 40
    with pytest.raises(InputError, match="no such file"):
        input_size([str(tmp_path / "c.csv")])


def test_a_dry_runs_line() -> None:
    local = Sizing(217_000_000, 1, 32, None, 1_251_000_000)
    assert render_sizing(local, 16, begun=True) == (
        "size: 217.0 MB of input suit --partitions 32 (this dataset was begun with 16); this "
        "process needs about 1.3 GB of memory"
    )
    cluster = Sizing(374_000_000_000, 64, 4096, 256, 13_000_000_000)
    assert render_sizing(cluster, 4096, begun=False) == (
        "size: 374.0 GB of input suit --partitions 4096 and --lanes 256; each of 64 worker "
        "processes needs about 13.0 GB of memory"
    )
