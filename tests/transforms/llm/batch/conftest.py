"""Runs by batches, as small as they get: items of three dependent steps, the last of two calls."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from transforms.llm.batch import collecting
from transforms.llm.batch.cycle import batch_cycle
from transforms.llm.batch.records import BatchRecord, BatchRecords
from transforms.llm.calls import Answer, CallClass, Caller
from transforms.llm.engine import Engine
from transforms.llm.fake_endpoint.server import FakeEndpoint
from transforms.llm.prompts import Prompt
from transforms.llm.replay import gather
from transforms.llm.settings import EngineSettings


@dataclass
class Dataset:
    """A dataset of 5 items in 2 partitions, run by batches or by calls."""

    prompt: Prompt
    settings: EngineSettings
    directory: str
    items: dict[int, list[str]] = field(default_factory=lambda: {0: ["a", "b", "c"], 1: ["d", "e"]})

    async def work(self, item: str, call: Caller) -> tuple[CallClass, str]:
        """Return how an item ended, and its last answers or the failed call's detail."""
        first = await call(self.prompt, {"situation": item})
        if not first.data:
            return first.call_class, first.detail or ""
        second = await call(self.prompt, {"situation": first.data["utterance"] + item})
        if not second.data:
            return second.call_class, second.detail or ""
        last: list[Answer] = await gather(
            *(call(self.prompt, {"situation": item + "!"}, sample=n) for n in range(2))
        )
        for answer in last:
            if not answer.data:
                return answer.call_class, answer.detail or ""
        return CallClass.OK, " ".join(
            str(answer.data["utterance"]) for answer in last if answer.data
        )

    def run(self) -> list[tuple[CallClass, str]]:
        """Run once by batches; return how the items ended."""
        with batch_cycle(self.settings, self.directory) as settings:
            return self.results(settings)

    def by_calls(self, cache: Path) -> list[tuple[CallClass, str]]:
        """Return how the items end when all calls are made, with a cache of their own."""
        return self.results(replace(self.settings, cache=str(cache)))

    def results(self, settings: EngineSettings) -> list[tuple[CallClass, str]]:
        """Return how the items end under ``settings``."""
        engine = Engine(settings, ["key"])
        try:
            futures = [
                engine.submit(partition, items, self.work)
                for partition, items in self.items.items()
            ]
            return [result for future in futures for result in future.result(60)]
        finally:
            engine.close()

    def records(self) -> list[BatchRecord]:
        """Return the records of its batches."""
        return BatchRecords(self.directory).load()


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collecting, "LISTING_PAUSES", (0.0, 0.01))


#: Requests of a whole run, one of each sample; and steps that it takes.
REQUESTS, STEPS = 20, 3


@pytest.fixture
def endpoint() -> Iterator[FakeEndpoint]:
    """An endpoint with batches."""
    with FakeEndpoint() as running:
        yield running


@pytest.fixture
def dataset(endpoint: FakeEndpoint, prompt: Prompt, tmp_path: Path) -> Dataset:
    """A dataset without any answer yet."""
    settings = EngineSettings(endpoint.base_url, "fake", str(tmp_path / "cache"), retries=0)
    return Dataset(prompt, settings, str(tmp_path / "batches"))
