"""A killed run repeats only what was in flight."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from transforms.llm.fake_endpoint.latency import constant
from transforms.llm.fake_endpoint.server import FakeEndpoint

ROOT = Path(__file__).resolve().parents[3]
KEYS, IN_FLIGHT = 120, 6

RUN = f"""
import sys
from transforms.llm.engine import engine
from transforms.llm.prompts import Prompt, Sampling
from transforms.llm.settings import EngineSettings

PROMPT = Prompt(
    id="u.v1", hash="", sampling=Sampling(), user="{{{{ situation }}}}",
    schema={{"type": "object", "properties": {{"u": {{"type": "string"}}}}}},
    prefix=({{"role": "system", "content": "x"}},),
)

async def work(situation, caller):
    first = await caller(PROMPT, {{"situation": situation}})
    second = await caller(PROMPT, {{"situation": first.data["u"] + situation}})
    return second.data["u"]

calls = engine(EngineSettings(sys.argv[1], "fake", sys.argv[2], concurrency={IN_FLIGHT}))
futures = [
    calls.submit(partition, [f"situation {{n}} of {{partition}}" for n in range({KEYS // 3})], work)
    for partition in range(3)
]
print([future.result() for future in futures])
"""


def run(endpoint: FakeEndpoint, cache: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", RUN, endpoint.base_url, str(cache)],
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )


def cached(cache: Path) -> int:
    return sum(path.read_bytes().count(b"\n") for path in cache.rglob("*.jsonl"))


def test_no_finished_call_is_repeated_after_kill_9(tmp_path: Path) -> None:
    with FakeEndpoint(latency=constant(0.01)) as endpoint:
        cache = tmp_path / "cache"
        for finished in (30, 170):
            with run(endpoint, cache) as process:
                while endpoint.answered < finished:
                    time.sleep(0.001)
                process.send_signal(signal.SIGKILL)
                process.wait(60)
            kept, asked = cached(cache), endpoint.requests
            assert finished <= asked
            assert asked - kept <= 2 * IN_FLIGHT  # of both killed runs together
        with run(endpoint, cache) as process:
            output, _ = process.communicate(timeout=120)
        assert process.returncode == 0
        assert endpoint.requests == asked + 2 * KEYS - kept
        assert cached(cache) == 2 * KEYS == len(endpoint.seen)
        assert sum(count - 1 for count in endpoint.seen.values()) == asked - kept
        # The same as of a run that nobody disturbed.
        with run(endpoint, tmp_path / "other") as process:
            assert process.communicate(timeout=120)[0] == output
