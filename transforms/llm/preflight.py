"""A look at the endpoint before a graph is built or a call is paid."""

from __future__ import annotations

import logging
import socket
from typing import Any
from urllib.parse import urlsplit

from transforms.errors import EndpointError
from transforms.llm.proxy import http_client
from transforms.llm.settings import EngineSettings, endpoint_identity

_SHOWN = 5
SECONDS = 15.0

logger = logging.getLogger(__name__)


def check_endpoint(settings: EngineSettings, api_key: str) -> None:
    """Ask the endpoint for its models, and see that the one of ``settings`` is among them.

    An endpoint that lists no models (404 or 405, or an empty list) is taken as it is, with a line
    in the log. Messages never hold the key, nor credentials of the URL.

    Raises:
        EndpointError: unreachable, key rejected, model unknown, nothing of the OpenAI kind, or no
            proxy that calls can take.
    """
    where = endpoint_identity(settings.base_url)
    source = settings.key_source or "an api_key"
    parts = urlsplit(settings.base_url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise EndpointError(f"{where}: not a base URL; give one like https://api.openai.com/v1")
    if parts.username or parts.password:
        raise EndpointError(f"{where}: the base URL holds credentials; use {source} instead")
    if not api_key or not api_key.isascii() or not api_key.isprintable() or " " in api_key:
        raise EndpointError(f"{source} is empty, or has characters that no key has")
    status, body = _models(settings, api_key, where)
    if status in (401, 403):
        raise EndpointError(
            f"{where}: the key was rejected (HTTP {status}); "
            f"set {source} to one that is valid for this endpoint"
        )
    if status in (404, 405):
        logger.info("%s lists no models (HTTP %d); its model is not checked", where, status)
        return
    if status != 200:
        raise EndpointError(f"{where}: asked for its models it answers HTTP {status}; try later")
    listed = body.get("data") if isinstance(body, dict) else None
    if not isinstance(listed, list) or not all(_is_model(model) for model in listed):
        raise EndpointError(
            f"{where}: not an OpenAI-compatible endpoint (GET /models gives no list of models); "
            "the base URL usually ends in /v1"
        )
    _check_model(where, settings.model, [model["id"] for model in listed])


def _is_model(model: Any) -> bool:
    return isinstance(model, dict) and isinstance(model.get("id"), str)


def _check_model(where: str, model: str, known: list[str]) -> None:
    if not known:
        logger.info("%s lists no models; its model is not checked", where)
        return
    # Some list an id as "models/<id>" and take it as "<id>".
    if any(name == model or name.endswith("/" + model) for name in known):
        return
    shown = ", ".join(sorted(known)[:_SHOWN])
    more = f" and {len(known) - _SHOWN} more" if len(known) > _SHOWN else ""
    raise EndpointError(f"{where}: has no model {model!r}; it has {shown}{more}")


def _models(settings: EngineSettings, api_key: str, where: str) -> tuple[int, Any]:
    """Return status and parsed body of ``GET /models``; the body is None where it is no JSON."""
    # The openai package's own HTTP client: a run that finds all its answers in the cache need not
    # import the package itself, which takes a third of a second.
    import httpx2

    client = http_client(
        settings.base_url,
        headers={"Authorization": f"Bearer {api_key}"},
        timeout=httpx2.Timeout(SECONDS, connect=settings.connect_timeout),
        follow_redirects=True,
    )
    with client:
        try:
            response = client.get(settings.base_url.rstrip("/") + "/models")
        except httpx2.TimeoutException:
            raise EndpointError(f"{where}: unreachable, no answer in time") from None
        except (httpx2.RequestError, httpx2.InvalidURL) as error:
            raise EndpointError(f"{where}: unreachable, {_cause(error)}") from None
    try:
        return response.status_code, response.json()
    except ValueError:
        return response.status_code, None


def _cause(error: BaseException) -> str:
    """Return what kept a connection from being made, from the chain of causes."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, socket.gaierror):
            return "its host name is not known"
        if isinstance(cause, ConnectionRefusedError):
            return "nothing listens there (connection refused)"
        cause = cause.__cause__ or cause.__context__
    return "no connection could be made"
