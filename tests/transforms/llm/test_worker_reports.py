"""What workers tell: others read it while they work, complete when they are done."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from transforms.llm import worker_reports
from transforms.llm.calls import Answer, Caller
from transforms.llm.engine import engine
from transforms.llm.fake_endpoint.server import FakeEndpoint
from transforms.llm.pace import Snapshot
from transforms.llm.progress import Lines, Progress
from transforms.llm.prompts import Prompt
from transforms.llm.settings import EngineSettings
from transforms.llm.statistics import statistics
from transforms.llm.worker_reports import OtherReports, WorkerReport

OWN = f"{socket.gethostname()}-{os.getpid()}.json"


@pytest.fixture
def as_other(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Have this process pass for another one."""
    return lambda name: monkeypatch.setattr(worker_reports, "_own_name", lambda: name)


@pytest.fixture
def folder(tmp_path: Path) -> str:
    return str(tmp_path / "work/run")


@pytest.fixture
def report(folder: str) -> Iterator[WorkerReport]:
    made = WorkerReport(folder)
    yield made
    made.close()


def test_what_is_done_is_told_to_others_and_not_to_oneself(
    folder: str, report: WorkerReport, as_other: Callable[[str], None]
) -> None:
    report.begin()
    statistics.add({"calls_sent": 3, "class_ok": 2})
    report.end()
    assert OtherReports(folder).read() == (Counter(), 0)
    as_other("elsewhere-1.json")
    others = OtherReports(folder)
    assert others.read() == (Counter({"calls_sent": 3, "class_ok": 2}), 0)
    report.begin()
    statistics.add({"calls_sent": 1})
    report.end()  # by the other name, which is left out now
    assert others.read(now=True)[0]["calls_sent"] == 3
    as_other("elsewhere-2.json")
    assert others.read()[0]["calls_sent"] == 3  # not looked at again so soon
    assert others.read(now=True)[0]["calls_sent"] == 7


def test_it_is_told_while_a_partition_is_in_work_and_not_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_reports, "_SECONDS", 0.01)
    written = threading.Event()
    file = tmp_path / "reports" / OWN
    report = WorkerReport(str(tmp_path))
    write = worker_reports.storage.write_bytes

    def noted(path: str, data: bytes) -> None:
        write(path, data)
        written.set()

    monkeypatch.setattr(worker_reports.storage, "write_bytes", noted)
    report.begin()
    statistics.add({"calls_sent": 2})
    statistics.flight(1)
    try:
        while True:
            assert written.wait(30)
            written.clear()
            told = json.loads(file.read_text())
            if told["in_flight"]:
                break
    finally:
        statistics.flight(-1)
    assert told == {"counts": {"calls_sent": 2}, "in_flight": 1}
    report.end()
    assert json.loads(file.read_text())["in_flight"] == 0
    file.unlink()
    written.clear()
    statistics.add({"calls_sent": 2})
    assert not written.wait(0.1)
    report.close()
    assert not file.exists()


def test_what_is_damaged_or_gone_leaves_what_was_told_before(tmp_path: Path) -> None:
    reports = tmp_path / "reports"
    reports.mkdir()
    others = OtherReports(str(tmp_path))
    (reports / "a-1.json").write_text('{"counts": {"calls_sent": 5}, "in_flight": 2}')
    assert others.read() == (Counter({"calls_sent": 5}), 2)
    (reports / "b-1.json").write_text('{"counts": {"calls_sent": 1}, "in_flight": 0}')
    for damage in ("", '{"counts": {"calls_sent"', "\x00"):
        (reports / "a-1.json").write_text(damage)
        assert others.read(now=True) == (Counter({"calls_sent": 6}), 2)
    shutil.rmtree(reports)
    assert others.read(now=True) == (Counter({"calls_sent": 6}), 2)
    assert OtherReports(None).read() == (Counter(), 0)


def test_a_folder_that_cannot_be_written_stops_nothing(tmp_path: Path) -> None:
    (tmp_path / "run").write_text("no folder")
    report = WorkerReport(str(tmp_path / "run"))
    report.begin()
    statistics.add({"calls_sent": 1})
    report.end()
    report.close()
    assert OtherReports(str(tmp_path / "run")).read() == (Counter(), 0)


def test_an_engine_tells_of_its_calls(
    prompt: Prompt,
    settings: Callable[..., EngineSettings],
    folder: str,
    as_other: Callable[[str], None],
) -> None:
    async def work(situation: str, caller: Caller) -> Answer:
        return await caller(prompt, {"situation": situation})

    with FakeEndpoint() as endpoint:
        made = engine(settings(endpoint.base_url, lanes=1, work=folder))
        for _ in range(2):  # the second time from the cache
            made.submit(0, ["a", "b", "c"], work).result(30)
            told = json.loads(Path(folder, "reports", OWN).read_text())
            assert told["counts"]["calls_sent"] == told["counts"]["class_ok"] == 3
            assert told["in_flight"] == 0
    as_other("elsewhere-1.json")
    seen = Seen()
    with Progress(seen, 4, folder):
        pass
    assert seen.snapshots[-1].counts["calls_sent"] == 3
    assert seen.snapshots[-1].keys == 12  # three a partition, of which four are to come


class Seen(Lines):
    """Lines that keep the snapshots."""

    def __init__(self) -> None:
        super().__init__({})
        self.snapshots: list[Snapshot] = []

    def show(self, snapshot: Snapshot) -> None:
        self.snapshots.append(snapshot)


def test_another_process_is_another_one(tmp_path: Path) -> None:
    script = (
        "import sys\n"
        "from transforms.llm.statistics import statistics\n"
        "from transforms.llm.worker_reports import WorkerReport\n"
        "report = WorkerReport(sys.argv[1])\n"
        "report.begin()\n"
        "statistics.add({'calls_sent': 11})\n"
        "report.end()\n"
    )
    subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=True)
    assert OtherReports(str(tmp_path)).read() == (Counter({"calls_sent": 11}), 0)
