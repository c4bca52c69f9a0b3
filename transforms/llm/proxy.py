"""The proxy of the environment, as the calls and the look at the endpoint before them take it."""

from __future__ import annotations

import urllib.request
from urllib.parse import urlsplit

from transforms.errors import EndpointError
from transforms.llm.settings import is_loopback


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
