"""Answers that fit a request's JSON schema, the same for the same request, and their tokens.

They are as long as the answers among the request's own examples, where it shows some, and tokens
are counted as ``transforms.llm.tokens`` counts them for a model of the request's name: so what a
run uses is what a dry run has told, as far as that can be told.
"""

from __future__ import annotations

import functools
import json
import random
from collections.abc import Mapping, Sequence
from typing import Any

from transforms.llm.fake_endpoint.analyses import analysis
from transforms.llm.fake_endpoint.replies import Choice, Completion
from transforms.llm.parsing import parse_json
from transforms.llm.tokens import TOKENS_BEFORE_ANSWER, TOKENS_PER_MESSAGE, token_counter

_TEXT_LENGTH = 240  # characters of a text that neither schema nor example bounds

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
    schema, model = _schema(body), str(body.get("model", "fake"))
    messages = [str(message["content"]) for message in body["messages"]]
    examples = _examples(body["messages"])
    count = token_counter(model).count
    contents = []
    for number in range(int(body.get("n") or 1)):
        value = analysis(schema, messages[-1], examples)
        if value is None:
            source = random.Random(int.from_bytes(digest, "big") + number)
            like = source.choice(examples) if examples else None
            value = answer(schema, source, like)
        contents.append(json.dumps(value, ensure_ascii=False, separators=(",", ":")))
    return Completion(
        [Choice(content) for content in contents],
        TOKENS_BEFORE_ANSWER
        + TOKENS_PER_MESSAGE * len(messages)
        + sum(_tokens_of_message(model, message) for message in messages[:-1])
        + count(messages[-1]),
        sum(map(count, contents)),
        model,
        f"chatcmpl-{digest.hex()[:24]}",
    )


def answer(schema: Mapping[str, Any], source: random.Random, like: Any = None) -> Any:
    """Return a value that fits ``schema``, drawn from ``source``.

    Its lists and texts are as long as those of ``like``, another answer, where that has them.
    """
    if "const" in schema:
        return schema["const"]
    if "enum" in schema:
        return source.choice(schema["enum"])
    kind = schema.get("type", "object")
    kind = kind[0] if isinstance(kind, list) else kind
    if kind == "object":
        known = like if isinstance(like, dict) else {}
        return {
            name: answer(inner, source, known.get(name))
            for name, inner in schema.get("properties", {}).items()
        }
    if kind == "array":
        return _list(schema, source, like if isinstance(like, list) else None)
    if kind in ("integer", "number"):
        return source.randint(int(schema.get("minimum", 0)), int(schema.get("maximum", 10)))
    if kind == "boolean":
        return source.random() < 0.5
    return _saying(schema, source, len(like) if isinstance(like, str) else None)


def _list(
    schema: Mapping[str, Any], source: random.Random, like: Sequence[Any] | None
) -> list[Any]:
    least = schema.get("minItems", 1 if like is None else 0)
    if like is None:
        count = source.randint(least, max(least, min(schema.get("maxItems", least + 2), least + 2)))
    else:
        count = max(least, min(schema.get("maxItems", len(like)), len(like)))
    shapes = [like[number % len(like)] if like else None for number in range(count)]
    return [answer(schema["items"], source, shape) for shape in shapes]


def _saying(schema: Mapping[str, Any], source: random.Random, length: int | None) -> str:
    """Return mild sentences of about the ``length`` (None: any) that ``schema`` allows."""
    least, most = schema.get("minLength", 0), schema.get("maxLength", _TEXT_LENGTH)
    if length is not None:
        least, most = max(least, min(most, length)), min(most, max(least, length))
    text = ""
    while most and (not text or len(text) < least):
        words = " ".join(source.choice(part) for part in _SAYINGS)
        text += f"{' ' if text else ''}{words[0].upper()}{words[1:]}."
    if len(text) <= most:
        return text
    cut = text[:most]
    whole = cut.rpartition(" ")[0]
    return cut if len(whole) < max(1, schema.get("minLength", 0)) else whole


#: Most messages of a run (system message, examples) are the same in all of its requests.
@functools.lru_cache(maxsize=1024)
def _tokens_of_message(model: str, text: str) -> int:
    return token_counter(model).count(text)


def _examples(messages: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the answers that a request shows, as far as they are objects."""
    texts = (str(each["content"]) for each in messages if each.get("role") == "assistant")
    return [shown for shown in map(_shown, texts) if isinstance(shown, dict)]


@functools.lru_cache(maxsize=1024)
def _shown(text: str) -> Any:
    try:
        return parse_json(text)
    except ValueError:
        return None


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
