"""Runs from end to end: what a version holds, and runs that are killed half-way."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl

from transforms.llm.fake_endpoint.server import FakeEndpoint
from transforms.publishing.publish import PublishResult

ROOT = Path(__file__).resolve().parents[1]


def ledger_of(result: PublishResult) -> dict[str, Any]:
    """Return the stages of a version's ledger, which closes."""
    ledger: dict[str, Any] = json.loads((Path(result.path) / "ledger.json").read_text())
    assert ledger["closes"]
    stages: dict[str, Any] = ledger["stages"]
    return stages


def rows(result: PublishResult, configuration: str) -> pl.DataFrame:
    """Return all rows of a version's configuration."""
    folder = "data" if configuration == "default" else configuration
    return pl.read_parquet(Path(result.path) / folder / "*.parquet")


def shard_bytes(result: PublishResult) -> dict[str, bytes]:
    """Return the bytes of every shard of a version by its path there."""
    return {
        str(file.relative_to(result.path)): file.read_bytes()
        for file in sorted(Path(result.path).rglob("*.parquet"))
    }


def killed_after(answers: int, endpoint: FakeEndpoint, command: Sequence[str]) -> None:
    """Run ``remint`` in a process of its own and kill it once so many calls were answered.

    Args:
        answers: fewer than the run needs.
        endpoint: which it calls.
        command: the words behind ``remint``.
    """
    run = subprocess.Popen(
        [sys.executable, "-m", "pipelines.cli", *command],
        cwd=ROOT,
        env={**os.environ, "OPENAI_API_KEY": "none"},
        stderr=subprocess.DEVNULL,
    )
    while endpoint.answered < answers:
        assert run.poll() is None, f"ended by itself after {endpoint.answered} calls"
        time.sleep(0.01)
    run.send_signal(signal.SIGKILL)
    assert run.wait() == -signal.SIGKILL


def cached_calls(dataset: Path) -> int:
    """Return how many different calls the cache of a dataset has the answers of.

    One request tells its samples apart by the cache's key alone, so records are counted.
    """
    return len(
        {
            json.loads(line)["key"]
            for segment in (dataset / "cache").rglob("*.jsonl")
            for line in segment.read_text().splitlines()
        }
    )
