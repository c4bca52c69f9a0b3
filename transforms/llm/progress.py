"""A line every few seconds that tells how the calls of this process are getting on."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from types import TracebackType

from transforms.llm.statistics import (
    CACHED,
    COMPLETION_TOKENS,
    KEYS,
    PROMPT_TOKENS,
    RETRIED,
    SENT,
    statistics,
)

logger = logging.getLogger("remint.progress")


def progress_line(counts: Mapping[str, int], in_flight: int) -> str:
    """Return one line on ``counts`` (see ``transforms.llm.statistics``)."""
    classes = {
        name.removeprefix("class_"): count
        for name, count in sorted(counts.items())
        if name.startswith("class_") and name != "class_ok" and count
    }
    others = "".join(f", {count} {name}" for name, count in classes.items())
    return (
        f"calls: {counts.get(SENT, 0)} sent ({counts.get(RETRIED, 0)} again), "
        f"{counts.get(CACHED, 0)} cached, {in_flight} in flight; "
        f"tokens: {counts.get(PROMPT_TOKENS, 0)} in, {counts.get(COMPLETION_TOKENS, 0)} out; "
        f"keys done: {counts.get(KEYS, 0)}{others}"
    )


class Progress:
    """Logs a progress line every ``seconds`` while the ``with`` block runs, and one at its end.

    Counts from the block's start on. Nothing is logged while nothing changes.
    """

    def __init__(self, seconds: float = 10.0) -> None:
        self._seconds = seconds
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="remint-progress", daemon=True)
        self._before = statistics.counts()
        self._last = ""

    def __enter__(self) -> Progress:
        """Start."""
        self._before = statistics.counts()
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop, with a last line if there was anything to tell."""
        self._ended.set()
        self._thread.join()
        self._log()

    def _run(self) -> None:
        while not self._ended.wait(self._seconds):
            self._log()

    def _log(self) -> None:
        counts = statistics.counts()
        counts.subtract(self._before)
        line = progress_line(counts, statistics.in_flight)
        if any(counts.values()) and line != self._last:
            logger.info("%s", line)
            self._last = line
