"""What the calls of this process came to: counts that a progress line can read at any time."""

from __future__ import annotations

import functools
import threading
from collections import Counter
from collections.abc import Mapping

#: Names counted beside the classes (``class_ok``, ``class_timeout``, ...).
SENT, CACHED, SHARED, RETRIED = "calls_sent", "calls_cached", "calls_shared", "calls_retried"
#: Answers of offline batches that a run has collected; what they used is counted with the tokens.
BATCHED = "calls_batched"
PROMPT_TOKENS, COMPLETION_TOKENS = "tokens_prompt", "tokens_completion"
#: Samples that calls asked for beside their first one.
FURTHER_SAMPLES = "samples_further"
#: Of the prompts' tokens: those the endpoint had read before.
CACHED_TOKENS = "tokens_cached"
KEYS = "keys_done"
#: What is known of the work ahead: partitions that came, and the keys in them.
KEYS_BEGUN, PARTITIONS_BEGUN = "keys_begun", "partitions_begun"


@functools.cache
def of_prompt(label: str, name: str) -> str:
    """Return the name under which ``name`` is counted for a prompt and model, see ``by_prompt``."""
    return f"{label}/{name}"


def by_prompt(counts: Mapping[str, int]) -> dict[str, dict[str, int]]:
    """Return those of ``counts`` that are counted for a prompt and model, by their label.

    A label is the prompt's id, a blank, and the model's name.
    """
    found: dict[str, dict[str, int]] = {}
    for full, count in sorted(counts.items()):
        label, mark, name = full.rpartition("/")
        if mark:
            found.setdefault(label, {})[name] = count
    return found


def class_shares(counts: Mapping[str, int]) -> dict[str, float]:
    """Return the share of each class that answers ended in, the most frequent first."""
    classes = {
        name.removeprefix("class_"): count
        for name, count in counts.items()
        if name.startswith("class_") and count > 0
    }
    total = sum(classes.values())
    ordered = sorted(classes.items(), key=lambda each: (-each[1], each[0]))
    return {name: round(count / total, 6) for name, count in ordered}


class Statistics:
    """Counts by name; safe to use from several threads."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._in_flight = 0
        self._lock = threading.Lock()

    def add(self, counts: Mapping[str, int]) -> None:
        """Add ``counts`` to what was counted so far."""
        with self._lock:
            self._counts.update(counts)

    def flight(self, change: int) -> None:
        """Note that so many more calls (fewer, when negative) are in flight."""
        with self._lock:
            self._in_flight += change

    def counts(self) -> Counter[str]:
        """Return a copy of the counts; what is not in it is 0."""
        with self._lock:
            return self._counts.copy()

    @property
    def in_flight(self) -> int:
        """Calls sent and not answered yet."""
        return self._in_flight


#: Of this process, over all its engines.
statistics = Statistics()
