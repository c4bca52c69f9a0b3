"""Work for lanes that any process can import, and a process that does it on its own."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence

import polars as pl

from transforms.llm.calls import Caller
from transforms.llm.engine import engine
from transforms.llm.prices import Price
from transforms.llm.prompts import Prompt, Sampling
from transforms.llm.settings import EngineSettings
from transforms.partitions import Frames

PROMPT = Prompt(
    id="u.v1",
    hash="",
    sampling=Sampling(max_tokens=50),
    user="{{ situation }}",
    schema={"type": "object", "properties": {"u": {"type": "string"}}},
    prefix=({"role": "system", "content": "x"},),
)


class AskOfAll:
    """Asks once of each text in the frame ``texts``; yields the answers' classes, and by whom."""

    def items(self, partition: tuple[int, Frames]) -> Sequence[str]:
        """Return the partition's texts."""
        return partition[1]["texts"]["text"].to_list()

    def key(self, item: str) -> str:
        """Return the text."""
        return item

    async def work(self, item: str, caller: Caller) -> str:
        """Ask once."""
        return (await caller(PROMPT, {"situation": item})).call_class.value

    def finish(
        self, partition: tuple[int, Frames], results: list[str], counts: Mapping[str, int]
    ) -> Iterator[tuple[int, Frames]]:
        """Yield the partition with its classes and this process."""
        number, frames = partition
        classes = pl.DataFrame({"class": results, "process": [os.getpid() for _ in results]})
        yield number, {**frames, "classes": classes}


def texts(partition: int, number: int) -> list[str]:
    """Return so many texts of a partition."""
    return [f"text {n} of {partition}" for n in range(number)]


def lane_settings(base_url: str, cache: str, rpm: float, lanes: int | None) -> EngineSettings:
    """Return settings with a minute of two seconds."""
    return EngineSettings(
        base_url,
        "fake",
        cache,
        rpm=rpm,
        lanes=lanes,
        rate_window=2.0,
        rate_margin=0.5,
        work=f"{cache}-work",
    )


def main() -> None:
    """Work on the partitions named: SETTINGS TEXTS PARTITION...

    SETTINGS is a JSON object of the engine's settings, prices as their numbers.
    """
    given, number, *partitions = sys.argv[1:]
    fields = json.loads(given)
    if fields.get("price"):
        fields["price"] = Price(**fields["price"])
    calls = engine(EngineSettings(**fields))
    work = AskOfAll()
    futures = [calls.submit(int(p), texts(int(p), int(number)), work.work) for p in partitions]
    sys.stdout.write("".join(f"{result}\n" for future in futures for result in future.result()))


if __name__ == "__main__":
    main()
