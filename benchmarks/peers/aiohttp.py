"""Bare aiohttp: ready bytes are sent, answers decoded, and nothing else."""

from __future__ import annotations

import asyncio
import json

import aiohttp

from peers.work import Row, Task, measure

HEADERS = {"Content-Type": "application/json", "Authorization": "Bearer none"}


async def _make_calls(task: Task) -> list[Row]:
    url = f"{task.base_url}/chat/completions"
    bodies = [(each.number, json.dumps(each.body).encode()) for each in task.requests]
    left = iter(bodies)
    rows = []

    async def worker(session: aiohttp.ClientSession) -> None:
        for number, body in left:
            async with session.post(url, data=body, headers=HEADERS) as response:
                reply = json.loads(await response.read())
            content = reply["choices"][0]["message"]["content"]
            json.loads(content)
            rows.append(Row(number, text=content))

    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        await asyncio.gather(*(worker(session) for _ in range(task.in_flight)))
    return rows


def make_calls(task: Task) -> list[Row]:
    """Make the calls by so many workers."""
    return asyncio.run(_make_calls(task))


if __name__ == "__main__":
    measure(make_calls)
