from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from transforms.errors import OutputError
from transforms.publishing.lock import lock_dataset

ROOT = Path(__file__).parents[3]
HOLDER = """
import sys, time
from transforms.publishing.lock import lock_dataset
with lock_dataset(sys.argv[1]):
    print("held", flush=True)
    time.sleep(60)
"""


@pytest.fixture
def holder(tmp_path):
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path)], stdout=subprocess.PIPE, text=True, cwd=ROOT
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.wait()


def test_a_second_run_is_told_who_holds_the_dataset(holder, tmp_path):
    with (
        pytest.raises(OutputError, match=rf"process {holder.pid} on .*started 2"),
        lock_dataset(str(tmp_path)),
    ):
        pytest.fail("two runs hold one dataset")


def test_a_killed_run_holds_nothing(holder, tmp_path):
    os.kill(holder.pid, signal.SIGKILL)
    holder.wait()

    with lock_dataset(str(tmp_path)):
        assert (tmp_path / ".lock").exists()


def test_a_run_after_the_other_makes_the_directory_and_finds_it_free(tmp_path):
    for _ in range(2):
        with lock_dataset(str(tmp_path / "out" / "prosocial")):
            pass


def test_a_place_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").write_text("")

    with (
        pytest.raises(OutputError, match="another --output"),
        lock_dataset(str(tmp_path / "file" / "d")),
    ):
        pytest.fail("locked below a file")
