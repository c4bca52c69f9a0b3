"""The fake endpoint as a process of its own, for benchmarks."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


@contextlib.contextmanager
def fake_endpoint(*options: str) -> Iterator[str]:
    """Run ``remint fake-endpoint`` with ``options`` and give its base URL."""
    with subprocess.Popen(
        [sys.executable, "-m", "pipelines.cli", "fake-endpoint", *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    ) as process:
        assert process.stdout is not None  # noqa: S101 - a pipe was asked for
        try:
            yield process.stdout.readline().strip()
        finally:
            process.terminate()
