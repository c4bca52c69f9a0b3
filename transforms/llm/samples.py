"""Several samples of one request in one call: a reply of many choices as a reply for each."""

from __future__ import annotations

import json
from typing import Any

from transforms.llm.answers import usage_of
from transforms.llm.parsing import parse_json


def split_choices(body: str) -> list[str] | None:
    """Return the replies that the choices of a reply would have been, one by one, in their order.

    Together they used what the reply did: the question's tokens stand with the first one, those of
    the answers are divided evenly, since nothing tells them apart. A body without choices gives
    none, and one that holds what can't be written as JSON again (1e999 is read as infinity) None.
    """
    try:
        reply = parse_json(body)
    except (ValueError, RecursionError):
        return []
    choices = reply.get("choices") if isinstance(reply, dict) else None
    if not isinstance(choices, list):
        return []
    usage = reply.get("usage")
    replies = []
    for place, choice in enumerate(choices):
        own = {**reply, "choices": [choice]}
        if isinstance(usage, dict):
            own["usage"] = _part(usage, place, len(choices))
        try:
            replies.append(json.dumps(own, separators=(",", ":"), allow_nan=False))
        except (ValueError, RecursionError):
            return None
    return replies


def _part(usage: dict[str, Any], place: int, parts: int) -> dict[str, Any]:
    whole = usage_of(usage)
    each, left = divmod(whole.completion, parts)
    received = each + (place < left)
    if place == 0:
        total = whole.prompt + received
        return {**usage, "completion_tokens": received, "total_tokens": total}
    return {"prompt_tokens": 0, "completion_tokens": received, "total_tokens": received}
