"""The environment's proxy: what is taken, what is refused, and what a call comes to by it."""

from __future__ import annotations

import asyncio
import contextlib
import os

import pytest

from transforms.errors import EndpointError
from transforms.llm.batch.endpoint import BatchEndpoint
from transforms.llm.calls import CallClass
from transforms.llm.client import Client, Reply
from transforms.llm.preflight import check_endpoint
from transforms.llm.proxy import environment_proxy, http_client
from transforms.llm.settings import EngineSettings

ENDPOINT = "http://endpoint.invalid/v1"


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)


@pytest.mark.parametrize(
    ("environment", "proxy"),
    [
        ({}, None),
        ({"http_proxy": "http://10.0.0.1:3128"}, "http://10.0.0.1:3128"),
        ({"http_proxy": "10.0.0.1:3128"}, "http://10.0.0.1:3128"),
        ({"http_proxy": "user:word@proxy"}, "http://user:word@proxy"),
        ({"HTTPS_PROXY": "http://10.0.0.1:3128"}, None),
        ({"ALL_PROXY": "10.0.0.1:3128"}, "http://10.0.0.1:3128"),
        ({"ALL_PROXY": "socks5://10.0.0.1", "http_proxy": "https://p:1"}, "https://p:1"),
        ({"http_proxy": "socks5://10.0.0.1", "no_proxy": "endpoint.invalid"}, None),
    ],
)
def test_the_proxy_of_the_environment(
    environment: dict[str, str], proxy: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert environment_proxy(ENDPOINT) == proxy
    assert environment_proxy("http://127.0.0.1:8000/v1") is None


@pytest.mark.parametrize("value", ["socks5://u:word@10.0.0.1", "http://", "http://10.0.0.1:port"])
def test_what_is_no_proxy_is_refused_before_a_call(
    value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", value)
    with pytest.raises(EndpointError, match="HTTP_PROXY names no HTTP proxy") as raised:
        check_endpoint(EngineSettings(ENDPOINT, "fake", "cache"), "none")
    assert "word" not in str(raised.value)


@pytest.mark.parametrize("name", ["no_proxy", "http_proxy"])
def test_a_proxy_that_is_not_for_the_endpoint_is_no_fault(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = EngineSettings("http://endpoint.invalid:9/v1", "fake", "cache", retries=0)
    monkeypatch.setenv("ALL_PROXY", "socks5://10.0.0.1")
    monkeypatch.setenv(name, {"no_proxy": "endpoint.invalid"}.get(name, "http://127.0.0.1:9"))
    with pytest.raises(EndpointError, match="unreachable"):
        check_endpoint(settings, "none")
    with (
        contextlib.closing(BatchEndpoint(settings, "none")) as endpoint,
        pytest.raises(EndpointError, match="no reply"),
    ):
        endpoint.check()


def test_a_batch_takes_no_proxy_that_calls_cannot(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALL_PROXY", "socks5://10.0.0.1")
    with pytest.raises(EndpointError, match="ALL_PROXY names no HTTP proxy"):
        BatchEndpoint(EngineSettings(ENDPOINT, "fake", "cache"), "none")


def test_the_certificates_of_the_environment_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", "/nowhere/certificates.pem")
    with pytest.raises(FileNotFoundError):
        http_client(ENDPOINT)


async def send(base_url: str) -> Reply:
    client = Client(EngineSettings(base_url, "fake", "cache"), "none")
    client.open()
    try:
        return await client.send(b"{}")
    finally:
        await client.close()


def test_what_a_proxy_keeps_has_not_reached_the_endpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "127.0.0.1:9")
    reply = asyncio.run(asyncio.wait_for(send(ENDPOINT), 60))
    assert (reply.fault, reply.reached) == (CallClass.SERVER, False)


def test_a_proxy_that_refuses_the_tunnel_has_not_reached_the_endpoint(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n")
        await writer.drain()
        writer.close()

    async def main() -> Reply:
        async with await asyncio.start_server(refuse, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            monkeypatch.setenv("https_proxy", f"127.0.0.1:{port}")
            return await send("https://endpoint.invalid/v1")

    reply = asyncio.run(asyncio.wait_for(main(), 60))
    assert (reply.fault, reply.reached) == (CallClass.SERVER, False)
