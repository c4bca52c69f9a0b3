"""When requests arrive at a fake endpoint, and how many in any window of time."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from transforms.llm.fake_endpoint.replies import Reply


class Arrivals:
    """A fake endpoint's script that notes the time of each request and answers as ever."""

    def __init__(self) -> None:
        self.times: list[float] = []
        self.questions: list[str] = []

    def __call__(self, index: int, body: Mapping[str, Any]) -> Reply | None:
        """Note a request."""
        self.times.append(time.monotonic())
        self.questions.append(body["messages"][-1]["content"])
        return None

    def most_within(self, window: float) -> int:
        """Return the greatest number of requests in any ``window`` seconds."""
        return max(
            (
                sum(1 for time in self.times if start <= time <= start + window)
                for start in self.times
            ),
            default=0,
        )
