"""Progress tells what happened since its block began: lines in a log, a table on a terminal."""

from __future__ import annotations

import io
import logging
import sys
import threading

import pytest
from rich.console import Console

from transforms.llm.latencies import bucket
from transforms.llm.pace import Snapshot
from transforms.llm.prices import Price
from transforms.llm.progress import Lines, Progress, display, progress_line
from transforms.llm.progress_table import ProgressTable
from transforms.llm.statistics import of_prompt, statistics

COUNTS = {
    "calls_sent": 1007,
    "calls_retried": 2,
    "calls_cached": 3,
    "tokens_prompt": 11000,
    "tokens_completion": 5,
    "keys_done": 4,
    "class_ok": 6,
    "class_timeout": 1,
    "class_refused": 2,
    bucket(0.5): 9,
    of_prompt("vote.v1 fake", "tokens_prompt"): 1_000_000,
    of_prompt("vote.v1 fake", "tokens_completion"): 500_000,
    of_prompt("vote.v1 fake", "calls_sent"): 1007,
}
SNAPSHOT = Snapshot(COUNTS, 2, 30.0, 12.345, 100, 75.2)
PRICES = {"fake": Price(1.0, 0.5, 2.0)}


def test_the_line_names_counts_cost_time_and_every_class_but_ok() -> None:
    assert progress_line(SNAPSHOT, PRICES) == (
        "calls: 1,007 sent (2 again), 3 cached, 2 in flight, 12.3/s; tokens: 11,000 in, 5 out; "
        "cost: 2.00 USD; keys done: 4 of about 100, 0:01:15 left; 2 refused, 1 timeout"
    )
    assert "cost" not in progress_line(SNAPSHOT, {})
    assert progress_line(Snapshot({"keys_done": 4}, 0, 30.0, 0.0, 4, 0.0), {}).endswith(
        "keys done: 4"
    )


class Seen(Lines):
    """Lines that tell when a snapshot was taken."""

    def __init__(self) -> None:
        super().__init__({}, 0.01)
        self.shown = threading.Event()

    def show(self, snapshot: Snapshot) -> None:
        super().show(snapshot)
        self.shown.set()


def test_lines_come_while_there_is_something_new(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    statistics.add({"calls_sent": 100})
    seen = Seen()
    with Progress(seen):
        assert seen.shown.wait(30)
        assert not caplog.records  # nothing happened in this block yet
        statistics.add({"calls_sent": 2, "keys_done": 1})
    assert [record.name for record in caplog.records] == ["remint.progress"]
    assert "calls: 2 sent" in caplog.text
    assert "keys done: 1" in caplog.text
    seen.show(Snapshot({"calls_sent": 2, "keys_done": 1}, 0, 99.0, 0.0, 1, None))
    assert len(caplog.records) == 1  # the same once more is nothing new


def test_the_table_is_drawn_and_log_lines_stand_above_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    terminal = io.StringIO()
    monkeypatch.setattr(sys, "stderr", terminal)
    handler = logging.StreamHandler()
    root = logging.getLogger()
    root.addHandler(handler)
    try:
        console = Console(stderr=True, force_terminal=True, width=100)
        shown = ProgressTable(PRICES, console)
        shown.start()
        shown.show(SNAPSHOT)
        logging.getLogger("remint.test").warning("a line of the log")
        shown.show(SNAPSHOT)
        shown.stop()
        assert handler.stream is terminal
    finally:
        root.removeHandler(handler)
    text = terminal.getvalue()
    for told in (
        "1,007 sent (2 again), 3 from the cache, 2 in flight, 12.3/s",
        "11,000 in, 5 out, 2.00 USD",
        "p50 0.512 s, p90 0.512 s, p99 0.512 s",
        "ok 66.7%, refused 22.2%, timeout 11.1%",
        "4 of about 100, 0:01:15 left",
    ):
        assert told in text
    assert text.index("a line of the log") < text.rindex("1,007 sent")


def test_without_a_terminal_there_are_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    assert isinstance(display({}), Lines)

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setenv("TERM", "xterm")
    assert isinstance(display({}), ProgressTable)
    monkeypatch.setenv("TERM", "dumb")
    assert isinstance(display({}), Lines)
