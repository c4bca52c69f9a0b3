"""The server: what comes in is counted, limited, answered or failed.

In a test's own process it runs in a thread (``with FakeEndpoint() as endpoint``), programmable by a
function; ``remint fake-endpoint`` runs it as a process of its own.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import math
import threading
from collections import Counter, deque
from collections.abc import Callable, Mapping
from typing import Any

from aiohttp import web

from transforms.llm.fake_endpoint.answers import answered
from transforms.llm.fake_endpoint.batches import Batches
from transforms.llm.fake_endpoint.faults import FaultPlan, draws
from transforms.llm.fake_endpoint.latency import Latency, constant
from transforms.llm.fake_endpoint.replies import Completion, Reply, failure
from transforms.llm.fake_endpoint.windows import RateLimits, RateWindows

#: From the request's number (from 0) and its parsed body to what is done; None: the ordinary.
Script = Callable[[int, Mapping[str, Any]], "Reply | None"]

#: Pieces that a slow answer comes in.
_PIECES = 10


class FakeEndpoint:
    """The endpoint; its counts are read while it runs or afterwards.

    Args:
        script: what it does with a request, where that is to be programmed.
        latency: seconds before a reply.
        faults: the faults that requests meet where the script leaves them alone.
        limits: the rates it keeps; a request above them is answered with 429.
        models: what it lists as its models.
        key: the API key it wants; None: none.
        lists_models: whether it lists its models at all.
        seed: of the draws of latencies and faults.

    Attributes:
        requests: chat completions asked for.
        answered: those whose whole reply was handed to the connection.
        seen: how often each body came, by the SHA-256 of its bytes.
        completed: how often each of them was answered with a whole completion.
        prompt_tokens: of the questions that were answered with status 200.
        completion_tokens: of those answers.
        met: how many requests met each fault; ``limit`` are those above a rate.
        statuses: replies by HTTP status.
        bodies: the last thousand, parsed.
        peak: most requests that were in work at once.
        began: when two requests were first in work at once (what came before, one after the other,
            is a client that tries the endpoint), else the first; seconds of the event loop's clock.
        ended: when the last request was over.
        windows: what came in any window.
        batches: its files and offline batches, whose requests are not counted above.
    """

    def __init__(
        self,
        script: Script = lambda index, body: None,
        *,
        latency: Latency = constant(0.0),  # noqa: B008 - a function without a state
        faults: FaultPlan | None = None,
        limits: RateLimits | None = None,
        models: tuple[str, ...] = ("fake",),
        key: str | None = None,
        lists_models: bool = True,
        seed: int = 0,
    ) -> None:
        self.script, self.latency, self.models, self.key = script, latency, models, key
        self.lists_models = lists_models
        self.faults = faults or FaultPlan({})
        self.windows = RateWindows(limits or RateLimits())
        self.seed = seed
        self.requests = self.answered = self.in_work = self.peak = 0
        self.began = self.ended = 0.0
        self.prompt_tokens = self.completion_tokens = 0
        self.seen: Counter[str] = Counter()
        self.completed: Counter[str] = Counter()
        self.met: Counter[str] = Counter()
        self.statuses: Counter[int] = Counter()
        self.bodies: deque[Mapping[str, Any]] = deque(maxlen=1000)
        self.base_url = ""
        self.batches = Batches(self._answer_of_batch, refuse=self._refusal)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def __enter__(self) -> FakeEndpoint:
        """Serve in a thread."""
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self.start(), self._loop).result(30)
        return self

    def __exit__(self, *_: object) -> None:
        """Stop the thread."""
        asyncio.run_coroutine_threadsafe(self.stop(), self._loop).result(30)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(30)
        self._loop.close()

    async def start(self, port: int = 0) -> None:
        """Listen on ``port`` of loopback, on any free one for 0.

        Raises:
            OSError: the port is taken.
        """
        application = web.Application(client_max_size=256 * 1024 * 1024)
        application.router.add_post("/v1/chat/completions", self._complete)
        if self.lists_models:
            application.router.add_get("/v1/models", self._list_models)
        self.batches.add_to(application.router)
        application.router.add_get("/admin/counts", self._show_counts)
        application.router.add_get("/admin/bodies", self._show_bodies)
        # A request whose client has gone is not in work any more.
        self._runner = web.AppRunner(
            application, access_log=None, shutdown_timeout=0.1, handler_cancellation=True
        )
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

    def counts(self) -> dict[str, Any]:
        """Return what came and what was done with it, as ``/admin/counts`` shows it."""
        limits = self.windows.limits
        requests, tokens = self.windows.seen
        return {
            "requests": self.requests,
            "answered": self.answered,
            "peak": self.peak,
            "seconds": round(self.ended - self.began, 4),
            "bodies": {
                "distinct": len(self.seen),
                "most_often_seen": max(self.seen.values(), default=0),
                "completed_again": self.completed.total() - len(self.completed),
            },
            "tokens": {"prompt": self.prompt_tokens, "completion": self.completion_tokens},
            "faults": dict(sorted(self.met.items())),
            "statuses": {str(status): n for status, n in sorted(self.statuses.items())},
            "window": {
                "seconds": limits.seconds,
                "requests": {"limit": limits.requests, "greatest": requests.greatest},
                "tokens": {"limit": limits.tokens, "greatest": tokens.greatest},
            },
        }

    async def _show_counts(self, request: web.Request) -> web.Response:
        return web.json_response(self.counts())

    async def _show_bodies(self, request: web.Request) -> web.Response:
        return web.json_response(
            {body: [seen, self.completed[body]] for body, seen in sorted(self.seen.items())}
        )

    def _refused(self, request: web.Request) -> Reply | None:
        if self.key is None or request.headers.get("Authorization") == f"Bearer {self.key}":
            return None
        return failure(401, "invalid_api_key")

    def _refusal(self, request: web.Request) -> web.Response | None:
        refused = self._refused(request)
        if refused is None:
            return None
        return web.Response(
            status=refused.status, text=refused.body, content_type="application/json"
        )

    def _answer_of_batch(self, data: bytes) -> tuple[int, str]:
        """Return what a batch has for a request: what is no answer in it is no fault of a line."""
        body = json.loads(data)
        ordinary = answered(body, hashlib.sha256(data).digest())
        reply = self.script(self.batches.answered.total(), body) or Reply()
        return reply.status, ordinary.worded() if reply.body is None else reply.body

    async def _list_models(self, request: web.Request) -> web.Response:
        refused = self._refusal(request)
        if refused is not None:
            return refused
        listed = [{"id": name, "object": "model"} for name in self.models]
        return web.json_response({"object": "list", "data": listed})

    async def _complete(self, request: web.Request) -> web.StreamResponse:
        data = await request.read()
        index = self.requests
        self.requests += 1
        self.in_work += 1
        if self.peak < min(self.in_work, 2):
            self.began = asyncio.get_running_loop().time()
        self.peak = max(self.peak, self.in_work)
        try:
            return await self._replied(request, data, index)
        finally:
            self.in_work -= 1
            self.ended = asyncio.get_running_loop().time()

    async def _replied(self, request: web.Request, data: bytes, index: int) -> web.StreamResponse:
        digest = hashlib.sha256(data).digest()
        name = digest.hex()
        self.seen[name] += 1
        try:
            body = json.loads(data)
            ordinary = answered(body, digest)
        except (ValueError, KeyError, TypeError, AttributeError, IndexError):
            self.statuses[400] += 1
            wrong = failure(400, "invalid_request_error")
            return await _send(request, wrong, str(wrong.body).encode(), {})
        self.bodies.append(body)
        drawn = draws(digest, self.seen[name], self.seed)
        now = asyncio.get_running_loop().time()
        reply, headers = self._decided(request, index, body, ordinary, now, drawn.fault)
        delay = self._latency(body, self.seen[name]) if reply.delay is None else reply.delay
        if delay:
            await asyncio.sleep(delay)
        while reply.hang:
            await asyncio.sleep(3600)
        text = ordinary.worded() if reply.body is None else reply.body
        self.statuses[reply.status] += 1
        response = await _send(request, reply, text.encode("utf-8", "surrogatepass"), headers)
        if not reply.cut:
            self.answered += 1
            if reply.status == 200:
                self.completed[name] += 1
                self.prompt_tokens += ordinary.prompt_tokens
                self.completion_tokens += ordinary.completion_tokens
        return response

    def _latency(self, body: Mapping[str, Any], attempt: int) -> float:
        """Return the seconds for ``body``, the same whichever client words these messages."""
        asked = json.dumps(body["messages"], sort_keys=True).encode()
        return self.latency(draws(hashlib.sha256(asked).digest(), attempt, self.seed).latency)

    def _decided(
        self,
        request: web.Request,
        index: int,
        body: Mapping[str, Any],
        ordinary: Completion,
        now: float,
        drawn: float,
    ) -> tuple[Reply, Mapping[str, str]]:
        refused = self._refused(request)
        if refused is not None:
            return refused, {}
        wait = self.windows.admit(ordinary.tokens, now)
        headers = self.windows.headers(now)
        if wait:
            self.met["limit"] += 1
            if not math.isfinite(wait):
                return failure(429, "rate_limit_exceeded"), headers
            asked = {"retry_after": str(math.ceil(wait)), "retry_after_ms": f"{1000 * wait:.0f}"}
            return failure(429, "rate_limit_exceeded", **asked), headers
        scripted = self.script(index, body)
        if scripted is not None:
            return scripted, headers
        fault = self.faults.fault(drawn)
        if fault is None:
            return Reply(), headers
        self.met[fault] += 1
        return self.faults.reply(fault, ordinary), headers


async def _send(
    request: web.Request, reply: Reply, payload: bytes, headers: Mapping[str, str]
) -> web.StreamResponse:
    """Send ``payload`` as ``reply`` says; it is with the connection when this returns."""
    headers = {"Content-Type": "application/json", **headers, **reply.headers}
    if not (reply.cut or reply.pace):
        whole = web.Response(status=reply.status, headers=headers, body=payload)
        await whole.prepare(request)
        await whole.write_eof()
        return whole
    response = web.StreamResponse(status=reply.status, headers=headers)
    response.content_length = len(payload)
    await response.prepare(request)
    if reply.cut:
        await response.write(payload[: len(payload) // 2])
        if request.transport is not None:
            request.transport.close()
        return response
    size = math.ceil(len(payload) / _PIECES)
    for start in range(0, len(payload), size):
        await asyncio.sleep(reply.pace / _PIECES)
        await response.write(payload[start : start + size])
    await response.write_eof()
    return response
