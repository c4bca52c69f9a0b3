"""What the fake endpoint sends: chat completions and errors, worded as an endpoint words them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple


@dataclass(frozen=True)
class Reply:
    """What the endpoint does with one request.

    Attributes:
        status: HTTP status.
        body: text of the body; None is the ordinary answer.
        headers: further headers.
        delay: seconds before the reply; None is the endpoint's latency.
        hang: answer never.
        cut: close the connection after half of the body.
        pace: seconds that sending the body takes, in pieces.
    """

    status: int = 200
    body: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    delay: float | None = None
    hang: bool = False
    cut: bool = False
    pace: float = 0.0


class Choice(NamedTuple):
    """One choice of a completion."""

    content: str | None
    finish_reason: str = "stop"
    refusal: str | None = None


@dataclass(frozen=True)
class Completion:
    """A chat completion, before it is worded.

    Attributes:
        choices: its choices.
        prompt_tokens: tokens of the question.
        completion_tokens: tokens of all choices.
        model: the name of the model that says to have answered.
        identity: its id.
    """

    choices: Sequence[Choice]
    prompt_tokens: int
    completion_tokens: int
    model: str = "fake"
    identity: str = "chatcmpl-fake"

    @property
    def tokens(self) -> int:
        """Tokens of question and answer."""
        return self.prompt_tokens + self.completion_tokens

    def worded(self) -> str:
        """Return the body of the reply."""
        choices: list[dict[str, Any]] = [
            {
                "index": index,
                "finish_reason": choice.finish_reason,
                "message": {
                    "role": "assistant",
                    "content": choice.content,
                    "refusal": choice.refusal,
                },
            }
            for index, choice in enumerate(self.choices)
        ]
        return json.dumps(
            {
                "id": self.identity,
                "object": "chat.completion",
                "created": 0,
                "model": self.model,
                "choices": choices,
                "usage": {
                    "prompt_tokens": self.prompt_tokens,
                    "completion_tokens": self.completion_tokens,
                    "total_tokens": self.tokens,
                },
            }
        )


def completion(
    content: str | None, finish_reason: str = "stop", refusal: str | None = None, tokens: int = 20
) -> str:
    """Return the body of a completion of one choice, its question of 100 tokens."""
    return Completion([Choice(content, finish_reason, refusal)], 100, tokens).worded()


def failure(status: int, code: str | int | None, **headers: str) -> Reply:
    """Return an error reply; underscores in header names stand for hyphens."""
    error = {"message": "as scripted", "type": "scripted", "param": None, "code": code}
    return Reply(
        status=status,
        body=json.dumps({"error": error}),
        headers={name.replace("_", "-"): value for name, value in headers.items()},
    )
