"""The progress line tells what happened since its block began."""

from __future__ import annotations

import pytest

from transforms.llm.progress import Progress, progress_line
from transforms.llm.statistics import statistics


def test_the_line_names_counts_and_every_class_but_ok() -> None:
    counts = {
        "calls_sent": 7,
        "calls_retried": 2,
        "calls_cached": 3,
        "tokens_prompt": 11,
        "tokens_completion": 5,
        "keys_done": 4,
        "class_ok": 6,
        "class_timeout": 1,
        "class_refused": 0,
    }
    assert progress_line(counts, 2) == (
        "calls: 7 sent (2 again), 3 cached, 2 in flight; tokens: 11 in, 5 out; "
        "keys done: 4, 1 timeout"
    )


def test_lines_come_while_there_is_something_new(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    statistics.add({"calls_sent": 100})
    with Progress(0.01) as progress:
        progress._ended.wait(0.05)
        assert not caplog.records  # nothing happened in this block yet
        statistics.add({"calls_sent": 2, "keys_done": 1})
    assert [record.name for record in caplog.records] == ["remint.progress"]
    assert "calls: 2 sent" in caplog.text
    assert "keys done: 1" in caplog.text
