"""The child process that serves: what it says when it can't, and that it never outlives us."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import psutil
import pytest

from transforms.errors import EndpointError
from transforms.llm.embedded import server, weights
from transforms.llm.embedded.server import EmbeddedModel, check_runtime, suitable_calls
from transforms.llm.embedded.weights import Weights

SMALLEST = "smollm2-135m-instruct"
OWNER = f"""
import sys, time
from transforms.llm.embedded.server import EmbeddedModel
model = EmbeddedModel({SMALLEST!r})
print(model.start().base_url, model.pid, flush=True)
time.sleep(600)
"""


def test_missing_runtime_names_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(EndpointError, match=r"pip install 'remint\[embedded\]'.*--base-url"):
        check_runtime()


@pytest.mark.parametrize(
    ("text", "has"),
    [
        ("processor\t: 0\nflags\t\t: fpu sse2 avx avx2 bmi2\n", True),
        ("processor\t: 0\nflags\t\t: fpu sse2 avx bmi2\n", False),
        ("processor\t: 0\n", True),
    ],
)
def test_avx2_by_what_the_system_says(tmp_path: Path, text: str, has: bool) -> None:
    information = tmp_path / "cpuinfo"
    information.write_text(text, encoding="utf-8")
    assert server._has_avx2(information) is has
    assert server._has_avx2(tmp_path / "absent") is True


@pytest.mark.parametrize(("cores", "calls"), [(1, 1), (2, 1), (4, 2), (64, 4)])
def test_calls_suit_the_cores(cores: int, calls: int) -> None:
    assert suitable_calls(cores) == calls


def test_old_processor_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: object())
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    monkeypatch.setattr(server, "_has_avx2", lambda: False)
    with pytest.raises(EndpointError, match="needs a processor with AVX2"):
        check_runtime()


def test_file_that_is_no_model_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("xllamacpp")
    content = b"GGUF but not really"
    file = tmp_path / "x.gguf"
    file.write_bytes(content)
    entry = Weights("x", hashlib.sha256(content).hexdigest(), len(content), "none", "none")
    monkeypatch.setitem(weights.WEIGHTS, "x", entry)
    model = EmbeddedModel("x", file)
    with pytest.raises(EndpointError, match=r"did not start \(exit code"):
        model.start()
    assert model.pid is None


@pytest.mark.model
def test_serves_on_loopback_until_stopped() -> None:
    model = EmbeddedModel(SMALLEST)
    with model as endpoint:
        child = psutil.Process(model.pid)
        assert endpoint.base_url.startswith("http://127.0.0.1:")
        assert endpoint.identity == f"embedded:{weights.WEIGHTS[SMALLEST].sha256}"
        assert {one.laddr.ip for one in child.net_connections("tcp")} == {"127.0.0.1"}
        with urllib.request.urlopen(f"{endpoint.base_url}/models", timeout=10) as reply:
            listed = json.load(reply)
        assert [one["id"] for one in listed["data"]] == [endpoint.model]
    assert model.pid is None
    assert not child.is_running()


@pytest.mark.model
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_dies_with_its_parent(how: signal.Signals) -> None:
    root = Path(server.__file__).parents[3]
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER], stdout=subprocess.PIPE, text=True, cwd=root
    )
    try:
        assert owner.stdout is not None
        child = psutil.Process(int(owner.stdout.readline().split()[1]))
        assert child.is_running()
        owner.send_signal(how)
        owner.wait(10)
        child.wait(30)
    finally:
        owner.kill()
        owner.wait()
    # A moment's grace for the system to reap what is no child of ours.
    until = time.monotonic() + 10
    while child.is_running() and time.monotonic() < until:
        time.sleep(0.1)
    assert not child.is_running()
