"""Whole runs in rough weather: all faults of an endpoint at once, kill -9 at random moments."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from transforms.llm.fake_endpoint.faults import FAULTS
from transforms.llm.fake_endpoint.latency import uniform
from transforms.llm.fake_endpoint.server import FakeEndpoint

ROOT = Path(__file__).resolve().parents[2]
ENVIRONMENT = {
    **{name: value for name, value in os.environ.items() if not name.startswith("OPENAI_")},
    "PYTHONPATH": str(ROOT),
    "HF_HUB_OFFLINE": "1",
}

#: Shares of requests. All together a third of the requests meet a fault.
SHARES = {
    **dict.fromkeys(("429", "429_seconds", "429_date", "duplicate_id", "wrong_model"), 0.01),
    **dict.fromkeys(("500", "503", "hang", "cut", "slow", "fewer_choices"), 0.02),
    **dict.fromkeys(("refusal", "content_filter"), 0.02),
    **dict.fromkeys(("truncated", "malformed", "schema"), 0.05),
}
KEYS, RPM, IN_FLIGHT = 10_000, 11_000, 64

#: What a call that failed for good ends in, and what another run may mend.
DEAD = {"refused", "content_filter", "truncated", "bad_json", "schema"}
WAITING = {"rate_limited", "timeout", "server"}


@contextlib.contextmanager
def fake_endpoint(*options: str) -> Iterator[str]:
    """Run ``remint fake-endpoint`` and give its base URL."""
    with remint("fake-endpoint", *options) as process:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
        process.terminate()
        process.communicate(timeout=60)


def remint(*arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "pipelines.cli", *arguments],
        cwd=ROOT,
        env=ENVIRONMENT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finished(process: subprocess.Popen[str]) -> str:
    with process:
        output, told = process.communicate(timeout=600)
    assert process.returncode == 0, told[-4000:]
    return output


def counts_of(base_url: str) -> dict[str, Any]:
    with urllib.request.urlopen(base_url.removesuffix("/v1") + "/admin/counts") as response:
        found: dict[str, Any] = json.load(response)
    return found


def rows(version: Path, configuration: str) -> pl.DataFrame:
    return pl.read_parquet(version / configuration / "*.parquet")


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_every_fault_at_once(tmp_path: Path) -> None:
    inputs = tmp_path / "mine.train.jsonl"
    with inputs.open("w") as file:
        for number in range(KEYS):
            text = f"A storm closed the harbour of town {number} for {number % 30 + 2} days."
            output = f"The harbour number {number} was closed by a strong storm last winter."
            file.write(json.dumps({"text": text, "out": output, "who": "birch"}) + "\n")
    filters = tmp_path / "filters.yaml"
    filters.write_text("near_duplicate: {level: off}\nerror_free_share: {level: off}\n")
    faults = [part for name, share in SHARES.items() for part in ("--fault", f"{name}={share}")]
    limits = ("--rpm", str(RPM), "--latency", "lognormal:0.03:0.8")
    with fake_endpoint(*faults, *limits, "--retry-after", "0.1", "--slow", "0.5") as base_url:
        finished(
            remint(
                *("metricinstruct", "--sources", f"mine={inputs}", "--output", str(tmp_path / "o")),
                *("--field-map", "mine:task=summarization,input_context=text,hypothesis=out"),
                *("--instruction", "mine=Write a summary of the text.", "--choice", "mine=all"),
                *("--analysis", "one_step", "--filters", str(filters), "--partitions", "4"),
                *("--model", "fake", "--base-url", base_url, "--retries", "1"),
                *("--rpm", str(RPM), "--concurrency", str(IN_FLIGHT), "--timeout", "2"),
            )
        )
        counts = counts_of(base_url)
    version = tmp_path / "o" / "metricinstruct" / "v0001"
    ledger = json.loads((version / "ledger.json").read_text())

    # Every fault was met, more requests came than a minute may see, and no minute saw them.
    assert set(counts["faults"]) == set(FAULTS)
    assert counts["requests"] > RPM
    assert 0 < counts["window"]["requests"]["greatest"] <= RPM
    assert counts["peak"] <= IN_FLIGHT

    # Every class of failure has its rows where it should: dead, or waiting for another run.
    dead, waiting = rows(version, "dead"), rows(version, "waiting")
    assert set(dead["error_class"]) == DEAD
    assert set(waiting["error_class"]) == WAITING
    assert set(waiting["waits_for"]) == {"call"}

    # Every key is published, rejected, dead or waiting, and none of them twice.
    rejected = rows(version, "rejected").filter(pl.col("unit") != "error")
    published = rows(version, "provenance")
    keys = [*published["key"], *rejected["key"], *dead["key"], *waiting["key"]]
    assert len(keys) == len(set(keys)) == KEYS
    assert published.height > 0.6 * KEYS
    assert ledger["closes"]
    assert ledger["stages"]["analyses"]["in"] == KEYS
    assert ledger["stages"]["analyses"]["out"]["dead"] == dead.height
    assert ledger["stages"]["analyses"]["out"]["waiting"] == waiting.height

    # What the engine counted is what the endpoint counted.
    (calls,) = ledger["calls"]
    assert calls["calls_sent"] == counts["requests"]
    assert set(calls["class_shares"]) == {"ok"} | DEAD | WAITING
    assert 0.01 < calls["latency"]["p50"] < calls["latency"]["p99"] < 60


class Killed:
    """A run that is killed at random moments and begun anew each time."""

    def __init__(self, endpoint: FakeEndpoint, command: list[str], cache: Path) -> None:
        self.endpoint, self.command, self.cache = endpoint, command, cache
        self.lost = 0

    def kill(self, moment: Callable[[], bool], delay: float) -> None:
        """Begin a run, and kill it ``delay`` seconds after the ``moment`` has come."""
        before, kept = self.endpoint.requests, self.kept()
        with remint(*self.command) as process:
            while not moment():
                assert process.poll() is None, process.communicate()[1][-4000:]
                time.sleep(0.002)
            time.sleep(delay)
            process.send_signal(signal.SIGKILL)
            process.communicate(timeout=60)
        # What was asked for and not kept was in flight, or its answer was on its way.
        lost = self.endpoint.requests - before - (self.kept() - kept)
        assert 0 <= lost <= 2 * KILLED_IN_FLIGHT
        self.lost += lost

    def kept(self) -> int:
        """Return how many answers the cache holds; the last record may be torn."""
        return sum(path.read_bytes().count(b"\n") for path in self.cache.rglob("*.jsonl"))


KILLS, KILLED_IN_FLIGHT = 20, 4


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_kill_9_at_twenty_moments(tmp_path: Path) -> None:
    source = random.Random(5)
    seeds = tmp_path / "seeds.jsonl"
    texts = [f"hiding the broken vase number {n} from my aunt" for n in range(40)]
    seeds.write_text("".join(json.dumps({"situation": text}) + "\n" for text in texts))

    def command(output: Path, base_url: str) -> list[str]:
        return [
            *("prosocial", "--seeds", f"mine={seeds}", "--output", str(output)),
            *("--crowd", "llm", "--partitions", "3", "--model", "fake", "--base-url", base_url),
            *("--concurrency", str(KILLED_IN_FLIGHT)),
        ]

    with FakeEndpoint(latency=uniform(0.0, 0.02)) as endpoint:
        finished(remint(*command(tmp_path / "undisturbed", endpoint.base_url)))
        calls, undisturbed = endpoint.requests, dict(endpoint.completed)
        assert calls > 20 * KILLS
        output = tmp_path / "killed" / "prosocial"
        killed = Killed(endpoint, command(output.parent, endpoint.base_url), output / "cache")
        for share in sorted(source.random() for _ in range(KILLS - 1)):
            goal = round(0.97 * share * calls)
            killed.kill(lambda goal=goal: killed.kept() >= goal, source.uniform(0.0, 0.05))
        killed.kill(lambda: any(output.glob("v*/*/*.parquet")), 0.0)
        assert not list(output.glob("v*/manifest.json"))
        told = finished(remint(*killed.command))

        # Each call was made once, but for those that a kill took.
        assert endpoint.requests == 2 * calls + killed.lost
        assert killed.kept() == calls
        again = {
            body: number - 2 * undisturbed[body]
            for body, number in endpoint.completed.items()
            if number > 2 * undisturbed[body]
        }
        assert sum(again.values()) <= killed.lost
    assert "published version" in told
    (version,) = (path.parent for path in output.glob("v*/manifest.json"))
    assert shards(version) == shards(tmp_path / "undisturbed" / "prosocial" / "v0001")


def shards(version: Path) -> dict[str, bytes]:
    found = {
        str(path.relative_to(version)): path.read_bytes() for path in version.rglob("*.parquet")
    }
    assert found
    return found
