"""Files and offline batches, as OpenAI's API has them: /v1/files and /v1/batches.

A batch is checked when it is made: what breaks a rule fails as a whole, with a code and a line.
Then it is in progress for some seconds, and ends as its fate is: completed; or expired or cancelled
with a part of its requests answered. Answered requests are lines of its output file, all others
lines of its error file.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from transforms.llm.fake_endpoint.batch_input import ENDPOINT, batch_error, check_input, page_of

#: From the bytes of a chat completion's request to the status and body of its reply.
Answer = Callable[[bytes], tuple[int, str]]

_UNANSWERED = {"expired": "batch_expired", "cancelled": "batch_cancelled"}


@dataclass(frozen=True)
class Fate:
    """How a batch ends.

    Attributes:
        status: completed, expired, cancelled or failed.
        share: of its requests that are answered before it does.
        code: why it fails.
    """

    status: str = "completed"
    share: float = 1.0
    code: str = ""


@dataclass
class _Batch:
    id: str
    created: float
    request: Mapping[str, Any]
    lines: list[dict[str, Any]]
    fate: Fate
    errors: list[dict[str, Any]]
    cancelled: float | None = None
    files: dict[str, str] | None = None
    counts: Counter[str] = field(default_factory=Counter)


class Batches:
    """The files and batches of a fake endpoint.

    Args:
        answer: what answers a request.
        seconds: how long a batch is in progress; may be changed at any time.
        fate: from a batch's number (from 0) to how it ends.
        refuse: what refuses an HTTP request, say for its key.
        event: told what was done ("file" or "batch") before the reply is sent.
        most_requests: of an input file.
        most_bytes: of an input file.
        most_waiting: requests of all batches that may be in progress at once.

    Attributes:
        answered: how often each request was answered, by its custom id: each time is paid for.
        files: content by id.
    """

    def __init__(
        self,
        answer: Answer,
        *,
        seconds: float = 0.0,
        fate: Callable[[int], Fate] = lambda number: Fate(),
        refuse: Callable[[web.Request], web.Response | None] = lambda request: None,
        event: Callable[[str], None] = lambda what: None,
        most_requests: int = 50_000,
        most_bytes: int = 200_000_000,
        most_waiting: int | None = None,
    ) -> None:
        self.seconds, self.fate, self.event = seconds, fate, event
        self.most_requests, self.most_bytes = most_requests, most_bytes
        self.most_waiting = most_waiting
        self.answered: Counter[str] = Counter()
        self.files: dict[str, bytes] = {}
        self._names: dict[str, str] = {}
        self._batches: dict[str, _Batch] = {}
        self._answer, self._refuse = answer, refuse

    def add_to(self, router: web.UrlDispatcher) -> None:
        """Add the routes to an application's ``router``."""
        for method, path, handler in (
            ("POST", "/v1/files", self._upload),
            ("GET", "/v1/files", self._list_files),
            ("GET", "/v1/files/{id}", self._show_file),
            ("DELETE", "/v1/files/{id}", self._delete_file),
            ("GET", "/v1/files/{id}/content", self._content),
            ("POST", "/v1/batches", self._create),
            ("GET", "/v1/batches", self._list),
            ("GET", "/v1/batches/{id}", self._show),
            ("POST", "/v1/batches/{id}/cancel", self._cancel),
        ):
            router.add_route(method, path, self._guarded(handler))

    def shown(self) -> list[dict[str, Any]]:
        """Return all batches as the API shows them, the newest first."""
        return [self._worded(batch) for batch in reversed(self._batches.values())]

    def _guarded(self, handler: Any) -> Any:
        async def guarded(request: web.Request) -> web.StreamResponse:
            refused: web.StreamResponse | None = self._refuse(request)
            return refused or await handler(request)

        return guarded

    async def _upload(self, request: web.Request) -> web.Response:
        form = await request.post()
        file = form.get("file")
        if form.get("purpose") != "batch" or not isinstance(file, web.FileField):
            return _failure(400, "invalid_request_error")
        identity = f"file-{len(self._names) + 1}"
        self.files[identity], self._names[identity] = file.file.read(), file.filename
        self.event("file")
        return web.json_response(self._file(identity))

    def _file(self, identity: str) -> dict[str, Any]:
        return {
            "id": identity,
            "object": "file",
            "bytes": len(self.files[identity]),
            "created_at": int(time.time()),
            "filename": self._names[identity],
            "purpose": "batch",
            "status": "processed",
        }

    async def _list_files(self, request: web.Request) -> web.Response:
        return web.json_response(
            page_of(request.query, [self._file(identity) for identity in reversed(self.files)])
        )

    async def _show_file(self, request: web.Request) -> web.Response:
        identity = request.match_info["id"]
        if identity not in self.files:
            return _failure(404, "not_found")
        return web.json_response(self._file(identity))

    async def _delete_file(self, request: web.Request) -> web.Response:
        identity = request.match_info["id"]
        if self.files.pop(identity, None) is None:
            return _failure(404, "not_found")
        return web.json_response({"id": identity, "object": "file", "deleted": True})

    async def _content(self, request: web.Request) -> web.Response:
        self._settle()
        data = self.files.get(request.match_info["id"])
        return _failure(404, "not_found") if data is None else web.Response(body=data)

    async def _create(self, request: web.Request) -> web.Response:
        made = await request.json()
        if made.get("input_file_id") not in self.files:
            return _failure(400, "invalid_request_error")
        if made.get("endpoint") != ENDPOINT or made.get("completion_window") != "24h":
            return _failure(400, "invalid_value")
        self._settle()
        number = len(self._batches)
        data = self.files[made["input_file_id"]]
        lines, errors = check_input(data, self.most_requests, self.most_bytes)
        waiting = sum(len(one.lines) for one in self._batches.values() if one.files is None)
        if self.most_waiting is not None and waiting + len(lines) > self.most_waiting:
            errors.append(batch_error("token_limit_exceeded"))
        fate = self.fate(number)
        if fate.status == "failed":
            errors.append(batch_error(fate.code))
        batch = _Batch(f"batch_{number + 1}", time.time(), made, lines, fate, errors)
        self._batches[batch.id] = batch
        self.event("batch")
        return web.json_response({**self._worded(batch), "status": "validating"})

    async def _list(self, request: web.Request) -> web.Response:
        return web.json_response(page_of(request.query, self.shown()))

    async def _show(self, request: web.Request) -> web.Response:
        batch = self._batches.get(request.match_info["id"])
        return (
            _failure(404, "not_found") if batch is None else web.json_response(self._worded(batch))
        )

    async def _cancel(self, request: web.Request) -> web.Response:
        batch = self._batches.get(request.match_info["id"])
        if batch is None:
            return _failure(404, "not_found")
        if batch.files is None and not batch.errors:
            batch.cancelled = time.time()
            batch.fate = Fate("cancelled", batch.fate.share)
        return web.json_response(self._worded(batch))

    def _status(self, batch: _Batch) -> str:
        if batch.errors:
            return "failed"
        if batch.files is not None:
            return batch.fate.status
        elapsed = time.time() - batch.created
        if elapsed >= self.seconds or batch.cancelled is not None:
            return batch.fate.status
        if elapsed < 0.1 * self.seconds:
            return "validating"
        return "in_progress" if elapsed < 0.9 * self.seconds else "finalizing"

    def _settle(self) -> None:
        """Answer the requests of every batch whose time is over."""
        for batch in self._batches.values():
            if batch.files is not None:
                continue
            status = self._status(batch)
            if status == "failed":
                batch.files = {}
            elif status in ("completed", "expired", "cancelled"):
                batch.files = self._answered(batch)

    def _answered(self, batch: _Batch) -> dict[str, str]:
        output, errors = [], []
        most = round(batch.fate.share * len(batch.lines))
        for number, line in enumerate(batch.lines):
            reply: dict[str, Any] = {"id": f"{batch.id}_req_{number}"}
            reply["custom_id"] = line["custom_id"]
            if number >= most:
                error = batch_error(_UNANSWERED[batch.fate.status])
                errors.append({**reply, "response": None, "error": error})
                continue
            body = json.dumps(line["body"], separators=(",", ":")).encode()
            status, text = self._answer(body)
            response = {"status_code": status, "request_id": "req", "body": json.loads(text)}
            if status == 200:
                self.answered[line["custom_id"]] += 1
                output.append({**reply, "response": response, "error": None})
            else:
                errors.append({**reply, "response": response, "error": None})
        batch.counts.update(total=len(batch.lines), completed=len(output), failed=len(errors))
        files = {}
        for kind, lines in (("output", output), ("error", errors)):
            if lines:
                files[kind] = f"file-{len(self._names) + 1}"
                self._names[files[kind]] = f"{batch.id}_{kind}.jsonl"
                self.files[files[kind]] = b"".join(
                    json.dumps(line).encode() + b"\n" for line in lines
                )
        return files

    def _worded(self, batch: _Batch) -> dict[str, Any]:
        self._settle()
        files = batch.files or {}
        return {
            "id": batch.id,
            "object": "batch",
            "endpoint": ENDPOINT,
            "errors": {"object": "list", "data": batch.errors} if batch.errors else None,
            "input_file_id": batch.request["input_file_id"],
            "completion_window": "24h",
            "status": self._status(batch),
            "output_file_id": files.get("output"),
            "error_file_id": files.get("error"),
            "created_at": int(batch.created),
            "expires_at": int(batch.created) + 24 * 3600,
            "request_counts": {
                name: batch.counts[name] for name in ("total", "completed", "failed")
            },
            "metadata": batch.request.get("metadata"),
        }


def _failure(status: int, code: str) -> web.Response:
    error = {"message": "as the fake endpoint has it", "type": code, "param": None, "code": code}
    return web.json_response({"error": error}, status=status)
