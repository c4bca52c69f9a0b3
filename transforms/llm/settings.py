"""What an engine is told: endpoint, model, bounds, and where the cache lies."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, NamedTuple
from urllib.parse import urlsplit, urlunsplit

from transforms.llm.api_key import DEFAULT_SOURCE, key_of_worker
from transforms.llm.prices import Price
from transforms.llm.routes import Route
from transforms.llm.shared_cache import SharedCache

#: The parameters that bound an answer's tokens; a prompt sets the second one.
LENGTHS = ("max_completion_tokens", "max_tokens")


class StructuredMode(str, Enum):
    """How an endpoint is held to the answer's JSON schema."""

    JSON_SCHEMA = "json_schema"  # response_format with the schema
    JSON_OBJECT = "json_object"  # response_format for any object; the schema stands in the prompt
    NONE = "none"  # the schema stands in the prompt, and that is all


class BatchPlaces(NamedTuple):
    """Where a run by batches writes the requests it misses, and where refused ones are kept.

    ``collected`` are the counts of what earlier batches have answered by now, by prompt and model,
    see ``transforms.llm.statistics``.
    """

    missing: str
    refused: str
    collected: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True)
class EngineSettings:
    """Settings of one engine: hashable, picklable, and without a key.

    Workers read the key from ``key_source`` (see ``transforms.llm.api_key``; "": there is none),
    where there must be one if ``has_key``. ``endpoint`` is what it is known by in request keys:
    leave it empty for the normalised base URL, or name the weights where the URL says nothing
    (``embedded:<sha256>``: its port is another one each time). ``extra_body`` is a JSON object as
    text, merged over every request's body; a null there removes a parameter.
    ``cache`` is a directory on any Beam filesystem; beneath it lie ``shared_caches``, which are
    only read. ``partitions`` is what the run's own folders stand for. With ``batch`` no call is
    made: what is missing is written there.

    ``concurrency`` bounds the calls in flight, ``rpm`` the requests and ``tpm`` the tokens a minute
    (None: what the endpoint tells), of the whole job; ``lanes`` says over how many parts they are
    divided (see ``transforms.llm.lanes``), None that one process makes all calls. ``rate_window``
    is that minute in seconds, and ``rate_margin`` what a request may be late. ``max_calls`` and
    ``max_cost`` (US dollars at ``price``) bound what the job may send and spend, see
    ``transforms.llm.budget``. ``work`` is the folder in which workers leave what others take up
    (``transforms.llm.work_folder``); only where there are lanes.

    An attempt may take ``connect_timeout`` seconds for its connection, ``first_byte_timeout`` for
    the first byte of its answer and between any two (None: no bound of its own) and ``timeout`` for
    all of it. ``retries`` are the attempts after the first, ``retry_seconds`` the time they may
    take together. Several samples of one request are asked for ``samples_per_call`` at a time, by
    the parameter ``n``, which not every endpoint has.

    What calls several endpoints has the settings of the ``further`` ones in those of the first, and
    a route for every prompt. Each has a price and a key of its own; those with the same number of
    ``limits`` have these in common. Cache, partitions and budget are those of the first, over all.
    """

    base_url: str
    model: str
    cache: str
    endpoint: str = ""
    key_source: str = DEFAULT_SOURCE
    has_key: bool = False
    concurrency: int = 64
    rpm: float | None = None
    tpm: float | None = None
    lanes: int | None = None
    rate_window: float = 60.0
    rate_margin: float = 1.5
    timeout: float = 120.0
    connect_timeout: float = 10.0
    first_byte_timeout: float | None = None
    retries: int = 5
    retry_seconds: float = 300.0
    structured: StructuredMode = StructuredMode.JSON_SCHEMA
    samples_per_call: int = 1
    extra_body: str = "{}"
    max_calls: int | None = None
    max_cost: float | None = None
    price: Price | None = None
    work: str | None = None
    shared_caches: tuple[SharedCache, ...] = ()
    partitions: int = 1
    batch: BatchPlaces | None = None
    further: tuple[EngineSettings, ...] = ()
    routes: tuple[Route, ...] = ()
    limits: int = 0

    def __post_init__(self) -> None:
        if not self.endpoint:
            object.__setattr__(self, "endpoint", endpoint_identity(self.base_url))
        extra = json.loads(self.extra_body)
        if not isinstance(extra, dict):
            raise ValueError("extra_body must be a JSON object")
        check_lengths(extra)
        if self.samples_per_call < 1 or (self.samples_per_call > 1 and self.batch is not None):
            raise ValueError("a call asks for at least one sample, and in a batch for just one")
        if self.max_cost is not None and any(each.price is None for each in self.endpoints):
            raise ValueError("max_cost needs the price of every model")
        if self.max_cost is not None and not all(
            is_bounded(each.extra()) for each in self.endpoints
        ):
            raise ValueError("max_cost needs a bound on the length of every answer")
        if bool(self.further) != bool(self.routes):
            raise ValueError("further endpoints need routes, and routes them")
        if any(number >= len(self.endpoints) for each in self.routes for number in each.endpoints):
            raise ValueError("a route leads to an endpoint that there isn't")
        if self.concurrency < 1 or self.timeout <= 0 or self.retries < 0:
            raise ValueError("concurrency and timeout must be positive, retries not negative")
        limits = (self.rpm, self.tpm)
        if any(limit is not None and not 0 < limit < math.inf for limit in limits):
            raise ValueError("rpm and tpm must be positive and finite")
        if not 1 <= self.lane_count <= self.concurrency:
            raise ValueError("each lane needs a place in flight")

    @property
    def lane_count(self) -> int:
        """The parts over which the limits are divided."""
        return 1 if self.lanes is None else self.lanes

    @property
    def endpoints(self) -> tuple[EngineSettings, ...]:
        """The settings of every endpoint that is called, the first one's being these."""
        return (self, *self.further)

    @property
    def models(self) -> tuple[str, ...]:
        """The models that are called, each once."""
        return tuple(dict.fromkeys(each.model for each in self.endpoints))

    def extra_bodies(self) -> dict[str, str]:
        """Return the extra body that each model is called with."""
        return {each.model: each.extra_body for each in self.endpoints}

    def collected(self) -> dict[str, int]:
        """Return the counts of what a run by batches has collected, see ``BatchPlaces``."""
        return {} if self.batch is None else dict(self.batch.collected)

    def prices(self) -> dict[str, Price]:
        """Return the prices of the models that are called, as far as they are known."""
        return {each.model: each.price for each in self.endpoints if each.price is not None}

    def api_key(self) -> str:
        """Return the key that this process calls with; endpoints that need none get a placeholder.

        Raises:
            EndpointError: there is none although the run has one, or it can't be read.
        """
        return key_of_worker(self.key_source, required=self.has_key) if self.key_source else "none"

    def extra(self) -> Mapping[str, Any]:
        """Return ``extra_body`` as a mapping."""
        extra: dict[str, Any] = json.loads(self.extra_body)
        return extra


def check_lengths(extra: Mapping[str, Any]) -> None:
    """Check the bounds on an answer's length in an extra body.

    Raises:
        ValueError: one is neither null nor a whole, positive number.
    """
    for name in LENGTHS:
        length = extra.get(name)
        if length is not None and (type(length) is not int or length < 1):
            raise ValueError(f"{name} must be a whole, positive number of tokens, or null")


def is_bounded(extra: Mapping[str, Any]) -> bool:
    """Return whether requests with this extra body bound their answers' length."""
    return "max_tokens" not in extra or any(extra.get(name) for name in LENGTHS)


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
