"""What a model call is to those who make one: the classes it can end in, and its answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    from transforms.llm.prompts import Prompt


class CallClass(str, Enum):
    """The class every call ends in: an error is never an empty string or a text in a column."""

    OK = "ok"
    REFUSED = "refused"  # the message's refusal field is set
    CONTENT_FILTER = "content_filter"  # the endpoint's filter stopped question or answer
    TRUNCATED = "truncated"  # cut by max_tokens, also after the one larger retry
    BAD_JSON = "bad_json"  # finished, yet no JSON object could be read
    SCHEMA = "schema"  # JSON that does not fit the prompt's schema
    RATE_LIMITED = "rate_limited"
    TIMEOUT = "timeout"
    SERVER = "server"  # 5xx, cut connections, an answer without choices
    AUTH = "auth"
    BUDGET = "budget"
    BATCH = "batch"  # not sent: it waits for a batch's answer
    REQUEST = "request"  # 4xx: the endpoint refuses this request (context too long, bad parameter)

    @property
    def transient(self) -> bool:
        """Whether the same call may do better on another run: the dialogue is not to be cut."""
        return self in _TRANSIENT

    @property
    def awaited(self) -> bool:
        """Whether the call was not made and is to be made by a later run: what needs it waits."""
        return self in _AWAITED


_TRANSIENT = frozenset(
    {
        CallClass.RATE_LIMITED,
        CallClass.TIMEOUT,
        CallClass.SERVER,
        CallClass.AUTH,
        CallClass.BUDGET,
        CallClass.BATCH,
    }
)
_AWAITED = frozenset({CallClass.BUDGET, CallClass.BATCH})


class Answer(NamedTuple):
    """How one call ended.

    ``data`` is the parsed JSON object, present exactly when ``call_class`` is OK. ``request`` is
    the hash under which the raw response is cached, ``detail`` says what was wrong (never with
    text of the dataset or a key), ``attempts`` counts the requests sent (0 for a cache hit).
    ``model`` is the one that was asked. ``forbidden`` tells of a request that its endpoint
    refuses, and another one may not.
    """

    call_class: CallClass
    request: str
    data: Mapping[str, Any] | None = None
    detail: str | None = None
    attempts: int = 0
    model: str = ""
    forbidden: bool = False

    @property
    def ok(self) -> bool:
        """Whether ``data`` is there."""
        return self.call_class is CallClass.OK


class Caller(Protocol):
    """Makes calls for one key; dependent calls of a key are awaited one after the other."""

    async def __call__(
        self, prompt: Prompt, variables: Mapping[str, Any], *, sample: int = 0
    ) -> Answer:
        """Return the answer to ``prompt`` filled with ``variables``; never raises for a bad one.

        ``sample`` tells apart independent answers to the same request (three votes, say).
        """
        ...  # pragma: no cover - protocol

    async def samples(
        self, prompt: Prompt, variables: Mapping[str, Any], samples: Sequence[int]
    ) -> list[Answer]:
        """Return independent answers to the same request, all asked for at once.

        They are those of so many calls, each with its number in ``samples``; where the endpoint is
        to give several in one call, they are asked for in as few as that takes.
        """
        ...  # pragma: no cover - protocol
