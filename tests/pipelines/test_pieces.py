"""What travels between steps is pieces of a bounded size, never a whole partition as one value."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import polars as pl
import pytest

from tests.cluster.runs import METRICINSTRUCT, PROSOCIAL, Dataset, shard_bytes, with_cache_of
from transforms import partitions
from transforms.frames import split_frame, to_ipc
from transforms.llm.fake_endpoint.server import FakeEndpoint
from transforms.partitions import FrameCoder

#: Far less than a partition has.
MOST = 4096


@pytest.mark.parametrize("dataset", [PROSOCIAL, METRICINSTRUCT], ids=lambda one: one.name)
def test_partitions_travel_in_small_pieces_and_come_out_the_same(
    dataset: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pieces: list[pl.DataFrame] = []
    whole: list[pl.DataFrame] = []

    def piece(frame: pl.DataFrame) -> bytes:
        pieces.append(frame)
        return to_ipc(frame)

    def as_one_value(self: FrameCoder, frame: pl.DataFrame) -> bytes:
        whole.append(frame)
        return to_ipc(frame)

    with FakeEndpoint() as endpoint:
        output = tmp_path / "output"
        expected = dataset.mint(dataset.arguments(endpoint.base_url, output))
        other = with_cache_of(output, tmp_path / "other", dataset.name)
        monkeypatch.setattr(partitions, "split_frame", partial(split_frame, max_bytes=MOST))
        monkeypatch.setattr(partitions, "to_ipc", piece)
        monkeypatch.setattr(FrameCoder, "encode", as_one_value)
        result = dataset.mint(dataset.arguments(endpoint.base_url, other))
    assert shard_bytes(result.path) == shard_bytes(expected.path)
    assert whole == []
    assert len(pieces) > 100
    assert all(one.height <= 1 or one.estimated_size() <= MOST for one in pieces)
