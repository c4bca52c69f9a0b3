"""The bare openai package on its cheapest path: its aiohttp client, ready bytes, no model."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx2
import openai

from peers.work import Row, Task, measure


async def _make_calls(task: Task) -> list[Row]:
    bodies = [(each.number, json.dumps(each.body).encode()) for each in task.requests]
    left = iter(bodies)
    rows = []
    limits = httpx2.Limits(max_connections=None, max_keepalive_connections=None)
    options: Any = {"headers": {"Content-Type": "application/json"}}
    async with openai.AsyncOpenAI(
        api_key="none",
        base_url=task.base_url,
        max_retries=0,
        http_client=openai.DefaultAioHttpClient(limits=limits),
    ) as client:

        async def worker() -> None:
            for number, body in left:
                response = await client.post(
                    "/chat/completions", cast_to=httpx2.Response, content=body, options=options
                )
                content = json.loads(response.content)["choices"][0]["message"]["content"]
                json.loads(content)
                rows.append(Row(number, text=content))

        await asyncio.gather(*(worker() for _ in range(task.in_flight)))
    return rows


def make_calls(task: Task) -> list[Row]:
    """Make the calls by so many workers."""
    return asyncio.run(_make_calls(task))


if __name__ == "__main__":
    measure(make_calls)
