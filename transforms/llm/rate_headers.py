"""What an endpoint's headers tell of its rate limits.

Two families are in use. ``x-ratelimit-(limit|remaining|reset)-(requests|tokens)`` is OpenAI's, and
that of those who do as it does; its resets are durations such as ``6m0s``, ``1s``, ``20ms``. The
other is the IETF's (draft-ietf-httpapi-ratelimit-headers): today ``RateLimit-Policy: "name";q=..;
w=..`` and ``RateLimit: "name";r=..;t=..``, where ``qu`` names what a policy counts if that is not
requests. In older drafts it is ``RateLimit-Limit``, ``-Remaining`` and ``-Reset`` (seconds) or
``RateLimit: limit=.., remaining=.., reset=..``, and the window stands as ``100;w=60`` behind the
limit or in ``RateLimit-Policy``. Of several policies for the same the first counts that is one a
minute, not one a day, or else the first. Where a header is absent or has another form, nothing is
known.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import NamedTuple

_DURATION = re.compile(r"(?:\d+(?:\.\d+)?(?:d|h|ms|m|s))+")
_PART = re.compile(r"(\d+(?:\.\d+)?)(d|h|ms|m|s)")
_SECONDS = {"d": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
_NUMBER = re.compile(r"\d+(?:\.\d+)?")
_MEMBER = re.compile(r'("(?:[^"\\]|\\.)*"|[^\s,;"]+)((?:\s*;\s*[a-z]+=(?:"[^"]*"|[^\s,;]+))*)')
_PARAMETER = re.compile(r';\s*([a-z]+)="?([^";,\s]+)"?')
_STATE = re.compile(r"\b(limit|remaining|reset)\s*=\s*(\d+)")
#: A limit whose window, or else whose reset, is longer counts by the hour or day: none a minute.
_LONGEST_WINDOW = 90.0


class Window(NamedTuple):
    """One limit: how much in how many seconds, what remains of it, and when it is full again.

    ``seconds`` None means a minute.
    """

    limit: float | None = None
    seconds: float | None = None
    remaining: float | None = None
    reset: float | None = None

    @property
    def by_the_minute(self) -> bool:
        """Whether the limit can be one of about a minute or less."""
        told = self.reset if self.seconds is None else self.seconds
        return told is None or told <= _LONGEST_WINDOW


class RateReport(NamedTuple):
    """What one reply told of requests and of tokens."""

    requests: Window | None = None
    tokens: Window | None = None


def rate_report(headers: Mapping[str, str]) -> RateReport:
    """Return what ``headers`` (found by names in lower case) tell of rate limits."""
    requests, tokens = (
        _openai(headers, kind) or _ietf(headers, kind) for kind in ("requests", "tokens")
    )
    return RateReport(requests or _old_ietf(headers), tokens)


def _openai(headers: Mapping[str, str], kind: str) -> Window | None:
    limit = _number(headers.get(f"x-ratelimit-limit-{kind}"))
    remaining = _number(headers.get(f"x-ratelimit-remaining-{kind}"))
    if limit is None and remaining is None:
        return None
    return Window(limit, None, remaining, duration(headers.get(f"x-ratelimit-reset-{kind}")))


def _ietf(headers: Mapping[str, str], kind: str) -> Window | None:
    states = _members(headers.get("ratelimit"))
    policies = _members(headers.get("ratelimit-policy"))
    found = None
    for name in policies or states:
        policy, state = policies.get(name, {}), states.get(name, {})
        if policy.get("qu", "requests") == kind:
            told = policy.get("q"), policy.get("w"), state.get("r"), state.get("t")
            window = Window(*(_number(each) for each in told))
            if window.limit is not None or window.remaining is not None:
                if window.by_the_minute:
                    return window
                found = found or window
    return found


def _old_ietf(headers: Mapping[str, str]) -> Window | None:
    state = dict(_STATE.findall(headers.get("ratelimit", "")))
    limit, remaining, reset = (
        _number(headers.get(f"ratelimit-{name}", state.get(name)))
        for name in ("limit", "remaining", "reset")
    )
    if limit is None and remaining is None:
        return None
    # The limit and, behind it or in a header of their own, policies: limits with their windows.
    policies = [
        Window(_number(policy), _number(parameters.get("w")))
        for name in ("ratelimit-limit", "ratelimit-policy")
        for policy, parameters in _list(headers.get(name))
    ]
    own = [policy.seconds for policy in policies if policy.limit == limit and policy.seconds]
    told = Window(limit, min(own, default=None), remaining, reset)
    if told.by_the_minute:
        return told
    # What remains, and until when, is the longer one's.
    return next((each for each in policies if each.seconds and each.by_the_minute), told)


def _members(value: str | None) -> dict[str, dict[str, str]]:
    """Return the parameters of a list's members that have any, by the members' names."""
    return dict(_list(value))


def _list(value: str | None) -> list[tuple[str, dict[str, str]]]:
    found = _MEMBER.findall(value or "")
    return [(name, dict(_PARAMETER.findall(rest))) for name, rest in found if rest]


def _number(value: str | None) -> float | None:
    found = _NUMBER.match((value or "").strip())
    return _finite(float(found[0])) if found else None


def _finite(number: float) -> float | None:
    return number if math.isfinite(number) else None


def duration(value: str | None) -> float | None:
    """Return the seconds of ``6m0s``, ``1s``, ``20ms``, ``1h2m`` or a bare number of seconds."""
    text = (value or "").strip().lower()
    if _NUMBER.fullmatch(text):
        return _finite(float(text))
    if not _DURATION.fullmatch(text):
        return None
    return _finite(sum(float(number) * _SECONDS[unit] for number, unit in _PART.findall(text)))
