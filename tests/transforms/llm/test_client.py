"""The client's bounds on time: for the connection, the first byte, and the whole answer."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from transforms.llm.calls import CallClass
from transforms.llm.client import Client
from transforms.llm.client import Reply as ClientReply
from transforms.llm.fake_endpoint.replies import Reply
from transforms.llm.fake_endpoint.server import FakeEndpoint
from transforms.llm.settings import EngineSettings

BODY = b'{"model":"fake","messages":[{"role":"user","content":"Is it?"}]}'
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n"


def sent(base_url: str, **bounds: float) -> ClientReply:
    async def main() -> ClientReply:
        client = Client(EngineSettings(base_url, "fake", "cache", **bounds), "none")  # type: ignore[arg-type]
        client.open()
        try:
            return await client.send(BODY)
        finally:
            await client.close()

    return asyncio.run(asyncio.wait_for(main(), 60))


def test_no_first_byte_in_time() -> None:
    with FakeEndpoint(lambda index, body: Reply(hang=True)) as endpoint:
        reply = sent(endpoint.base_url, timeout=30, first_byte_timeout=0.2)
    assert (reply.fault, reply.detail) == (CallClass.TIMEOUT, "no byte of a reply in time")


def test_no_whole_answer_in_time() -> None:
    with FakeEndpoint(lambda index, body: Reply(hang=True)) as endpoint:
        reply = sent(endpoint.base_url, timeout=0.2, first_byte_timeout=30)
    assert (reply.fault, reply.detail) == (CallClass.TIMEOUT, "no whole reply in time")


def test_an_answer_that_comes_in_drops_is_bounded_as_a_whole() -> None:
    async def main() -> ClientReply:
        async def dribble(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(HEAD)
            try:
                while True:
                    writer.write(b" ")
                    await writer.drain()
                    await asyncio.sleep(0.05)
            except OSError:
                pass

        server = await asyncio.start_server(dribble, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        settings = EngineSettings(
            f"http://127.0.0.1:{port}/v1", "fake", "cache", timeout=0.6, first_byte_timeout=0.5
        )
        client = Client(settings, "none")
        client.open()
        reply = await client.send(BODY)
        await client.close()
        server.close()
        return reply

    reply = asyncio.run(asyncio.wait_for(main(), 60))
    assert (reply.fault, reply.detail) == (CallClass.TIMEOUT, "no whole reply in time")


@contextmanager
def full_listener() -> Iterator[int]:
    """Give the port of a socket whose queue of connections is full: the next one has to wait."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        port = listener.getsockname()[1]
        waiting = []
        for _ in range(4):
            one = socket.socket()
            one.setblocking(False)
            one.connect_ex(("127.0.0.1", port))
            waiting.append(one)
        yield port
        for one in waiting:
            one.close()


@pytest.mark.parametrize(
    ("odd", "body"),
    [
        (Reply(429, "<p>", {"Content-Type": "text/html; charset=hex", "Retry-After": "7"}), "<p>"),
        (Reply(429, "<p>", {"Content-Encoding": "gzip", "Retry-After": "7"}), ""),
        (Reply(429, "<p>", {"Retry-After": "7"}, cut=True), ""),
    ],
)
def test_an_error_keeps_its_status_and_headers_whatever_its_body(odd: Reply, body: str) -> None:
    with FakeEndpoint(lambda index, body: odd) as endpoint:
        reply = sent(endpoint.base_url)
    assert (reply.status, reply.body, reply.fault) == (429, body, None)
    assert reply.headers["retry-after"] == "7"


def test_an_answer_that_can_not_be_decoded_is_a_fault() -> None:
    odd = Reply(body="{}", headers={"Content-Encoding": "gzip"})
    with FakeEndpoint(lambda index, body: odd) as endpoint:
        reply = sent(endpoint.base_url)
    assert (reply.status, reply.fault, reply.reached) == (0, CallClass.SERVER, True)


def test_whatever_the_package_raises_is_a_fault_without_its_words(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise LookupError("harmful words")

    monkeypatch.setattr("transforms.llm.transport.AiohttpClient.build_request", fail)
    reply = sent("http://127.0.0.1:9/v1")
    assert (reply.fault, reply.detail) == (
        CallClass.SERVER,
        "a reply that can't be read: LookupError",
    )


def test_no_connection_in_time() -> None:
    with full_listener() as port:
        reply = sent(f"http://127.0.0.1:{port}/v1", timeout=30, connect_timeout=0.2)
    assert (reply.fault, reply.detail) == (CallClass.TIMEOUT, "no connection in time")
