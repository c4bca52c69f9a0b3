"""``remint fake-endpoint`` as its users run it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from pipelines.cli import main

ROOT = Path(__file__).resolve().parents[2]


def test_it_serves_what_was_asked_for_until_a_signal_comes() -> None:
    command = [sys.executable, "-m", "pipelines.cli", "fake-endpoint", "--model", "m1"]
    with subprocess.Popen(
        [*command, "--fault", "503=1", "--rpm", "7", "--window", "30"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        base_url = process.stdout.readline().strip()
        with urllib.request.urlopen(f"{base_url}/models") as response:
            assert [each["id"] for each in json.load(response)["data"]] == ["m1"]
        body = json.dumps({"messages": [{"role": "user", "content": "x"}]}).encode()
        with pytest.raises(urllib.error.HTTPError, match="503"):
            urllib.request.urlopen(f"{base_url}/chat/completions", body)
        with urllib.request.urlopen(base_url.replace("/v1", "/admin/counts")) as response:
            counts = json.load(response)
        assert counts["faults"] == {"503": 1}
        assert counts["window"]["requests"] == {"limit": 7, "greatest": 1}
        assert counts["window"]["seconds"] == 30
        process.send_signal(signal.SIGINT)
        output, told = process.communicate(timeout=30)
    assert process.returncode == 0
    assert output == ""
    assert "Traceback" not in told
    assert "stopped after 1 request" in told


@pytest.mark.parametrize(
    ("option", "message"),
    [
        (("--latency", "fast"), "lognormal:MEDIAN:SIGMA"),
        (("--fault", "429"), "NAME=SHARE"),
        (("--fault", "418=0.1"), "there are 429, "),
        (("--rpm", "0"), "--rpm"),
        (("--port", "70000"), "--port"),
    ],
)
def test_options_that_cannot_be_used_are_refused(
    option: tuple[str, str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["fake-endpoint", *option]) == 2
    assert message in capsys.readouterr().err
