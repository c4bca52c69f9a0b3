"""Skewed input neither stalls nor exhausts a worker: one key with what else a dataset has."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from transforms.llm.fake_endpoint.server import FakeEndpoint

ROOT = Path(__file__).resolve().parents[2]
SAMPLES = ROOT / "pipelines" / "prosocial" / "samples"
VOTES, OUTPUTS = 100_000, 5_000
#: Bytes that a whole run may have at its peak. Measured were 0.64 GB (votes) and 0.60 (outputs);
#: with the same rows spread evenly over many keys it had 0.56 and 0.52.
PEAK = 0.85e9

pytestmark = pytest.mark.timeout(600)


#: Runs a command and tells its peak memory. A process of its own, since a child's peak begins with
#: that of whoever starts it, and the tests' process may have grown large by now.
MEASURE = """
import resource, subprocess, sys
code = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL).returncode
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
sys.exit(code)
"""


def run(*arguments: str) -> int:
    """Run remint to its end, and return its peak memory in bytes."""
    command = [sys.executable, "-m", "pipelines.cli", *arguments, "--model", "fake"]
    told = subprocess.run(
        [sys.executable, "-c", MEASURE, *command],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert told.returncode == 0, told.stderr
    return int(told.stdout) * (1 if sys.platform == "darwin" else 1024)


def write_lines(path: Path, rows: Iterable[dict[str, Any]]) -> Path:
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return path


def published(output: Path, configuration: str) -> pl.DataFrame:
    (version,) = output.glob("*/v0001")
    return pl.concat(
        [pl.read_parquet(path) for path in sorted((version / configuration).glob("*.parquet"))]
    )


def test_a_seed_with_100_000_votes(tmp_path: Path) -> None:
    sample = SAMPLES / "crowd" / "annotations-sample.jsonl"
    samples = [json.loads(line) for line in sample.read_text().splitlines()]
    votes = (
        {
            "key": samples[0]["key"],
            "turn": 0,
            "annotator": f"rater-{number}",
            "vote": samples[0]["vote"],
            "reason": f"{samples[0]['reason']} That was seen by rater number {number}.",
        }
        for number in range(VOTES)
    )
    with FakeEndpoint() as endpoint:
        peak = run(
            "prosocial",
            *("--seeds", f"socialchemistry={SAMPLES}/social-chem-101.sample.tsv"),
            *(f"sbic={SAMPLES}/SBIC.v2.sample.*.csv", f"ethics={SAMPLES}/cm_*.csv"),
            *("--responses", f"{SAMPLES}/crowd/responses-*.jsonl"),
            *("--annotations", str(write_lines(tmp_path / "votes.jsonl", votes)), "--crowd", "llm"),
            *("--output", str(tmp_path / "output"), "--base-url", endpoint.base_url),
        )
    rejected = published(tmp_path / "output", "rejected").filter(pl.col("rule") == "fourth_vote")
    assert rejected["key"].to_list() == [samples[0]["key"]] * (VOTES - 3)
    assert peak < PEAK


def test_an_input_with_5_000_outputs(tmp_path: Path) -> None:
    candidates = [
        {
            "decoding_method": "top_p_sampling",
            "model": f"model-{number}",
            "scores": {},
            "text": f"Take {number} maps, {number * 7 % 101} boats and {number % 13} coats.",
        }
        for number in range(OUTPUTS)
    ]
    question = {"id": "walks/1", "instruction": "Name things to take on a walk.", "input": ""}
    source = {**question, "output": "A map and a coat.", "candidates": candidates}
    with FakeEndpoint() as endpoint:
        peak = run(
            "metricinstruct",
            *("--sources", f"mixinstruct={write_lines(tmp_path / 'source.jsonl', [source])}"),
            *("--choice", "mixinstruct=all"),
            *("--output", str(tmp_path / "output"), "--base-url", endpoint.base_url),
        )
        assert endpoint.requests >= OUTPUTS
    kept, rejected = (published(tmp_path / "output", name) for name in ("provenance", "rejected"))
    assert kept.height + rejected.height == OUTPUTS
    assert peak < PEAK
