"""The client: one attempt at one call, by the openai package on its cheapest path.

Measured CPU per call (two cores, 64 in flight, 50 ms): ``chat.completions.create`` on the
package's aiohttp transport 0.84 ms, ``post`` of ready bytes 0.40 ms, with the HTTP client of
``transforms.llm.transport`` 0.27 ms; bare aiohttp 0.12 ms. Retries are not its business.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from transforms.llm.calls import CallClass
from transforms.llm.settings import EngineSettings


class Reply(NamedTuple):
    """What came of one attempt: status, body and headers (whatever their case), or a fault.

    ``reached`` is False where there was no connection, so that nothing can have been worked on.
    """

    status: int
    body: str
    headers: Mapping[str, str]
    fault: CallClass | None = None
    detail: str | None = None
    reached: bool = True


class Client:
    """Sends request bodies; used on one event loop, never pickled.

    The package is imported when it is opened, for the first call: a run whose answers are all
    cached does without.
    """

    def __init__(self, settings: EngineSettings, api_key: str) -> None:
        self._settings = settings
        self._api_key = api_key
        self._url = settings.base_url.rstrip("/") + "/chat/completions"
        self._options: Any = {"headers": {"Content-Type": "application/json"}}
        self._client: Any = None

    def open(self) -> None:
        """Import the package, unless that is done: it takes longer than a request may be late."""
        if self._client is None:
            self._client = self._opened()

    def _opened(self) -> Any:
        import httpx2
        import openai

        from transforms.llm.transport import AiohttpClient

        self._openai = openai
        self._response = httpx2.Response
        self._no_connection = (httpx2.ConnectError, httpx2.ConnectTimeout)
        settings = self._settings
        return openai.AsyncOpenAI(
            api_key=self._api_key,
            base_url=settings.base_url,
            max_retries=0,
            http_client=AiohttpClient(
                settings.base_url,
                settings.timeout,
                settings.connect_timeout,
                settings.first_byte_timeout,
            ),
        )

    async def send(self, body: bytes) -> Reply:
        """Return the reply to one attempt; a network's failure is in it, not raised.

        Bytes of a reply that are no UTF-8 become lone surrogates. The client is open.
        """
        try:
            response = await self._client.post(
                self._url, cast_to=self._response, content=body, options=self._options
            )
        except self._openai.APIStatusError as error:
            response = error.response
        except self._openai.APITimeoutError as error:
            return self._fault(CallClass.TIMEOUT, str(error.__cause__), error)
        except self._openai.APIConnectionError as error:
            return self._fault(CallClass.SERVER, f"no connection: {error.__cause__}", error)
        except Exception as error:
            # Its words might quote the reply.
            detail = f"a reply that can't be read: {type(error).__name__}"
            return self._fault(CallClass.SERVER, detail, error)
        return Reply(
            response.status_code,
            response.content.decode("utf-8", "surrogateescape"),
            response.headers,
        )

    def _fault(self, fault: CallClass, detail: str, error: Exception) -> Reply:
        reached = not isinstance(error.__cause__, self._no_connection)
        return Reply(0, "", {}, fault, detail, reached)

    async def close(self) -> None:
        """Close the connections."""
        if self._client is not None:
            await self._client.close()
