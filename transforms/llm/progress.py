"""What is seen of a run's calls: a live table on a terminal, else a line now and then."""

from __future__ import annotations

import datetime
import logging
import sys
import threading
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Protocol

from transforms.llm.pace import Pace, Snapshot
from transforms.llm.prices import Price
from transforms.llm.spending import money, total_cost
from transforms.llm.statistics import (
    CACHED,
    COMPLETION_TOKENS,
    KEYS,
    PROMPT_TOKENS,
    RETRIED,
    SENT,
    class_shares,
    statistics,
)
from transforms.llm.worker_reports import OtherReports

logger = logging.getLogger("remint.progress")


class Display(Protocol):
    """Shows snapshots; used by one thread."""

    #: Seconds between two snapshots.
    seconds: float

    def start(self) -> None:
        """Get ready."""
        ...  # pragma: no cover - protocol

    def show(self, snapshot: Snapshot) -> None:
        """Show how things stand."""
        ...  # pragma: no cover - protocol

    def stop(self) -> None:
        """Leave the last snapshot behind."""
        ...  # pragma: no cover - protocol


class Lines:
    """Logs a line each time that something is new."""

    def __init__(self, prices: Mapping[str, Price], seconds: float = 10.0) -> None:
        self.seconds = seconds
        self._prices = prices
        self._last: Mapping[str, int] = {}

    def start(self) -> None:
        """Nothing has to be made ready."""

    def show(self, snapshot: Snapshot) -> None:
        """Log a line if calls were made since the last one."""
        if snapshot.worked and snapshot.counts != self._last:
            logger.info("%s", progress_line(snapshot, self._prices))
            self._last = snapshot.counts

    def stop(self) -> None:
        """Nothing is left to be done."""


def progress_line(snapshot: Snapshot, prices: Mapping[str, Price]) -> str:
    """Return one line on ``snapshot``; the cost stands there where the prices are known."""
    counts = snapshot.counts
    parts = [
        f"calls: {counts.get(SENT, 0):,} sent ({counts.get(RETRIED, 0):,} again), "
        f"{counts.get(CACHED, 0):,} cached, {snapshot.in_flight:,} in flight, "
        f"{snapshot.rate:.1f}/s",
        f"tokens: {counts.get(PROMPT_TOKENS, 0):,} in, {counts.get(COMPLETION_TOKENS, 0):,} out",
    ]
    cost = told_cost(snapshot, prices)
    if cost:
        parts.append(f"cost: {cost}")
    parts.append(f"keys done: {told_keys(snapshot)}")
    others = ", ".join(
        f"{counts[f'class_{name}']:,} {name}" for name in class_shares(counts) if name != "ok"
    )
    return "; ".join(part for part in (*parts, others) if part)


def told_cost(snapshot: Snapshot, prices: Mapping[str, Price]) -> str:
    """Return what the calls cost for reading; nothing where a model's price is unknown."""
    cost, unpriced = total_cost(snapshot.counts, prices)
    return "" if unpriced else money(cost)


def told_keys(snapshot: Snapshot) -> str:
    """Return how many keys are done, of how many, and the time that is left."""
    done = snapshot.counts.get(KEYS, 0)
    if done >= snapshot.keys:
        return f"{done:,}"
    text = f"{done:,} of about {snapshot.keys:,}"
    if snapshot.left is not None:
        text += f", {datetime.timedelta(seconds=round(snapshot.left))} left"
    return text


def display(prices: Mapping[str, Price]) -> Display:
    """Return the display that suits standard error: a table on a terminal, else lines."""
    if sys.stderr is not None and sys.stderr.isatty():
        from transforms.llm.progress_table import ProgressTable, is_usable

        if is_usable():
            return ProgressTable(prices)
    return Lines(prices)


class Progress:
    """Shows how the calls of a run get on while the ``with`` block runs, and at its end.

    Args:
        shown: where to.
        partitions: how many the work has; None where that is not known.
        work: the run's work folder, where other processes make calls, too.
    """

    def __init__(
        self, shown: Display, partitions: int | None = None, work: str | None = None
    ) -> None:
        self._display, self._partitions = shown, partitions
        self._others = OtherReports(work)
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="remint-progress", daemon=True)

    def __enter__(self) -> Progress:
        """Start; what was counted before is left out."""
        self._pace = Pace(statistics.counts(), time.monotonic(), self._partitions)
        self._display.start()
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop, and show how things stand at the end."""
        self._ended.set()
        self._thread.join()
        self._show(last=True)
        self._display.stop()

    def _run(self) -> None:
        while not self._ended.wait(self._display.seconds):
            self._show()

    def _show(self, *, last: bool = False) -> None:
        counts, in_flight = self._others.read(now=last)
        counts.update(statistics.counts())
        in_flight += statistics.in_flight
        self._display.show(self._pace.snapshot(counts, in_flight, time.monotonic()))
