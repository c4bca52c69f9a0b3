"""Beam's RunInference: a handler for a remote model that makes the calls of a batch at once.

Beam has none for OpenAI-compatible endpoints; this one is as its RemoteModelHandler wants it, calls
by the openai package, and takes batches as large as calls may be in flight.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import apache_beam as beam
import openai
from apache_beam.ml.inference.base import PredictionResult, RemoteModelHandler, RunInference

from peers.work import Row, Task, measure


class Client:
    """The openai package's client with the event loop it lives on."""

    def __init__(self, base_url: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._client = openai.AsyncOpenAI(api_key="none", base_url=base_url)

    def answers(self, bodies: Sequence[str]) -> list[str | None]:
        """Return the answers to requests, asked for all at once."""
        return self._loop.run_until_complete(self._answers(bodies))

    async def _answers(self, bodies: Sequence[str]) -> list[str | None]:
        made = (self._client.chat.completions.create(**json.loads(body)) for body in bodies)
        return [each.choices[0].message.content for each in await asyncio.gather(*made)]


class EndpointHandler(RemoteModelHandler[Any, Any, Any]):  # type: ignore[misc] # untyped
    """Answers requests ``(number, body)`` by an OpenAI-compatible endpoint."""

    def __init__(self, base_url: str, in_flight: int) -> None:
        super().__init__(namespace="EndpointHandler")
        self._base_url, self._in_flight = base_url, in_flight

    def create_client(self) -> Client:
        """Return a client of its own for each worker."""
        return Client(self._base_url)

    def batch_elements_kwargs(self) -> Mapping[str, Any]:
        """Return the size of batches."""
        return {"min_batch_size": self._in_flight, "max_batch_size": self._in_flight}

    def request(
        self, batch: Sequence[Any], model: Client, inference_args: dict[str, Any] | None = None
    ) -> Iterable[Any]:
        """Return the answers to a batch."""
        texts = model.answers([body for _, body in batch])
        return [
            PredictionResult(number, text) for (number, _), text in zip(batch, texts, strict=True)
        ]


def make_calls(task: Task) -> list[Row]:
    """Run a pipeline on the local runner, and read what it wrote."""
    with beam.Pipeline() as pipeline:
        _ = (
            pipeline
            | beam.Create([(each.number, json.dumps(each.body)) for each in task.requests])
            | RunInference(EndpointHandler(task.base_url, task.in_flight))
            | beam.Map(lambda result: json.dumps([result.example, result.inference]))
            | beam.io.WriteToText(str(Path(task.directory) / "answers"), num_shards=1)
        )
    rows = []
    for path in sorted(Path(task.directory).glob("answers*")):
        for line in path.read_text(encoding="utf-8").splitlines():
            number, text = json.loads(line)
            rows.append(Row(number, text=text))
    return rows


if __name__ == "__main__":
    measure(make_calls)
