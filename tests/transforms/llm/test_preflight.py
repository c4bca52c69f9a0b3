"""Each way an endpoint can be unusable has a message of its own, and none tells a secret."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from transforms.errors import EndpointError
from transforms.llm import preflight
from transforms.llm.fake_endpoint.server import FakeEndpoint
from transforms.llm.preflight import check_endpoint
from transforms.llm.settings import EngineSettings

Make = Callable[..., EngineSettings]


@contextmanager
def server(status: int, body: str, content_type: str = "application/json") -> Iterator[str]:
    """Run a server that answers everything alike."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.send_header("Content-Type", content_type)
            self.end_headers()
            self.wfile.write(body.encode())

        def log_message(self, *_: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        threading.Thread(target=running.serve_forever, args=(0.01,), daemon=True).start()
        yield f"http://127.0.0.1:{running.server_port}/v1"
        running.shutdown()


def fault(settings: EngineSettings, key: str = "sk-secret") -> str:
    with pytest.raises(EndpointError) as raised:
        check_endpoint(settings, key)
    message = str(raised.value)
    assert "secret" not in message
    return message


def test_a_usable_endpoint_passes(settings: Make) -> None:
    with FakeEndpoint(key="sk-secret", models=("other", "fake")) as endpoint:
        check_endpoint(settings(endpoint.base_url), "sk-secret")
        assert "the key was rejected (HTTP 401)" in fault(settings(endpoint.base_url), "sk-secret2")
    with FakeEndpoint(models=("models/fake",)) as endpoint:
        check_endpoint(settings(endpoint.base_url), "none")


def test_an_unknown_model_is_told_with_five_known_ones(settings: Make) -> None:
    with FakeEndpoint(models=tuple("gfedcba")) as endpoint:
        message = fault(settings(endpoint.base_url))
    assert message.endswith("has no model 'fake'; it has a, b, c, d, e and 2 more")


def test_an_endpoint_without_a_list_is_taken_as_it_is(
    settings: Make, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    with FakeEndpoint(lists_models=False) as endpoint:
        check_endpoint(settings(endpoint.base_url), "none")
    assert "its model is not checked" in caplog.text


def test_an_unreachable_endpoint_says_why(settings: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preflight, "SECONDS", 0.2)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    assert "connection refused" in fault(settings(f"http://127.0.0.1:{port}/v1"))
    assert "host name is not known" in fault(settings("http://nowhere.invalid/v1"))
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/v1"
        assert "no answer in time" in fault(settings(url), "sk-secret")


def test_what_is_no_such_endpoint_is_told(settings: Make) -> None:
    for body, kind in (
        ("<html>hello</html>", "text/html"),
        (json.dumps({"models": []}), "application/json"),
        (json.dumps({"data": ["fake"]}), "application/json"),
        ("[]", "application/json"),
    ):
        with server(200, body, kind) as url:
            assert "not an OpenAI-compatible endpoint" in fault(settings(url))
    with server(403, "{}") as url:
        assert "the key was rejected (HTTP 403)" in fault(settings(url))
    with server(503, "sk-secret") as url:
        assert "HTTP 503" in fault(settings(url))


def test_what_cannot_be_asked_is_told(settings: Make) -> None:
    assert "not a base URL" in fault(settings("localhost:8000"))
    assert "holds credentials" in fault(settings("http://user:secret@localhost/v1"))
    for key in ("", "sk-secret\n", "sk secret", "sk-secrét"):
        assert "OPENAI_API_KEY" in fault(settings("http://localhost/v1"), key)
