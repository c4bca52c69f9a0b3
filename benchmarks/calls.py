"""How near the call engine gets to the clients it is built on, with the endpoint on this machine.

    python benchmarks/calls.py [--json] [--requests 2000] [--heavy 900]

A fake endpoint in a process of its own answers after 50 ms, 64 requests in flight: remint's engine
(prompt rendering, request keys, cache written to a temporary directory, answers parsed and checked
against their schema), the bare openai package on its own cheapest path, bare aiohttp. Then the same
with a heavy-tailed latency (lognormal, median 0.4 s, sigma 0.8), the same draws for both sides.
Sides take turns and each figure is the best of its rounds, since the machine may be busy.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))
sys.path.insert(0, str(ROOT / "benchmarks"))

from endpoint import fake_endpoint  # noqa: E402

from transforms.llm.calls import Caller  # noqa: E402
from transforms.llm.engine import close_engines, engine  # noqa: E402
from transforms.llm.prompts import Prompt, Sampling  # noqa: E402
from transforms.llm.request import RequestForm  # noqa: E402
from transforms.llm.settings import EngineSettings  # noqa: E402

IN_FLIGHT = 64
FIXED = "constant:0.05"
HEAVY_TAILED = "lognormal:0.4:0.8"

PROMPT = Prompt(
    id="benchmark.v1",
    hash="benchmark",
    schema={
        "type": "object",
        "properties": {
            "utterance": {"type": "string", "minLength": 1, "maxLength": 300},
            "tone": {"type": "string", "enum": ["calm", "tense"]},
        },
        "required": ["utterance", "tone"],
        "additionalProperties": False,
    },
    sampling=Sampling(temperature=0.9, max_tokens=200),
    prefix=({"role": "system", "content": "You put situations into the first person. " * 12},),
    user="Situation: {{ situation }}\nWrite what the person might say.",
)


@dataclass(frozen=True)
class Figure:
    """Requests a second and CPU milliseconds of the client per request."""

    rate: float
    cpu: float

    @classmethod
    def measure(cls, requests: int, run: Callable[[], object]) -> Figure:
        """Return the figure of ``run``, which makes so many requests."""
        wall, cpu = time.perf_counter(), time.process_time()
        run()
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        return cls(requests / wall, 1000 * cpu / requests)

    def __str__(self) -> str:
        return f"{self.rate:8.1f} requests/s {self.cpu:7.3f} ms CPU each"


def situations(requests: int) -> list[str]:
    """Return so many different situations."""
    return [f"not telling my neighbour number {n} about the noise" for n in range(requests)]


def run_remint(base_url: str, requests: int) -> Figure:
    """Measure the engine: one call per item, all of them missing from an empty cache."""

    async def work(situation: str, caller: Caller) -> bool:
        answer = await caller(PROMPT, {"situation": situation})
        if not answer.ok:
            raise RuntimeError(f"a call ended as {answer.call_class.value}: {answer.detail}")
        return True

    with tempfile.TemporaryDirectory() as cache:
        settings = EngineSettings(base_url, "fake", cache, concurrency=IN_FLIGHT)
        calls = engine(settings)
        calls.submit(0, situations(IN_FLIGHT), work).result()  # connections are open from here on
        figure = Figure.measure(
            requests, lambda: calls.submit(1, situations(requests), work).result()
        )
        close_engines()
    return figure


def run_openai(base_url: str, requests: int) -> Figure:
    """Measure the bare openai package: its aiohttp client, ready bytes, no response model."""
    import httpx2
    import openai

    async def main(bodies: list[bytes]) -> Figure:
        limits = httpx2.Limits(max_connections=None, max_keepalive_connections=None)
        options: Any = {"headers": {"Content-Type": "application/json"}}
        async with openai.AsyncOpenAI(
            api_key="none",
            base_url=base_url,
            max_retries=0,
            http_client=openai.DefaultAioHttpClient(limits=limits),
        ) as client:

            async def call(body: bytes) -> bytes:
                response = await client.post(
                    "/chat/completions", cast_to=httpx2.Response, content=body, options=options
                )
                return response.content

            return await _measured(bodies, call)

    return asyncio.run(main(bodies(base_url, requests)))


def run_aiohttp(base_url: str, requests: int) -> Figure:
    """Measure bare aiohttp: ready bytes, the answer decoded."""
    import aiohttp

    async def main(bodies: list[bytes]) -> Figure:
        headers = {"Content-Type": "application/json", "Authorization": "Bearer none"}
        url = f"{base_url}/chat/completions"
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:

            async def call(body: bytes) -> bytes:
                async with session.post(url, data=body, headers=headers) as response:
                    return await response.read()

            return await _measured(bodies, call)

    return asyncio.run(main(bodies(base_url, requests)))


def bodies(base_url: str, requests: int) -> list[bytes]:
    """Return the bodies that the engine would send."""
    form = RequestForm(EngineSettings(base_url, "fake", "unused"), PROMPT)
    return [form.body(form.question({"situation": each})) for each in situations(requests)]


async def _measured(
    bodies: list[bytes], call: Callable[[bytes], Coroutine[Any, Any, bytes]]
) -> Figure:
    left = iter(bodies)

    async def worker() -> None:
        for body in left:
            reply = json.loads(await call(body))
            json.loads(reply["choices"][0]["message"]["content"])

    await asyncio.gather(*(call(body) for body in bodies[:IN_FLIGHT]))
    wall, cpu = time.perf_counter(), time.process_time()
    await asyncio.gather(*(worker() for _ in range(IN_FLIGHT)))
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    return Figure(len(bodies) / wall, 1000 * cpu / len(bodies))


def best(
    sides: dict[str, Callable[[str, int], Figure]], latency: str, requests: int, rounds: int
) -> dict[str, Figure]:
    """Return the best figure of each side; every run has an endpoint of its own."""
    found: dict[str, Figure] = {}
    for _ in range(rounds):
        for name, run in sides.items():
            with fake_endpoint("--latency", latency) as base_url:
                figure = run(base_url, requests)
            if name not in found or figure.rate > found[name].rate:
                found[name] = figure
    return found


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--requests", type=int, default=3000, help="at 50 ms")
    parser.add_argument("--heavy", type=int, default=1500, help="at the heavy-tailed latency")
    parser.add_argument("--rounds", type=int, default=2, help="at 50 ms")
    options = parser.parse_args()
    fixed = best(
        {"remint": run_remint, "openai": run_openai, "aiohttp": run_aiohttp},
        FIXED,
        options.requests,
        options.rounds,
    )
    heavy = best(
        {"remint": run_remint, "aiohttp": run_aiohttp}, HEAVY_TAILED, options.heavy, rounds=1
    )
    result = {
        "ratio_to_openai": round(fixed["remint"].rate / fixed["openai"].rate, 3),
        "ratio_to_aiohttp": round(fixed["remint"].rate / fixed["aiohttp"].rate, 3),
        "ratio_heavy_tailed": round(heavy["remint"].rate / heavy["aiohttp"].rate, 3),
        "in_flight": IN_FLIGHT,
        "fixed_50ms": {name: vars(figure) for name, figure in fixed.items()},
        "heavy_tailed": {name: vars(figure) for name, figure in heavy.items()},
    }
    if options.json:
        print(json.dumps(result))
        return
    for title, figures in (("50 ms", fixed), ("lognormal, median 0.4 s", heavy)):
        print(f"{title}, {IN_FLIGHT} in flight")
        for name, figure in figures.items():
            print(f"  {name:8} {figure}")
    for name in ("ratio_to_openai", "ratio_to_aiohttp", "ratio_heavy_tailed"):
        print(f"{name}: {result[name]}")


if __name__ == "__main__":
    main()
