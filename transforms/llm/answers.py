"""What an endpoint's reply amounts to.

A pure function of status and body, so that cached replies can be classified anew when the rules get
better. Status, code and the fields made for it decide, never a word in a message.
"""

from __future__ import annotations

import email.utils
import math
import re
from collections.abc import Iterator, Mapping
from datetime import datetime, timezone
from typing import Any, NamedTuple

from transforms.llm.calls import CallClass
from transforms.llm.json_schema import Validator
from transforms.llm.parsing import DECODER, parse_json

#: Classes whose reply was paid for and will not change: only these are cached.
PAID = frozenset(
    {
        CallClass.OK,
        CallClass.REFUSED,
        CallClass.CONTENT_FILTER,
        CallClass.TRUNCATED,
        CallClass.BAD_JSON,
        CallClass.SCHEMA,
    }
)

#: OpenAI's (``invalid_prompt`` is a question that it takes for harmful), Azure's, DashScope's.
_FILTER_CODES = frozenset(
    {
        "content_filter",
        "content_policy_violation",
        "data_inspection_failed",
        "invalid_prompt",
        "moderation_blocked",
    }
)
#: What gateways (OpenRouter) put beside the error of a text that their moderation flagged.
_FLAGGED = frozenset({"flagged_input", "reasons"})
_QUOTA_CODE = "insufficient_quota"
#: More than any call can use: what is added up stays within 64 bits.
_MOST_TOKENS = 1_000_000_000
_CODE = re.compile(r"[\w.-]{1,64}", re.ASCII)
_FENCE = re.compile(r"```(?:json)?[^\S\n]*\n(.*?)```", re.DOTALL)


class Verdict(NamedTuple):
    """A reply's class, its parsed answer when OK, what was wrong, and the tokens it used.

    ``cached_tokens`` are those of the prompt that the endpoint had read before and prices apart;
    ``metered`` tells whether it said the tokens of both prompt and answer. ``status`` is the HTTP
    status, or the one that a gateway put into the body of its 200; 0 where there is no reply.
    """

    call_class: CallClass
    data: Mapping[str, Any] | None = None
    detail: str | None = None
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    metered: bool = False
    status: int = 0

    @property
    def of_model(self) -> bool:
        """Whether the endpoint refused the model or this one request, which looks the same."""
        return self.call_class is CallClass.AUTH and self.status in (403, 404)

    @property
    def is_forbidden(self) -> bool:
        """Whether the endpoint, which answers others, forbade this one request."""
        return self.call_class is CallClass.REQUEST and self.status == 403

    @property
    def is_unreadable(self) -> bool:
        """Whether the endpoint did its work, and what it replied holds no answer."""
        return self.call_class is CallClass.SERVER and self.status == 200


_NO_CHOICES = Verdict(CallClass.SERVER, detail="a reply without choices")


def classify(status: int, body: str, validate: Validator, *, kept: bool = False) -> Verdict:
    """Return what the reply with HTTP ``status`` and raw ``body`` amounts to.

    Of several choices the first one counts that is paid for and will not change, or else the first.

    Args:
        status: the reply's.
        body: the reply's.
        validate: checks the answer against the prompt's schema.
        kept: whether the reply is a cache's, where only what is paid for is: beside its choice an
            error that is not was none when it was kept, and the choice stays what it was then.
    """
    try:
        reply = parse_json(body)
    except (ValueError, RecursionError):
        reply = None
    if not isinstance(reply, dict):
        reply = {}
    if status != 200:
        return _failure(status, reply.get("error"))
    choices = reply.get("choices")
    first: Verdict | None = None
    for choice in choices if isinstance(choices, list) else ():
        if isinstance(choice, dict):
            found = _choice(choice, validate, kept=kept)
            if first is None or found.call_class in PAID:
                first = found
            if found.call_class in PAID:
                break
    if first is None:
        error = reply.get("error")
        # Some gateways answer 200 and put the failure of the provider behind them into the body.
        first = _told(error) if error else _NO_CHOICES
    call_class, data, detail, *_ = first
    return Verdict(call_class, data, detail, *usage_of(reply.get("usage")), first.status or status)


def content_of(body: str) -> str:
    """Return the text of a reply's first choice as it was written; nothing where it has none."""
    try:
        content = parse_json(body)["choices"][0]["message"]["content"]
    except (ValueError, RecursionError, LookupError, TypeError):
        return ""
    return content if isinstance(content, str) else ""


def _told(error: object) -> Verdict:
    """Return what an error in the body of a 200 amounts to."""
    code = error.get("code") if isinstance(error, dict) else None
    return _failure(code if isinstance(code, int) and 400 <= code < 600 else 502, error)


def _failure(status: int, error: object) -> Verdict:
    error = error if isinstance(error, dict) else {}
    codes = {code for code in (error.get("code"), error.get("type")) if isinstance(code, str)}
    code = error.get("code")
    detail = f"HTTP {status}"
    if isinstance(code, str) and _CODE.fullmatch(code):
        detail += f", code {code}"
    if status in (400, 403) and (codes & _FILTER_CODES or _is_flagged(error)):
        return Verdict(CallClass.CONTENT_FILTER, detail=detail, status=status)
    return Verdict(_failure_class(status, codes), detail=detail, status=status)


def _is_flagged(error: Mapping[str, Any]) -> bool:
    metadata = error.get("metadata")
    return isinstance(metadata, dict) and not _FLAGGED.isdisjoint(metadata)


def _failure_class(status: int, codes: set[str]) -> CallClass:
    if status in (401, 403, 404):
        return CallClass.AUTH
    if status == 402 or (status == 429 and _QUOTA_CODE in codes):
        return CallClass.BUDGET
    if status == 429:
        return CallClass.RATE_LIMITED
    if status == 408:
        return CallClass.TIMEOUT
    return CallClass.SERVER if status >= 500 or status < 300 else CallClass.REQUEST


def _choice(choice: Mapping[str, Any], validate: Validator, *, kept: bool) -> Verdict:
    error = choice.get("error")
    if error:
        # An answer that a gateway's provider broke off. Whatever that provider says of keys, money
        # or models, the endpoint took the call and has others.
        told = _told(error)
        if told.call_class in (CallClass.AUTH, CallClass.BUDGET):
            told = told._replace(call_class=CallClass.SERVER, status=502)
        if told.call_class in PAID or not kept:
            return told
    message = choice.get("message")
    if not isinstance(message, dict):
        return Verdict(CallClass.SERVER, detail="a choice without a message")
    if message.get("refusal"):
        return Verdict(CallClass.REFUSED, detail="the refusal field is set")
    reason = choice.get("finish_reason")
    if reason == "content_filter":
        return Verdict(CallClass.CONTENT_FILTER, detail="finish_reason content_filter")
    if reason == "length":
        return Verdict(CallClass.TRUNCATED, detail="finish_reason length")
    content = message.get("content")
    if not isinstance(content, str) or not content.strip():
        return Verdict(CallClass.BAD_JSON, detail="an answer without content")
    data = _object(content, repair=reason == "stop")
    if data is None:
        return Verdict(CallClass.BAD_JSON, detail="no JSON object in the answer")
    fault = validate(data)
    if fault is not None:
        return Verdict(CallClass.SCHEMA, detail=fault)
    return Verdict(CallClass.OK, data=data)


def _object(content: str, *, repair: bool) -> dict[str, Any] | None:
    """Return the JSON object that ``content`` is or, with ``repair``, that stands in it."""
    found = _decoded(content)
    if found is None and repair:
        fenced = _FENCE.search(content)
        found = _decoded(fenced[1]) if fenced else _embedded(content)
    return found


def _decoded(text: str) -> dict[str, Any] | None:
    try:
        data = parse_json(text)
    except (ValueError, RecursionError):
        return None
    return data if isinstance(data, dict) and _storable(text, data) else None


def _embedded(content: str) -> dict[str, Any] | None:
    """Return the first balanced object in a text, between words before and after it."""
    start = content.find("{")
    if start < 0:
        return None
    try:
        data, end = DECODER.raw_decode(content, start)
    except (ValueError, RecursionError):
        return None
    return data if isinstance(data, dict) and _storable(content[start:end], data) else None


def _storable(text: str, data: object) -> bool:
    """Whether ``data`` is free of what no column of text is to hold: lone surrogates and NUL."""
    if "\\u" not in text and text.isascii():
        return True
    try:
        for each in _texts(data):
            each.encode()
            if "\0" in each:
                return False
    except (UnicodeEncodeError, RecursionError):
        return False
    return True


def _texts(data: object) -> Iterator[str]:
    """Yield all texts in ``data``, names of fields too."""
    if isinstance(data, str):
        yield data
    elif isinstance(data, dict):
        yield from data
        data = list(data.values())
    if isinstance(data, list):
        for each in data:
            yield from _texts(each)


class Usage(NamedTuple):
    """The tokens of prompt and answer, how many of the prompt's were cached, and if all is said."""

    prompt: int = 0
    completion: int = 0
    cached: int = 0
    metered: bool = False


def usage_of(usage: object) -> Usage:
    """Return what the usage of a reply says; what it does not say is 0.

    Of prompt, completion and total two give the third. Where they give more than the completion is
    said to have, the rest was written, too: some leave what a model thinks out of the completion.
    """
    if not isinstance(usage, dict):
        return Usage()
    details = usage.get("prompt_tokens_details")
    names = ("prompt_tokens", "completion_tokens", "total_tokens")
    prompt, completion, total = (_count(usage.get(name)) for name in names)
    cached = _count(details.get("cached_tokens")) if isinstance(details, dict) else 0
    if total and prompt and total >= prompt:
        completion = max(completion or 0, total - prompt)
    elif total and completion is not None and not prompt:
        prompt = max(0, total - completion)
    metered = bool(prompt) and completion is not None
    return Usage(prompt or 0, completion or 0, min(cached or 0, prompt or 0), metered)


def _count(value: object) -> int | None:
    """Return a number of tokens, or None where it is none; some write it as 500.0."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    is_number = 0 <= value < math.inf and value % 1 == 0  # NaN is within no bounds
    return min(int(value), _MOST_TOKENS) if is_number else None


def retry_after(headers: Mapping[str, str], now: datetime | None = None) -> float | None:
    """Return how many seconds the endpoint asks to wait, or None when it does not say.

    ``headers`` find names in lower case. Understands ``retry-after-ms``, and ``retry-after`` as
    seconds or as an HTTP date (RFC 9110, section 10.2.3); what lies in the past is 0.
    """
    milliseconds = _number(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1000
    value = headers.get("retry-after")
    seconds = _number(value)
    if seconds is not None or value is None:
        return seconds
    try:
        date = email.utils.parsedate_to_datetime(value)
    except (TypeError, ValueError, OverflowError):
        return None
    if date.tzinfo is None:
        date = date.replace(tzinfo=timezone.utc)
    return max(0.0, (date - (now or datetime.now(timezone.utc))).total_seconds())


def _number(value: str | None) -> float | None:
    try:
        number = float(value or "")
    except ValueError:
        return None
    return max(0.0, number) if math.isfinite(number) else None
