"""Lanes over processes: partitions travel whole, and together no process exceeds the limit."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import apache_beam as beam
import polars as pl
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.testing.util import assert_that, equal_to
from apache_beam.transforms.window import GlobalWindow
from apache_beam.utils.timestamp import Timestamp

from tests.lane_work import AskOfAll, lane_settings, texts
from transforms.llm.fake_endpoint.latency import constant
from transforms.llm.fake_endpoint.replies import Reply
from transforms.llm.fake_endpoint.server import FakeEndpoint
from transforms.llm.fake_endpoint.windows import RateLimits
from transforms.llm.lane_streaming import CallLanes, MakeCalls
from transforms.llm.prices import Price
from transforms.llm.work_folder import leave_partition
from transforms.llm.worker_reports import OtherReports
from transforms.partitions import register_frame_coder

ROOT = Path(__file__).resolve().parents[3]
#: A "minute" of two seconds holds so many requests; the endpoint counts and refuses none.
RPM = 24
COUNTED = RateLimits(seconds=2.0)
#: What a worker process is told of its settings.
SETTINGS = ("base_url", "model", "cache", "rpm", "lanes", "rate_window", "rate_margin")


def all_ok_by_two_processes(rows: list[tuple[str, int]]) -> None:
    assert [call_class for call_class, _ in rows] == ["ok"] * 72
    assert len({process for _, process in rows}) == 2


def worker(
    endpoint: FakeEndpoint, cache: Path, partitions: list[int], number: int, **more: Any
) -> subprocess.Popen[str]:
    calls = {**vars(lane_settings(endpoint.base_url, str(cache), RPM, 4)), **more}
    told = {name: calls[name] for name in (*SETTINGS, *more)}
    given = [json.dumps(told), str(number), *map(str, partitions)]
    return subprocess.Popen(
        [sys.executable, "-m", "tests.lane_work", *given],
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )


@pytest.mark.parametrize("lanes", [None, 3])
def test_a_pipeline_gives_out_every_partition(lanes: int | None, tmp_path: Path) -> None:
    register_frame_coder()
    partitions = [(p, {"texts": pl.DataFrame({"text": texts(p, p)})}) for p in range(1, 9)]
    with FakeEndpoint() as endpoint:
        calls = lane_settings(endpoint.base_url, str(tmp_path), 6000, lanes)
        with beam.Pipeline(runner="FnApiRunner", options=PipelineOptions([])) as pipeline:
            classes = (
                pipeline
                | beam.Create(partitions)
                | "Ask" >> MakeCalls(calls, AskOfAll())
                | beam.MapTuple(lambda number, frames: (number, frames["classes"].height))
            )
            assert_that(classes, equal_to([(p, p) for p in range(1, 9)]))
        assert endpoint.requests == 36


def test_a_lane_that_cannot_be_begun_leaves_no_calls_behind(tmp_path: Path) -> None:
    with FakeEndpoint(lambda index, body: Reply(hang=True)) as endpoint:
        calls = lane_settings(endpoint.base_url, str(tmp_path), 6000, 4)
        assert calls.work is not None
        leave_partition(calls.work, 0, {"texts": pl.DataFrame({"text": texts(0, 3)})})
        function = CallLanes(calls, AskOfAll())
        function.start_bundle()
        held = function._held
        with pytest.raises(OSError, match="00004"):
            list(function.process((0, [0, 4]), Timestamp(0), GlobalWindow()))
        assert [one.results.cancelled() for one in held] == [True]
        assert list(function.finish_bundle()) == []
        function.teardown()


def test_two_worker_processes_of_beam_keep_one_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    register_frame_coder()
    partitions = [(p, {"texts": pl.DataFrame({"text": texts(p, 9)})}) for p in range(8)]
    options = ["--direct_running_mode=multi_processing", "--direct_num_workers=2"]
    with FakeEndpoint(limits=COUNTED) as endpoint:
        calls = lane_settings(endpoint.base_url, str(tmp_path), RPM, 4)
        with beam.Pipeline(runner="FnApiRunner", options=PipelineOptions(options)) as pipeline:
            classes = (
                pipeline
                | beam.Create(partitions)
                | "Ask" >> MakeCalls(calls, AskOfAll())
                | beam.FlatMapTuple(lambda number, frames: frames["classes"].rows())
            )
            assert_that(classes, all_ok_by_two_processes)
        assert endpoint.requests == 72
        assert calls.work is not None
        seen, in_flight = OtherReports(calls.work).read()
        assert (seen["calls_sent"], seen["class_ok"], in_flight) == (72, 72, 0)
    assert 0 < endpoint.windows.seen[0].greatest <= RPM


def test_two_processes_with_half_of_the_lanes_each_keep_one_limit(tmp_path: Path) -> None:
    with (
        FakeEndpoint(limits=COUNTED) as endpoint,
        worker(endpoint, tmp_path, [0, 1], 18) as first,
        worker(endpoint, tmp_path, [2, 3], 18) as second,
    ):
        outputs = [process.communicate(timeout=120)[0] for process in (first, second)]
        assert endpoint.requests == 72
    assert [output.split() for output in outputs] == [["ok"] * 36] * 2
    assert 0 < endpoint.windows.seen[0].greatest <= RPM


def test_a_lane_that_is_taken_over_from_a_dead_worker_keeps_the_limit(tmp_path: Path) -> None:
    with FakeEndpoint(limits=COUNTED) as endpoint:
        with worker(endpoint, tmp_path, [0, 1, 2, 3], 12) as dying:
            while endpoint.answered < 20:
                time.sleep(0.001)
            dying.send_signal(signal.SIGKILL)
            dying.wait(60)
        before = endpoint.requests
        kept = sum(path.read_bytes().count(b"\n") for path in tmp_path.rglob("*.jsonl"))
        with worker(endpoint, tmp_path, [0, 1, 2, 3], 12) as heir:
            assert heir.communicate(timeout=120)[0].split() == ["ok"] * 48
        # The heir has made what the dead one had not finished, and nothing twice.
        assert kept > 0
        assert endpoint.requests == before + 48 - kept
    assert 0 < endpoint.windows.seen[0].greatest <= RPM


@pytest.mark.parametrize(
    "bound",
    [{"max_calls": 64}, {"max_cost": 0.6, "price": vars(Price(100.0, 100.0, 100.0))}],
    ids=["calls", "cost"],
)
def test_a_budget_holds_though_its_workers_die(bound: dict[str, Any], tmp_path: Path) -> None:
    """Two workers die one after the other; the third makes what the budget still allows."""
    given = {**bound, "rpm": None, "work": str(tmp_path / "work"), "concurrency": 4}
    arguments = (tmp_path / "cache", [0, 1, 2, 3], 40)
    with FakeEndpoint(latency=constant(0.02)) as endpoint:
        for deaths in (1, 2):
            with worker(endpoint, *arguments, **given) as dying:
                while endpoint.answered < 12 * deaths:
                    assert dying.poll() is None
                    time.sleep(0.001)
                dying.send_signal(signal.SIGKILL)
                dying.wait(60)
        with worker(endpoint, *arguments, **given) as heir:
            classes = heir.communicate(timeout=120)[0].split()
        spent = (endpoint.prompt_tokens + endpoint.completion_tokens) / 10_000
        most = (max(len(json.dumps(body)) for body in endpoint.bodies) + 50) / 10_000
        made = endpoint.requests
    assert len(classes) == 160
    assert set(classes) == {"ok", "budget"}
    # Of each lane a death forfeits at most what one lease had left, which is less than a call.
    if "max_calls" in bound:
        assert 64 - 2 * 4 <= made <= 64
    else:
        assert 0.6 - 3 * 4 * most < spent <= 0.6
