"""Quotations: which texts of an answer are taken from the question, by a prompt's own examples.

A question shows texts between tags on lines of their own (``<output>``), and some answers copy from
them: the place of an error, or a whole text with changes. A typical answer was given to another
question (see ``transforms.llm.typical``); with words of the question at hand for what it quotes,
what comes after it finds them where it looks for them.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from transforms.llm.parsing import parse_json
from transforms.llm.prompts import Prompt

#: Names of an object's fields from the outside in; the places in a list are all one.
Path = tuple[str, ...]

_BLOCK = re.compile(r"^<(\w+)>\n(.*?)\n</\1>$", re.DOTALL | re.MULTILINE)
_WORD = re.compile(r"\S+")
#: Words of a text that is another one with changes, and how many of them are the same at least.
_WORDS, _ALIKE = 4, 0.5
#: Apart from one another as far as possible, however many there are.
_GOLDEN = 0.618


def blocks(question: str) -> dict[str, str]:
    """Return the texts between tags that ``question`` shows, by the tag."""
    return dict(_BLOCK.findall(question))


def is_free(schema: Mapping[str, Any]) -> bool:
    """Return whether ``schema`` leaves a text to whoever writes it."""
    return {"enum", "const", "pattern"}.isdisjoint(schema)


def _leaves(value: Any, schema: Mapping[str, Any], path: Path = ()) -> Iterator[tuple[Path, str]]:
    """Yield the free texts of an answer that aren't empty, with their paths."""
    if isinstance(value, Mapping):
        inner = schema.get("properties", {})
        for name, each in value.items():
            yield from _leaves(each, inner.get(name, {}), (*path, name))
    elif isinstance(value, list):
        for each in value:
            yield from _leaves(each, schema.get("items", {}), path)
    elif isinstance(value, str) and value and is_free(schema):
        yield path, value


class Quotations:
    """What answers to ``prompt`` quote.

    Attributes:
        copied: the tag of the text that those at a path are words of.
        edited: the tag of the text that the one at a path is, but for changes.
    """

    def __init__(self, prompt: Prompt) -> None:
        self._schema = prompt.schema
        self.copied: dict[Path, str] = {}
        self.edited: dict[Path, str] = {}
        copied: dict[Path, list[str]] = {}
        edited: dict[Path, list[str]] = {}
        for asked, answered in zip(prompt.prefix[1::2], prompt.prefix[2::2], strict=True):
            # A short text has another one's words by chance the least.
            shown = sorted(blocks(asked["content"]).items(), key=lambda each: len(each[1]))
            for path, text in _leaves(parse_json(answered["content"]), prompt.schema):
                whole = [tag for tag, block in shown if text in block]
                near = [tag for tag, block in shown if _alike(text, block)]
                copied[path] = [tag for tag in copied.get(path, whole) if tag in whole]
                edited[path] = [tag for tag in edited.get(path, near) if tag in near]
        for path, tags in copied.items():
            if tags:
                self.copied[path] = tags[0]
            elif edited[path]:
                self.edited[path] = edited[path][0]

    def moved(self, answer: Any, question: str, drawn: float) -> Any:
        """Return ``answer`` with what it quotes taken from ``question`` instead.

        Args:
            answer: to another question.
            question: the last message's text.
            drawn: from 0 to 1: where in the texts.
        """
        if not (self.copied or self.edited):
            return answer
        texts = [text for _, text in _leaves(answer, self._schema)]
        return _Move(self, texts, blocks(question), drawn).value(answer, ())


class _Move:
    """One answer on its way to another question."""

    def __init__(
        self, quotations: Quotations, texts: Sequence[str], shown: Mapping[str, str], place: float
    ) -> None:
        self._quotations, self._texts = quotations, texts
        self._shown, self._place = shown, place

    def value(self, value: Any, path: Path) -> Any:
        if isinstance(value, Mapping):
            return {name: self.value(inner, (*path, name)) for name, inner in value.items()}
        if isinstance(value, list):
            return [self.value(inner, path) for inner in value]
        if not isinstance(value, str) or not value:
            return value
        block = self._shown.get(self._quotations.copied.get(path, ""))
        if block:
            return self._words(block, len(value.split()))
        block = self._shown.get(self._quotations.edited.get(path, ""))
        return self._changed(value, block) if block else value

    def _next_place(self) -> float:
        self._place = (self._place + _GOLDEN) % 1
        return self._place

    def _words(self, block: str, number: int) -> str:
        spans = [found.span() for found in _WORD.finditer(block)]
        first = int(self._next_place() * max(1, len(spans) - number + 1))
        return block[spans[first][0] : spans[min(first + number, len(spans)) - 1][1]]

    def _changed(self, text: str, block: str) -> str:
        """Return ``block`` with those of the answer's texts that ``text`` has and it lacks."""
        words = block.split(" ")
        for inner in self._texts:
            if inner != text and inner in text and inner not in block:
                words.insert(int(self._next_place() * len(words)), inner)
        return " ".join(words)


def _alike(text: str, block: str) -> bool:
    ours, theirs = text.split(), block.split()
    if len(ours) < _WORDS:
        return False
    return difflib.SequenceMatcher(None, ours, theirs, autojunk=False).ratio() >= _ALIKE
