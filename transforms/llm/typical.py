"""Typical answers: what stands, in a rehearsal, in the place of answers that are not there yet."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from transforms.llm.answers import classify, content_of
from transforms.llm.calls import CallClass
from transforms.llm.folders import folder_path, read_folder
from transforms.llm.parsing import parse_json
from transforms.llm.prompts import Prompt
from transforms.llm.records import parse_line
from transforms.llm.shared_cache import SharedCache

#: So many answers to a prompt are enough, and so many bytes of a cache are read for them at most.
ANSWERS, BYTES = 200, 16 * 1024 * 1024

CACHE, EXAMPLES, SCHEMA = "cache", "examples", "schema"

#: In the place of a text of no given length: about as long as an utterance.
_TEXT = "Last week I was asked to help a neighbour and said that I had no time for it. "
_ITEMS = 2
#: So many digits, which are 3 or 4 tokens, stand in the place of so many words.
_DIGITS, _WORDS = 9, 4


class TypicalAnswer(NamedTuple):
    """An answer: its data, its text, and whether it is from the cache, the examples or a schema."""

    data: Mapping[str, Any]
    text: str
    origin: str


class TypicalAnswers:
    """Answers to prompts: of the ``caches``, else the prompt's examples, else by its schema."""

    def __init__(self, caches: Sequence[SharedCache]) -> None:
        self._caches = caches
        self._cached: dict[str, list[str]] | None = None
        self._answers: dict[int, tuple[Prompt, list[TypicalAnswer]]] = {}

    def answer(self, prompt: Prompt, key: str) -> TypicalAnswer:
        """Return the answer to ``prompt`` that the request ``key`` draws, the same each time.

        No two requests get the same texts: what is asked about an answer that isn't there yet must
        not be mistaken for what was asked about another one.
        """
        known = self._answers.get(id(prompt))
        if known is None:
            known = self._answers[id(prompt)] = prompt, self._of(prompt)
        answers = known[1]
        drawn = int(key[:16], 16)
        answer = answers[drawn % len(answers)]
        mark = f"{drawn // len(answers) % 10**_DIGITS:0{_DIGITS}d}"
        # Short texts stay: they are often words of a longer one, where they are looked for.
        data = _marked(answer.data, prompt.schema, mark, _WORDS)
        if data == answer.data:
            data = _marked(answer.data, prompt.schema, mark, 1)
        return answer._replace(data=data)

    def _of(self, prompt: Prompt) -> list[TypicalAnswer]:
        if self._cached is None:
            self._cached = cached_replies(self._caches)
        found = []
        for body in self._cached.get(prompt.id, ()):
            verdict = classify(200, body, prompt.validate)
            if verdict.call_class is CallClass.OK and verdict.data is not None:
                found.append(TypicalAnswer(verdict.data, content_of(body), CACHE))
        return found or _examples(prompt) or [made_up(prompt)]


def _marked(value: Any, schema: Mapping[str, Any], mark: str, last: int) -> Any:
    """Return ``value`` with ``mark`` for the ``last`` words of each free text that has more."""
    if isinstance(value, dict):
        inner = schema.get("properties", {})
        return {
            name: _marked(each, inner.get(name, {}), mark, last) for name, each in value.items()
        }
    if isinstance(value, list):
        return [_marked(each, schema.get("items", {}), mark, last) for each in value]
    if not isinstance(value, str) or not {"enum", "const", "pattern"}.isdisjoint(schema):
        return value
    words = value.split(" ")
    return " ".join([*words[:-last], mark]) if len(words) > last else value


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


def cached_replies(caches: Sequence[SharedCache]) -> dict[str, list[str]]:
    """Return some raw bodies of the caches' replies by the prompt's id, in a fixed order."""
    found: dict[str, list[str]] = {}
    for line in _lines(caches):
        record = parse_line(line)  # the cache itself tells of what is damaged
        if record is None or record.status != 200:
            continue
        bodies = found.setdefault(record.prompt, [])
        if len(bodies) < ANSWERS:
            bodies.append(record.body)
    return found


def _lines(caches: Sequence[SharedCache]) -> Iterator[bytes]:
    read = 0
    for cache in caches:
        for partition in range(cache.partitions):
            folder = read_folder(folder_path(cache.directory, partition))
            for segment in folder.segments:
                read += segment.size
                yield from segment.lines
            if read >= BYTES:
                return
