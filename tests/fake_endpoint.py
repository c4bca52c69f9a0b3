"""An OpenAI-compatible endpoint on loopback, for tests and benchmarks: it counts, waits and fails.

In a test's own process it runs in a thread (``with FakeEndpoint() as endpoint``), programmable by
a function; as a process of its own (``python tests/fake_endpoint.py --latency fixed:0.05``) it
prints its base URL as its first line and serves until its standard input closes. Answers are made
from the JSON schema in the request, the same for the same messages.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import math
import random
import sys
import threading
from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from transforms.llm.fake_endpoint.batches import Batches

Latency = Callable[[int], float]


@dataclass(frozen=True)
class Reply:
    """What the endpoint does with one request.

    ``body`` None is the ordinary answer. ``hang`` answers never, ``cut`` closes the connection
    after half of the body.
    """

    status: int = 200
    body: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    delay: float | None = None
    hang: bool = False
    cut: bool = False


#: From the request's number (from 0) and its parsed body to what is done; None: the ordinary.
Script = Callable[[int, Mapping[str, Any]], "Reply | None"]


def completion(
    content: str | None, finish_reason: str = "stop", refusal: str | None = None, tokens: int = 20
) -> str:
    """Return a chat completion as the endpoint words it."""
    return json.dumps(
        {
            "id": "chatcmpl-fake",
            "object": "chat.completion",
            "created": 0,
            "model": "fake",
            "choices": [
                {
                    "index": 0,
                    "finish_reason": finish_reason,
                    "message": {"role": "assistant", "content": content, "refusal": refusal},
                }
            ],
            "usage": {
                "prompt_tokens": 100,
                "completion_tokens": tokens,
                "total_tokens": 100 + tokens,
            },
        }
    )


def failure(status: int, code: str | int | None, **headers: str) -> Reply:
    """Return an error reply; underscores in header names stand for hyphens."""
    error = {"message": "as scripted", "type": "scripted", "param": None, "code": code}
    return Reply(
        status=status,
        body=json.dumps({"error": error}),
        headers={name.replace("_", "-"): value for name, value in headers.items()},
    )


def answer(schema: Mapping[str, Any], source: random.Random) -> Any:
    """Return a value that fits ``schema``, drawn from ``source``."""
    if "const" in schema:
        return schema["const"]
    if "enum" in schema:
        return source.choice(schema["enum"])
    kind = schema.get("type", "object")
    kind = kind[0] if isinstance(kind, list) else kind
    if kind == "object":
        return {name: answer(inner, source) for name, inner in schema["properties"].items()}
    if kind == "array":
        low = schema.get("minItems", 1)
        count = source.randint(low, max(low, min(schema.get("maxItems", low + 2), low + 2)))
        return [answer(schema["items"], source) for _ in range(count)]
    if kind in ("integer", "number"):
        return source.randint(int(schema.get("minimum", 0)), int(schema.get("maximum", 10)))
    if kind == "boolean":
        return source.random() < 0.5
    return _sentence(schema, source)


_WORDS = (
    "I", "you", "we", "they", "thought", "that", "it", "would", "be", "fine", "to", "keep", "the",
    "small", "secret", "from", "my", "friend", "because", "nobody", "asked", "about", "this", "and",
    "everyone", "was", "busy", "with", "other", "things", "on", "long", "day",
)  # fmt: skip


def _sentence(schema: Mapping[str, Any], source: random.Random) -> str:
    least, most = schema.get("minLength", 0), schema.get("maxLength", 120)
    text = " ".join(source.choices(_WORDS, k=12)).capitalize() + "."
    while len(text) < least:
        text += " " + " ".join(source.choices(_WORDS, k=6)).capitalize() + "."
    return text[:most]


def latency(spec: str, seed: int = 0) -> Latency:
    """Return the latency by request number of ``fixed:SECONDS`` or ``lognormal:MEDIAN:SIGMA``."""
    kind, *numbers = spec.split(":")
    if kind == "fixed":
        seconds = float(numbers[0])
        return lambda index: seconds
    median, sigma = map(float, numbers)
    drawn = random.Random(seed)
    table = [drawn.lognormvariate(math.log(median), sigma) for _ in range(4096)]
    return lambda index: table[index % len(table)]


class FakeEndpoint:
    """The endpoint; its counts are read while it runs or afterwards.

    Attributes:
        requests: chat completions asked for.
        answered: those whose whole reply was handed to the connection.
        seen: how often each body came, by the SHA-256 of its bytes.
        bodies: the last thousand, parsed.
        peak: most requests that were in work at once.
    """

    def __init__(
        self,
        script: Script = lambda index, body: None,
        *,
        latency: Latency = lambda index: 0.0,
        models: tuple[str, ...] = ("fake",),
        key: str | None = None,
        lists_models: bool = True,
    ) -> None:
        self.script, self.latency, self.models, self.key = script, latency, models, key
        self.lists_models = lists_models
        self.requests = self.answered = self.in_work = self.peak = 0
        self.seen: Counter[str] = Counter()
        self.bodies: deque[Mapping[str, Any]] = deque(maxlen=1000)
        self.base_url = ""
        self.batches = Batches(self._batch_answer, refuse=self._refused)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def __enter__(self) -> FakeEndpoint:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self.start(), self._loop).result(30)
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self.stop(), self._loop).result(30)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(30)
        self._loop.close()

    async def start(self, port: int = 0) -> None:
        """Listen on ``port`` of loopback, on any free one for 0."""
        application = web.Application(client_max_size=64 * 1024 * 1024)
        application.router.add_post("/v1/chat/completions", self._complete)
        if self.lists_models:
            application.router.add_get("/v1/models", self._list_models)
        application.router.add_get("/counts", self._counts)
        self.batches.add_to(application.router)
        self._runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", port, backlog=1024)
        await site.start()
        port = self._runner.addresses[0][1]
        self.base_url = f"http://127.0.0.1:{port}/v1"

    async def stop(self) -> None:
        """Stop listening and cut what is open."""
        await self._runner.cleanup()
        hanging = asyncio.all_tasks() - {asyncio.current_task()}
        for task in hanging:
            task.cancel()
        await asyncio.gather(*hanging, return_exceptions=True)

    def _refused(self, request: web.Request) -> web.Response | None:
        if self.key is None or request.headers.get("Authorization") == f"Bearer {self.key}":
            return None
        reply = failure(401, "invalid_api_key")
        return web.Response(status=401, text=reply.body, content_type="application/json")

    def _batch_answer(self, data: bytes) -> tuple[int, str]:
        body = json.loads(data)
        reply = self.script(self.batches.answered.total(), body) or Reply()
        text = completion(_content(body, data)) if reply.body is None else reply.body
        return reply.status, text

    async def _list_models(self, request: web.Request) -> web.Response:
        listed = [{"id": name, "object": "model"} for name in self.models]
        return self._refused(request) or web.json_response({"object": "list", "data": listed})

    async def _counts(self, request: web.Request) -> web.Response:
        return web.json_response(
            {"requests": self.requests, "answered": self.answered, "peak": self.peak}
        )

    async def _complete(self, request: web.Request) -> web.StreamResponse:
        data = await request.read()
        index = self.requests
        self.requests += 1
        self.in_work += 1
        self.peak = max(self.peak, self.in_work)
        try:
            return await self._reply(request, data, index)
        finally:
            self.in_work -= 1

    async def _reply(self, request: web.Request, data: bytes, index: int) -> web.StreamResponse:
        self.seen[hashlib.sha256(data).hexdigest()] += 1
        body = json.loads(data)
        self.bodies.append(body)
        refused = self._refused(request)
        if refused is not None:
            return refused
        reply = self.script(index, body) or Reply()
        await asyncio.sleep(self.latency(index) if reply.delay is None else reply.delay)
        if reply.hang:
            await asyncio.sleep(3600)
        text = completion(_content(body, data)) if reply.body is None else reply.body
        response = web.StreamResponse(
            status=reply.status,
            headers={"Content-Type": "application/json", **reply.headers},
        )
        payload = text.encode("utf-8", "surrogatepass")
        response.content_length = len(payload)
        await response.prepare(request)
        if reply.cut:
            await response.write(payload[: len(payload) // 2])
            assert request.transport is not None
            request.transport.close()
            return response
        await response.write(payload)
        await response.write_eof()
        self.answered += 1
        return response


def _content(body: Mapping[str, Any], data: bytes) -> str:
    schema = body.get("response_format", {}).get("json_schema", {}).get("schema")
    if schema is None:
        schema = _schema_in_text(body)
    source = random.Random(hashlib.sha256(data).digest())
    return json.dumps(answer(schema, source), separators=(",", ":"))


def _schema_in_text(body: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the schema that stands in the system message, where it is not sent as such."""
    _, mark, text = body["messages"][0]["content"].rpartition("JSON schema: ")
    if not mark:
        return {"type": "object", "properties": {"text": {"type": "string"}}}
    schema: Mapping[str, Any] = json.JSONDecoder().raw_decode(text)[0]
    return schema


async def _serve(endpoint: FakeEndpoint, port: int) -> None:
    await endpoint.start(port)
    sys.stdout.write(f"{endpoint.base_url}\n")
    sys.stdout.flush()
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    await endpoint.stop()


def main() -> None:
    """Serve until standard input closes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--latency", default="fixed:0")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--model", action="append", default=[])
    parser.add_argument("--key")
    options = parser.parse_args()
    endpoint = FakeEndpoint(
        latency=latency(options.latency, options.seed),
        models=tuple(options.model) or ("fake",),
        key=options.key,
    )
    asyncio.run(_serve(endpoint, options.port))


if __name__ == "__main__":
    main()
