"""What an engine is told: endpoint, model, bounds, and where the cache lies."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, NamedTuple
from urllib.parse import urlsplit, urlunsplit

from transforms.llm.shared_cache import SharedCache


class StructuredMode(str, Enum):
    """How an endpoint is held to the answer's JSON schema."""

    JSON_SCHEMA = "json_schema"  # response_format with the schema
    JSON_OBJECT = "json_object"  # response_format for any object; the schema stands in the prompt
    NONE = "none"  # the schema stands in the prompt, and that is all


class BatchPlaces(NamedTuple):
    """Where a run by batches writes the requests it misses, and where refused ones are kept."""

    missing: str
    refused: str


@dataclass(frozen=True)
class EngineSettings:
    """Settings of one engine: hashable, picklable, and without a key.

    Workers read the key from ``OPENAI_API_KEY``. ``endpoint`` is what the endpoint is known by in
    request keys: leave it empty for the normalised base URL, or name the weights where the URL says
    nothing (``embedded:<sha256>``: its port is another one each time). ``extra_body`` is a JSON
    object as text, merged over every request's body; a null there removes a parameter.
    ``concurrency`` bounds the calls in flight per process, ``timeout`` is seconds per attempt,
    ``retries`` the attempts after the first and ``retry_seconds`` the time they may take together,
    ``cache`` a directory on any Beam filesystem. Beneath it lie ``shared_caches``, which are only
    read; ``partitions`` is what the run's own folders stand for. With ``batch`` no call is made:
    what is missing is written there.
    """

    base_url: str
    model: str
    cache: str
    endpoint: str = ""
    concurrency: int = 64
    timeout: float = 120.0
    connect_timeout: float = 10.0
    retries: int = 5
    retry_seconds: float = 300.0
    structured: StructuredMode = StructuredMode.JSON_SCHEMA
    extra_body: str = "{}"
    shared_caches: tuple[SharedCache, ...] = ()
    partitions: int = 1
    batch: BatchPlaces | None = None

    def __post_init__(self) -> None:
        if not self.endpoint:
            object.__setattr__(self, "endpoint", endpoint_identity(self.base_url))
        if not isinstance(json.loads(self.extra_body), dict):
            raise ValueError("extra_body must be a JSON object")
        if self.concurrency < 1 or self.timeout <= 0 or self.retries < 0:
            raise ValueError("concurrency and timeout must be positive, retries not negative")

    def extra(self) -> Mapping[str, Any]:
        """Return ``extra_body`` as a mapping."""
        extra: dict[str, Any] = json.loads(self.extra_body)
        return extra


def is_loopback(base_url: str) -> bool:
    """Return whether ``base_url`` is on this machine, where no proxy of the environment leads."""
    return urlsplit(base_url).hostname in ("localhost", "127.0.0.1", "::1")


def endpoint_identity(base_url: str) -> str:
    """Return ``base_url`` with scheme and host in lower case, and no credentials, query or slash.

    Also what may be shown of a base URL in messages.
    """
    parts = urlsplit(base_url)
    host = parts.netloc.rpartition("@")[2].lower()
    return urlunsplit((parts.scheme.lower(), host, parts.path.rstrip("/"), "", ""))
