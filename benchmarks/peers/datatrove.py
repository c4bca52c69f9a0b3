"""datatrove: its inference runner with the server type ``endpoint``, documents written as JSONL."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from peers.work import EndedError, Row, Task, measure

os.environ["HF_HUB_OFFLINE"] = "1"

from datatrove.data import Document
from datatrove.pipeline.inference.run_inference import (
    InferenceConfig,
    InferenceRunner,
)
from datatrove.pipeline.writers import JsonlWriter


async def rollout(document: Any, generate: Any) -> Any:
    """Return the answer to a document's request."""
    return await generate(json.loads(document.text))


def make_calls(task: Task) -> list[Row]:
    """Make the calls, and read what was written."""
    written = Path(task.directory)
    first = task.requests[0].body
    runner = InferenceRunner(
        rollout_fn=rollout,
        config=InferenceConfig(
            server_type="endpoint",
            endpoint_url=task.base_url.removesuffix("/v1"),
            model_name_or_path=first["model"],
            max_concurrent_generations=task.in_flight,
            api_key="none",
        ),
        output_writer=JsonlWriter(str(written), output_filename="${rank}.jsonl.gz"),
    )
    try:
        runner.run(
            Document(text=json.dumps(each.body), id=str(each.number)) for each in task.requests
        )
    except Exception as error:  # the first failed call ends the run
        raise EndedError(list(_rows(written))) from error
    return list(_rows(written))


def _rows(written: Path) -> Iterator[Row]:
    for path in sorted(written.glob("*.jsonl.gz")):
        with gzip.open(path, "rt", encoding="utf-8") as file:
            for line in file:
                document = json.loads(line)
                for result in document["metadata"]["rollout_results"]:
                    yield Row(int(document["id"]), text=result["text"])


if __name__ == "__main__":
    measure(make_calls)
