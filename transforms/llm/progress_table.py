"""The live table on a terminal; rich is imported only where there is one."""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table

from transforms.llm.latencies import percentiles
from transforms.llm.pace import Snapshot
from transforms.llm.prices import Price
from transforms.llm.progress import told_cost, told_keys
from transforms.llm.statistics import (
    CACHED,
    COMPLETION_TOKENS,
    KEYS,
    PROMPT_TOKENS,
    RETRIED,
    SENT,
    class_shares,
)

_BAR_WIDTH = 40


def is_usable() -> bool:
    """Return whether the terminal of standard error can be drawn on."""
    console = Console(stderr=True)
    return console.is_terminal and not console.is_dumb_terminal


class ProgressTable:
    """A table that is drawn anew in its place; log lines appear above it."""

    seconds = 0.5

    def __init__(self, prices: Mapping[str, Price], console: Console | None = None) -> None:
        self._prices = prices
        self._console = console or Console(stderr=True)
        self._live = Live(console=self._console, auto_refresh=False)
        self._streams: list[tuple[logging.StreamHandler[Any], Any]] = []

    def start(self) -> None:
        """Begin to draw, and have log lines written above the table."""
        before = sys.stderr
        self._live.start()
        for handler in logging.getLogger().handlers:
            if isinstance(handler, logging.StreamHandler) and handler.stream is before:
                self._streams.append((handler, handler.setStream(sys.stderr)))

    def show(self, snapshot: Snapshot) -> None:
        """Draw how things stand, once there is something to tell."""
        if snapshot.worked or snapshot.in_flight:
            self._live.update(table(snapshot, self._prices), refresh=True)

    def stop(self) -> None:
        """Leave the last table where it is."""
        for handler, stream in self._streams:
            handler.setStream(stream)
        self._streams.clear()
        self._live.stop()


def table(snapshot: Snapshot, prices: Mapping[str, Price]) -> RenderableType:
    """Return ``snapshot`` as a table: calls, tokens and cost, latency, classes, keys."""
    counts = snapshot.counts
    rows = Table.grid(padding=(0, 2))
    rows.add_column(style="bold")
    rows.add_column()
    rows.add_row(
        "calls",
        f"{counts.get(SENT, 0):,} sent ({counts.get(RETRIED, 0):,} again), "
        f"{counts.get(CACHED, 0):,} from the cache, {snapshot.in_flight:,} in flight, "
        f"{snapshot.rate:,.1f}/s",
    )
    tokens = f"{counts.get(PROMPT_TOKENS, 0):,} in, {counts.get(COMPLETION_TOKENS, 0):,} out"
    cost = told_cost(snapshot, prices)
    rows.add_row("tokens", f"{tokens}, {cost}" if cost else tokens)
    told = ", ".join(f"{name} {value:.3g} s" for name, value in percentiles(counts).items())
    rows.add_row("latency", told or "-")
    shares = class_shares(counts).items()
    rows.add_row("classes", ", ".join(f"{name} {share:.1%}" for name, share in shares) or "-")
    rows.add_row("keys", told_keys(snapshot))
    done = min(counts.get(KEYS, 0), snapshot.keys)
    return Group(rows, ProgressBar(total=max(1, snapshot.keys), completed=done, width=_BAR_WIDTH))
