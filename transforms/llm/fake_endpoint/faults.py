"""The faults an endpoint can have, by name, and which of them a request meets.

What a request meets is drawn from its body and the number of times it came: the same run meets the
same faults, in whatever order its requests arrive. Its latency is drawn from its messages alone.
"""

from __future__ import annotations

import email.utils
import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, timezone
from typing import NamedTuple

from transforms.errors import OptionError
from transforms.llm.fake_endpoint.replies import Choice, Completion, Reply, failure


class Draws(NamedTuple):
    """Independent even draws from [0, 1) for one attempt at one request."""

    fault: float
    latency: float


def draws(body: bytes, attempt: int, seed: int) -> Draws:
    """Return the draws of the ``attempt`` (from 1) at what has the digest ``body``."""
    digest = hashlib.sha256(b"%d %d " % (seed, attempt) + body).digest()
    return Draws(
        int.from_bytes(digest[:8], "big") / 2**64, int.from_bytes(digest[8:16], "big") / 2**64
    )


@dataclass(frozen=True)
class FaultPlan:
    """Which share of the requests meets which fault; the rest are answered.

    Attributes:
        shares: by name of the fault (see ``FAULTS``); at most 1 together.
        retry_after: seconds that a 429 with Retry-After asks to wait.
        slow: seconds that a slow answer takes to come.
    """

    shares: Mapping[str, float]
    retry_after: float = 1.0
    slow: float = 5.0

    def __post_init__(self) -> None:
        unknown = sorted(set(self.shares) - set(FAULTS))
        if unknown:
            raise OptionError(f"--fault {unknown[0]}: there are {', '.join(FAULTS)}")
        shares = self.shares.values()
        if not all(share >= 0 for share in shares) or sum(shares) > 1 + 1e-9:
            raise OptionError("--fault: shares lie between 0 and 1, all of them together too")

    def fault(self, drawn: float) -> str | None:
        """Return the fault that a draw from [0, 1) means, or None."""
        for name, share in self.shares.items():
            drawn -= share
            if drawn < 0:
                return name
        return None

    def reply(self, name: str, ordinary: Completion) -> Reply:
        """Return what the endpoint does with a request that meets the fault ``name``.

        ``ordinary`` is the answer it would have given.
        """
        return FAULTS[name](ordinary, self)


def parse_shares(texts: Iterable[str]) -> dict[str, float]:
    """Return the shares that ``NAME=SHARE`` texts name; ``all=SHARE`` is every fault.

    Raises:
        OptionError: a text has another form.
    """
    shares: dict[str, float] = {}
    for text in texts:
        name, _, number = text.partition("=")
        try:
            share = float(number)
        except ValueError:
            raise OptionError(f"--fault {text!r}: write NAME=SHARE, such as 429=0.02") from None
        shares.update(dict.fromkeys(FAULTS if name == "all" else [name], share))
    return shares


def _limited(_: Completion, plan: FaultPlan) -> Reply:
    return failure(429, "rate_limit_exceeded")


def _limited_seconds(_: Completion, plan: FaultPlan) -> Reply:
    return failure(429, "rate_limit_exceeded", retry_after=f"{plan.retry_after:g}")


def _limited_date(_: Completion, plan: FaultPlan) -> Reply:
    date = datetime.now(timezone.utc) + timedelta(seconds=plan.retry_after)
    return failure(
        429, "rate_limit_exceeded", retry_after=email.utils.format_datetime(date, usegmt=True)
    )


def _truncated(ordinary: Completion, plan: FaultPlan) -> Reply:
    return _changed(ordinary, lambda text: Choice(text[: len(text) // 2], "length"))


def _refused(ordinary: Completion, plan: FaultPlan) -> Reply:
    return _changed(ordinary, lambda text: Choice(None, refusal="I would rather not write this."))


def _filtered(ordinary: Completion, plan: FaultPlan) -> Reply:
    return _changed(ordinary, lambda text: Choice("", "content_filter"))


def _malformed(ordinary: Completion, plan: FaultPlan) -> Reply:
    return _changed(ordinary, lambda text: Choice("Here you are: " + text.replace('":', '" ', 1)))


def _misfit(ordinary: Completion, plan: FaultPlan) -> Reply:
    misfit = json.dumps({"not_asked_for": True})
    return _changed(ordinary, lambda text: Choice(misfit))


def _changed(ordinary: Completion, change: Callable[[str], Choice]) -> Reply:
    choices = [change(choice.content or "") for choice in ordinary.choices]
    return Reply(body=replace(ordinary, choices=choices).worded())


def _fewer(ordinary: Completion, plan: FaultPlan) -> Reply:
    return Reply(body=replace(ordinary, choices=ordinary.choices[:-1]).worded())


def _duplicate_id(ordinary: Completion, plan: FaultPlan) -> Reply:
    return Reply(body=replace(ordinary, identity="chatcmpl-duplicate").worded())


def _wrong_model(ordinary: Completion, plan: FaultPlan) -> Reply:
    return Reply(body=replace(ordinary, model="another-model").worded())


#: What each fault makes of a request. Those of the last two are answers like any other to a client
#: that does not go by ids and model names.
FAULTS: dict[str, Callable[[Completion, FaultPlan], Reply]] = {
    "429": _limited,
    "429_seconds": _limited_seconds,
    "429_date": _limited_date,
    "500": lambda ordinary, plan: failure(500, None),
    "503": lambda ordinary, plan: failure(503, None),
    "hang": lambda ordinary, plan: Reply(hang=True),
    "cut": lambda ordinary, plan: Reply(cut=True),
    "slow": lambda ordinary, plan: Reply(pace=plan.slow),
    "truncated": _truncated,
    "refusal": _refused,
    "content_filter": _filtered,
    "malformed": _malformed,
    "schema": _misfit,
    "fewer_choices": _fewer,
    "duplicate_id": _duplicate_id,
    "wrong_model": _wrong_model,
}
