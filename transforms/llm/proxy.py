"""The proxy of the environment, as the calls and the look at the endpoint before them take it."""

from __future__ import annotations

import urllib.request
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from transforms.errors import EndpointError
from transforms.llm.settings import is_loopback

if TYPE_CHECKING:
    import httpx2


def environment_proxy(url: str) -> str | None:
    """Return the proxy that HTTP_PROXY and its kin name for ``url``, unless NO_PROXY exempts it.

    Raises:
        EndpointError: it can't be one for the calls; never with what it is, for its password.
    """
    parts = urlsplit(url)
    if is_loopback(url) or urllib.request.proxy_bypass(parts.hostname or ""):
        return None
    proxies = urllib.request.getproxies()
    name = next((name for name in (parts.scheme, "all") if proxies.get(name)), None)
    if name is None:
        return None
    proxy = proxies[name] if "://" in proxies[name] else f"http://{proxies[name]}"
    try:
        found = urlsplit(proxy)
        usable = found.scheme in ("http", "https") and found.hostname and found.port != 0
    except ValueError:
        usable = False
    if not usable:
        raise EndpointError(
            f"{name.upper()}_PROXY names no HTTP proxy (SOCKS is not spoken): give one like "
            "http://proxy.example:3128, or exempt the endpoint by NO_PROXY"
        )
    return proxy


def http_client(url: str, **given: Any) -> httpx2.Client:
    """Return a client for ``url`` that takes the same proxy as the calls.

    By itself it would make a transport for every proxy that the environment names, also those that
    are not for ``url``, and fails at the first one that it can't speak to.

    Args:
        url: of the endpoint.
        given: of ``httpx2.Client``.

    Raises:
        EndpointError: as ``environment_proxy``.
    """
    import httpx2

    proxy = environment_proxy(url)
    # The context still heeds SSL_CERT_FILE and SSL_CERT_DIR, like that of the calls.
    verify = httpx2.create_ssl_context(trust_env=not is_loopback(url))
    return httpx2.Client(trust_env=False, proxy=proxy, verify=verify, **given)
