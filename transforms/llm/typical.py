"""Typical answers: what stands, in a rehearsal, in the place of answers that are not there yet."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from apache_beam.io.filesystems import FileSystems

from transforms.llm.answers import classify
from transforms.llm.calls import CallClass
from transforms.llm.parsing import parse_json
from transforms.llm.prompts import Prompt

#: So many answers to a prompt are enough, and so many bytes of a cache are read for them at most.
ANSWERS, BYTES = 200, 16 * 1024 * 1024

CACHE, EXAMPLES, SCHEMA = "cache", "examples", "schema"

#: In the place of a text of no given length: about as long as an utterance.
_TEXT = "Last week I was asked to help a neighbour and said that I had no time for it. "
_ITEMS = 2


class TypicalAnswer(NamedTuple):
    """An answer: its data, its text, and whether it is from the cache, the examples or a schema."""

    data: Mapping[str, Any]
    text: str
    origin: str


class TypicalAnswers:
    """Answers to prompts: of the ``cache`` directory, else the examples', else by the schema."""

    def __init__(self, cache: str) -> None:
        self._cache = cache
        self._cached: dict[str, list[str]] | None = None
        self._answers: dict[int, tuple[Prompt, list[TypicalAnswer]]] = {}

    def answer(self, prompt: Prompt, key: str) -> TypicalAnswer:
        """Return the answer to ``prompt`` that the request ``key`` draws, the same each time."""
        known = self._answers.get(id(prompt))
        if known is None:
            known = self._answers[id(prompt)] = prompt, self._of(prompt)
        answers = known[1]
        return answers[int(key[:12], 16) % len(answers)]

    def _of(self, prompt: Prompt) -> list[TypicalAnswer]:
        if self._cached is None:
            self._cached = cached_replies(self._cache)
        found = []
        for body in self._cached.get(prompt.id, ()):
            verdict = classify(200, body, prompt.validate)
            if verdict.call_class is CallClass.OK and verdict.data is not None:
                text = str(parse_json(body)["choices"][0]["message"]["content"])
                found.append(TypicalAnswer(verdict.data, text, CACHE))
        return found or _examples(prompt) or [made_up(prompt)]


def _examples(prompt: Prompt) -> list[TypicalAnswer]:
    texts = (message["content"] for message in prompt.prefix if message["role"] == "assistant")
    return [TypicalAnswer(parse_json(text), text, EXAMPLES) for text in texts]


def made_up(prompt: Prompt) -> TypicalAnswer:
    """Return an answer that fits the prompt's schema, and says nothing."""
    data = _value(prompt.schema)
    return TypicalAnswer(data, json.dumps(data, separators=(",", ":")), SCHEMA)


def _value(schema: Mapping[str, Any]) -> Any:
    if "const" in schema:
        return schema["const"]
    if "enum" in schema:
        return schema["enum"][0]
    kind = schema.get("type")
    kind = kind[0] if isinstance(kind, list) else kind
    if kind == "object":
        return {name: _value(inner) for name, inner in schema.get("properties", {}).items()}
    if kind == "array":
        least, most = schema.get("minItems", 0), schema.get("maxItems", _ITEMS)
        return [_value(schema.get("items", {})) for _ in range(max(least, min(most, _ITEMS)))]
    if kind in ("integer", "number"):
        return schema.get("minimum", min(1, schema.get("maximum", 1)))
    if kind == "boolean":
        return True
    if kind == "null":
        return None
    least = int(schema.get("minLength", 0))
    return (_TEXT * (1 + least // len(_TEXT)))[: int(schema.get("maxLength", 1 << 20))].strip()


def cached_replies(directory: str) -> dict[str, list[str]]:
    """Return some raw bodies of a cache's usable replies by the prompt's id, in a fixed order."""
    found: dict[str, list[str]] = {}
    for line in _lines(directory):
        try:
            record = parse_json(line)
            prompt, status, body = str(record["prompt"]), record["status"], str(record["body"])
        except (ValueError, KeyError, TypeError):
            continue  # the cache itself tells of what is damaged
        bodies = found.setdefault(prompt, [])
        if status == 200 and len(bodies) < ANSWERS:
            bodies.append(body)
    return found


def _lines(directory: str) -> Iterator[bytes]:
    pattern = FileSystems.join(directory, "p-*", "*.jsonl")
    read = 0
    for path in sorted(one.path for one in FileSystems.match([pattern])[0].metadata_list):
        if read >= BYTES:
            return
        with FileSystems.open(path) as file:
            data = file.read()
        read += len(data)
        yield from data.split(b"\n")[:-1]
