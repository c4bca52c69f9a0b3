"""When requests arrive at a fake endpoint, and what they ask."""

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
