"""A run that is killed -9 around the making of a batch: it is never paid for twice."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.transforms.llm.batch.conftest import REQUESTS, Dataset
from transforms.llm.batch.records import BatchState
from transforms.llm.calls import CallClass
from transforms.llm.fake_endpoint.server import FakeEndpoint

ROOT = Path(__file__).resolve().parents[4]

RUN = """
import pickle, sys
dataset = pickle.load(sys.stdin.buffer)
print(dataset.run())
"""


def killed(dataset: Dataset, endpoint: FakeEndpoint, moment: str) -> None:
    """Run in a process of its own that is killed when the endpoint has done what ``moment`` names.

    The endpoint never replies to it.
    """
    import pickle

    with subprocess.Popen(
        [sys.executable, "-c", RUN],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    ) as process:

        def kill(what: str) -> None:
            if what == moment:
                os.kill(process.pid, signal.SIGKILL)
                process.wait()

        endpoint.batches.event = kill
        output, _ = process.communicate(pickle.dumps(dataset), timeout=120)
        endpoint.batches.event = lambda what: None
    assert process.returncode == -signal.SIGKILL
    assert output == b""


@pytest.mark.parametrize("seconds", [0, 3600])
def test_between_upload_and_making(seconds: int, endpoint: FakeEndpoint, dataset: Dataset) -> None:
    endpoint.batches.seconds = seconds
    killed(dataset, endpoint, "file")
    assert endpoint.batches.shown() == []
    (record,) = dataset.records()
    assert record.state is BatchState.PLANNED
    dataset.run()
    (record,) = dataset.records()
    assert record.state is BatchState.SUBMITTED
    finish(endpoint, dataset)
    assert len(endpoint.batches.shown()) == 3


@pytest.mark.parametrize("seconds", [0, 3600])
def test_between_making_and_recording(
    seconds: int, endpoint: FakeEndpoint, dataset: Dataset
) -> None:
    endpoint.batches.seconds = seconds
    killed(dataset, endpoint, "batch")
    (made,) = endpoint.batches.shown()
    (record,) = dataset.records()
    assert record.state is BatchState.PLANNED
    assert made["metadata"] == {"remint_batch": record.name}
    dataset.run()
    record, *others = dataset.records()
    assert record.batch_id == made["id"]
    assert record.state is (BatchState.SUBMITTED if seconds else BatchState.COLLECTED)
    assert len(others) == (0 if seconds else 1)
    finish(endpoint, dataset)
    assert len(endpoint.batches.shown()) == 3


def finish(endpoint: FakeEndpoint, dataset: Dataset) -> None:
    endpoint.batches.seconds = 0
    for _ in range(5):
        results = dataset.run()
    assert {call_class for call_class, _ in results} == {CallClass.OK}
    counts = endpoint.batches.answered
    assert len(counts) == REQUESTS == counts.total()
