"""The HTTP client that the openai package is handed: aiohttp with nothing in between.

The package builds its request and checks its status as ever; what is left out is httpx's own
merging, authentication, cookies and redirects, and its transport's mapping of a cut connection to
a connect time-out. Imported where a client is made, not before.
"""

from __future__ import annotations

import asyncio
import functools
from typing import Any

import aiohttp
import httpx2

from transforms.llm.proxy import environment_proxy

# aiohttp has decoded the body already, and the package must not do so again.
_DECODED = frozenset({b"content-encoding", b"content-length", b"transfer-encoding"})

#: What is raised before anything has come to the endpoint.
_NOT_REACHED = (aiohttp.ClientConnectorError, aiohttp.ClientHttpProxyError, aiohttp.InvalidURL)

#: Parsing the one URL of all calls takes longer than anything else that is done to a request.
_parsed = functools.lru_cache(maxsize=8)(httpx2.URL)


async def _read(response: aiohttp.ClientResponse) -> bytes:
    try:
        return await response.read()
    except aiohttp.ClientPayloadError:
        if response.status < 400:
            raise
        return b""  # an error's status and headers tell enough


class AiohttpClient(httpx2.AsyncClient):
    """An httpx client whose ``send`` is one aiohttp request.

    ``timeout`` bounds the whole exchange, ``connect_timeout`` making the connection (with TLS),
    ``first_byte_timeout`` the silence before the answer's first byte and between any two; seconds.
    A proxy comes from the environment; redirects are not followed.
    """

    def __init__(
        self,
        base_url: str,
        timeout: float,
        connect_timeout: float,
        first_byte_timeout: float | None = None,
    ) -> None:
        super().__init__(transport=httpx2.AsyncBaseTransport(), trust_env=False)
        # Looked up once: aiohttp's own trust_env asks a thread before each request.
        self._proxy = environment_proxy(base_url)
        self._session: aiohttp.ClientSession | None = None
        self._bounds = aiohttp.ClientTimeout(
            total=timeout, connect=connect_timeout, sock_read=first_byte_timeout
        )

    def build_request(self, method: str, url: Any, **given: Any) -> httpx2.Request:
        """Return the request as the openai package words it, with no header added.

        Its headers stay as they were given: that is what aiohttp takes.
        """
        return httpx2.Request(
            method,
            _parsed(url),
            stream=httpx2.ByteStream(given["content"]),
            extensions={"sent": given},
        )

    async def send(self, request: httpx2.Request, **_: Any) -> httpx2.Response:
        """Return the response, read to its end.

        Raises:
            httpx2.TimeoutException: one of the bounds was reached.
            httpx2.NetworkError: there was no connection, or it was cut.
        """
        if self._session is None:
            self._session = self._open()
        try:
            async with self._session.request(
                request.method,
                str(request.url),
                data=request.extensions["sent"]["content"],
                headers=request.extensions["sent"]["headers"],
                allow_redirects=False,
            ) as response:
                content = await _read(response)
        except aiohttp.ConnectionTimeoutError as error:
            raise httpx2.ConnectTimeout("no connection in time") from error
        except aiohttp.SocketTimeoutError as error:
            raise httpx2.ReadTimeout("no byte of a reply in time") from error
        except asyncio.TimeoutError as error:
            raise httpx2.ReadTimeout("no whole reply in time") from error
        except _NOT_REACHED as error:
            raise httpx2.ConnectError(type(error).__name__) from error
        except (aiohttp.ClientError, OSError) as error:
            raise httpx2.NetworkError(type(error).__name__) from error
        headers = [pair for pair in response.raw_headers if pair[0].lower() not in _DECODED]
        made = httpx2.Response(response.status, headers=headers, content=content, request=request)
        # JSON has no other; the package reads an error's text, and a charset may be unreadable.
        made.encoding = "utf-8"
        return made

    def _open(self) -> aiohttp.ClientSession:
        return aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, ssl=httpx2.create_ssl_context()),
            timeout=self._bounds,
            cookie_jar=aiohttp.DummyCookieJar(),
            proxy=self._proxy,
        )

    async def aclose(self) -> None:
        """Close the connections."""
        if self._session is not None:
            await self._session.close()
        await super().aclose()
