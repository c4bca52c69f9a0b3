"""Answers that fit a request's JSON schema, the same for the same messages, and their tokens."""

from __future__ import annotations

import functools
import json
import random
import re
from collections.abc import Mapping
from typing import Any

from transforms.llm.fake_endpoint.analyses import analysis
from transforms.llm.fake_endpoint.replies import Choice, Completion

_TOKEN = re.compile(r"[^\W\d_]{1,8}|\d{1,3}|[^\s\w]|_")
#: What every message costs beside its text.
_MESSAGE_TOKENS = 4

_TEXT_SCHEMA = {"type": "object", "properties": {"text": {"type": "string"}}}

_SAYINGS = (
    ("I thought", "I guess", "I felt", "I figured", "we said", "they think", "my friend believes"),
    ("it was fine", "it is right", "it is okay", "it was good", "you should be able",
     "nobody has to be asked", "it was only fair"),
    ("to keep", "to borrow", "to hide", "to forget", "to give away", "to paint", "to sell",
     "to look at", "to move", "to clean"),
    ("the old bike", "a small secret", "my sister's hat", "the last cake", "the spare key",
     "our neighbour's ladder", "the red umbrella", "a long letter", "the garden bench",
     "the team's ball", "her favourite cup", "his winter coat"),
    ("because", "since", "now that", "although"),
    ("nobody was home", "everyone was busy", "the shop had closed", "it rained so much",
     "the bus came late", "no one had asked", "dinner took so long", "the school is far away",
     "we had guests", "the lights went out"),
    ("last week", "on Monday", "in the morning", "after work", "this summer", "all day",
     "at the party", "before lunch", "on the way", "over the holidays", "in the kitchen"),
)  # fmt: skip


def answered(body: Mapping[str, Any], digest: bytes) -> Completion:
    """Return the ordinary answer to the request ``body``, drawn from the ``digest`` of its bytes.

    With ``n`` it has so many choices, each drawn for itself.
    """
    schema = _schema(body)
    messages = body["messages"]
    contents = []
    for number in range(int(body.get("n") or 1)):
        value = analysis(schema, str(messages[-1]["content"]))
        if value is None:
            value = answer(schema, random.Random(int.from_bytes(digest, "big") + number))
        contents.append(json.dumps(value, separators=(",", ":")))
    return Completion(
        [Choice(content) for content in contents],
        sum(_MESSAGE_TOKENS + _tokens_of_message(str(each["content"])) for each in messages),
        sum(count_tokens(content) for content in contents),
        str(body.get("model", "fake")),
        f"chatcmpl-{digest.hex()[:24]}",
    )


def answer(schema: Mapping[str, Any], source: random.Random) -> Any:
    """Return a value that fits ``schema``, drawn from ``source``."""
    if "const" in schema:
        return schema["const"]
    if "enum" in schema:
        return source.choice(schema["enum"])
    kind = schema.get("type", "object")
    kind = kind[0] if isinstance(kind, list) else kind
    if kind == "object":
        return {name: answer(inner, source) for name, inner in schema.get("properties", {}).items()}
    if kind == "array":
        low = schema.get("minItems", 1)
        count = source.randint(low, max(low, min(schema.get("maxItems", low + 2), low + 2)))
        return [answer(schema["items"], source) for _ in range(count)]
    if kind in ("integer", "number"):
        return source.randint(int(schema.get("minimum", 0)), int(schema.get("maximum", 10)))
    if kind == "boolean":
        return source.random() < 0.5
    return _saying(schema, source)


def _saying(schema: Mapping[str, Any], source: random.Random) -> str:
    """Return mild sentences of the length that ``schema`` asks for."""
    least, most = schema.get("minLength", 0), schema.get("maxLength", 240)
    text = ""
    while not text or len(text) < least:
        words = " ".join(source.choice(part) for part in _SAYINGS)
        text += f"{' ' if text else ''}{words[0].upper()}{words[1:]}."
    if len(text) <= most:
        return text
    cut = text[:most]
    return cut if len(cut.rpartition(" ")[0]) < least else cut.rpartition(" ")[0]


def count_tokens(text: str) -> int:
    """Return about as many tokens as models' tokenizers find in English text."""
    return len(_TOKEN.findall(text))


#: Most messages of a run (system message, examples) are the same in all of its requests.
_tokens_of_message = functools.lru_cache(maxsize=1024)(count_tokens)


def _schema(body: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the schema that is sent, or else stands in the system message."""
    schema: Mapping[str, Any] | None
    schema = body.get("response_format", {}).get("json_schema", {}).get("schema")
    if schema is not None:
        return schema
    _, mark, text = str(body["messages"][0]["content"]).rpartition("JSON schema: ")
    return _schema_in(text) if mark else _TEXT_SCHEMA


@functools.lru_cache(maxsize=64)
def _schema_in(text: str) -> Mapping[str, Any]:
    schema: Mapping[str, Any] = json.JSONDecoder().raw_decode(text)[0]
    return schema
