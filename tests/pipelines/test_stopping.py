"""A stopped run makes no further call, says so in a line, and is carried on by the next one."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pipelines.cli import main
from transforms.llm.fake_endpoint.latency import constant
from transforms.llm.fake_endpoint.server import FakeEndpoint

ROOT = Path(__file__).resolve().parents[2]
IN_FLIGHT = 4


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_the_calls_at_once(tmp_path: Path, number: signal.Signals) -> None:
    seeds = tmp_path / "seeds.jsonl"
    texts = [f"I told lie number {index} to my neighbour" for index in range(40)]
    seeds.write_text("".join(json.dumps({"situation": text}) + "\n" for text in texts))
    with FakeEndpoint(latency=constant(0.1)) as endpoint:
        options = [
            *("--seeds", f"mine={seeds}", "--output", str(tmp_path / "out"), "--partitions", "1"),
            *("--model", "fake", "--base-url", endpoint.base_url, "--crowd", "llm"),
        ]
        run = subprocess.Popen(
            [
                *(sys.executable, "-m", "pipelines.prosocial", *options),
                *("--concurrency", str(IN_FLIGHT)),
            ],
            cwd=ROOT,
            env={**os.environ, "OPENAI_API_KEY": "sk-secret"},
            stderr=subprocess.PIPE,
            text=True,
        )
        while endpoint.answered < 20:
            assert run.poll() is None
            time.sleep(0.01)
        before = endpoint.requests
        run.send_signal(number)
        _, told = run.communicate(timeout=60)
        assert run.returncode == 128 + number
        assert told.splitlines()[-1] == "remint prosocial: stopped; run it again to carry on"
        assert "Traceback" not in told
        assert "sk-secret" not in told
        assert endpoint.requests <= before + 2 * IN_FLIGHT
        asked = {
            json.loads(line)["key"]
            for segment in (tmp_path / "out" / "prosocial" / "cache").rglob("*.jsonl")
            for line in segment.read_text().splitlines()
        }
        assert len(asked) >= 20


def test_handlers_are_put_back(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    assert main(["versions", str(tmp_path)]) == 2
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before
    assert "holds no dataset" in capsys.readouterr().err
