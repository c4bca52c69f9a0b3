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
from transforms.llm.quotations import Path, Quotations, is_free
from transforms.llm.records import parse_line
from transforms.llm.shared_cache import SharedCache

#: So many answers to a prompt are enough, and so many bytes of a cache are read for them at most.
ANSWERS, BYTES = 200, 16 * 1024 * 1024

CACHE, EXAMPLES, SCHEMA = "cache", "examples", "schema"

#: In the place of a text of no given length: about as long as an utterance.
_TEXT = "Last week I was asked to help a neighbour and said that I had no time for it. "
_ITEMS = 2
#: Answers are told apart by so many words of these, in the place of so many of their own: common
#: ones, so that neither an encoding nor a count of bytes finds more tokens in them than there were.
_WORDS = 4
_MARKS = """
after again along apple aside back bank basket bath bear bed bell below bench bird boat book bottle
bowl box bread bridge broom bucket butter button cake candle cap car card carpet chair chalk cheese
clock cloud coat coin cold corner cotton cup curtain desk dinner dish door dress drum early egg
evening farm fence field fire fish flag floor flower fork fruit garden gate glass glove grass green
hall hammer hat hill home honey horse hotel house island jacket juice kettle key kitchen ladder lake
lamp leaf lemon letter light lunch map market milk mirror money moon morning mouse needle night nose
ocean office onion orange oven paint paper park pen piano picture pillow plate pocket pond quiet
radio rain ring river road roof room
""".split()  # noqa: SIM905 - a list of so many lines is no easier to read


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
        self._answers: dict[int, tuple[Prompt, list[TypicalAnswer], Quotations]] = {}

    def answer(self, prompt: Prompt, key: str, question: str = "") -> TypicalAnswer:
        """Return the answer to ``prompt`` that the request ``key`` draws, the same each time.

        What it quotes is from ``question``, the last message's text. No two requests get the same
        texts: what is asked about an answer that isn't there yet must not be mistaken for what was
        asked about another one.
        """
        known = self._answers.get(id(prompt))
        if known is None:
            known = self._answers[id(prompt)] = prompt, self._of(prompt), Quotations(prompt)
        _, answers, quotations = known
        drawn = int(key[:16], 16)
        answer = answers[drawn % len(answers)]
        place = int(key[16:24], 16) / 16**8
        moved = quotations.moved(answer.data, question, place)
        mark = _mark(drawn // len(answers))
        # Short texts stay: they are often words of a longer one, where they are looked for.
        data = _marked(moved, prompt.schema, mark, _WORDS, quotations)
        if data == moved:
            data = _marked(moved, prompt.schema, mark, 1, quotations)
        return answer._replace(data=data, text=_worded(data))

    def _of(self, prompt: Prompt) -> list[TypicalAnswer]:
        if self._cached is None:
            self._cached = cached_replies(self._caches)
        found = []
        for body in self._cached.get(prompt.id, ()):
            verdict = classify(200, body, prompt.validate, kept=True)
            if verdict.call_class is CallClass.OK and verdict.data is not None:
                found.append(TypicalAnswer(verdict.data, content_of(body), CACHE))
        return found or _examples(prompt) or [made_up(prompt)]


def _mark(drawn: int) -> str:
    words = []
    for _ in range(_WORDS):
        drawn, number = divmod(drawn, len(_MARKS))
        words.append(_MARKS[number])
    return " ".join(words)


def _marked(
    value: Any,
    schema: Mapping[str, Any],
    mark: str,
    last: int,
    quotations: Quotations,
    path: Path = (),
) -> Any:
    """Return ``value`` with ``mark`` for the ``last`` words of each free text that has more."""
    if isinstance(value, dict):
        inner = schema.get("properties", {})
        return {
            name: _marked(each, inner.get(name, {}), mark, last, quotations, (*path, name))
            for name, each in value.items()
        }
    if isinstance(value, list):
        items = schema.get("items", {})
        return [_marked(each, items, mark, last, quotations, path) for each in value]
    if not isinstance(value, str) or not is_free(schema):
        return value
    words = value.split(" ")
    if path in quotations.copied or len(words) <= last:
        return value
    end = value[-1] if value.endswith((".", "?", "!")) else ""
    return " ".join([*words[:-last], mark + end])


def _worded(data: Mapping[str, Any]) -> str:
    return json.dumps(data, ensure_ascii=False, separators=(",", ":"))


def _examples(prompt: Prompt) -> list[TypicalAnswer]:
    texts = (message["content"] for message in prompt.prefix if message["role"] == "assistant")
    return [TypicalAnswer(parse_json(text), text, EXAMPLES) for text in texts]


def made_up(prompt: Prompt) -> TypicalAnswer:
    """Return an answer that fits the prompt's schema, and says nothing."""
    data = _value(prompt.schema)
    return TypicalAnswer(data, _worded(data), SCHEMA)


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
