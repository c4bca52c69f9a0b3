"""Replies of an endpoint, made up: chat completions as a warm cache holds them."""

from __future__ import annotations

import json

MODEL = "fake"


def completion(content: str | None, finish_reason: str = "stop", refusal: str | None = None) -> str:
    """Return a chat completion as long and as deep as api.openai.com words them.

    Args:
        content: the answer's text, None where ``refusal`` stands in its place.
        finish_reason: why the answer ends: ``stop``, or ``length`` where it was cut.
        refusal: what the model says instead of an answer.
    """
    tokens = len(content or "") // 4
    details = {"reasoning_tokens": 0, "audio_tokens": 0, "accepted_prediction_tokens": 0}
    reply = {
        "id": "chatcmpl-ABCDEFGHIJKLMNOPQRSTUVWXYZ012",
        "object": "chat.completion",
        "created": 1764547200,
        "model": MODEL,
        "choices": [
            {
                "index": 0,
                "message": {
                    "role": "assistant",
                    "content": content,
                    "refusal": refusal,
                    "annotations": [],
                },
                "logprobs": None,
                "finish_reason": finish_reason,
            }
        ],
        "usage": {
            "prompt_tokens": 620,
            "completion_tokens": tokens,
            "total_tokens": 620 + tokens,
            "prompt_tokens_details": {"cached_tokens": 512, "audio_tokens": 0},
            "completion_tokens_details": details,
        },
        "service_tier": "default",
        "system_fingerprint": "fp_0123456789",
    }
    return json.dumps(reply)
