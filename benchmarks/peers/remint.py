"""remint's engine, all of its work: rendering, keys, cache on disk, answers checked, counts."""

from __future__ import annotations

import json

from peers.requests import MODEL, PROMPT
from peers.work import Request, Row, Task, measure
from transforms.llm.calls import Caller
from transforms.llm.engine import close_engines, engine
from transforms.llm.settings import EngineSettings


async def work(request: Request, caller: Caller) -> Row:
    """Make one item's call."""
    answer = await caller(PROMPT, {"situation": request.situation})
    if answer.ok:
        return Row(request.number, text=json.dumps(answer.data))
    return Row(request.number, error=f"{answer.call_class.value}: {answer.detail}")


def make_calls(task: Task) -> list[Row]:
    """Work on the requests as on the items of a partition, with an empty cache."""
    settings = EngineSettings(task.base_url, MODEL, task.directory, concurrency=task.in_flight)
    rows = engine(settings).submit(0, task.requests, work).result()
    close_engines()
    return rows


if __name__ == "__main__":
    measure(make_calls)
