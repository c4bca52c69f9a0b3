"""Quoting: how a seed's text enters a prompt without being read as anything but text."""

from __future__ import annotations

import re
from functools import lru_cache

import jinja2

# What str.splitlines takes for a line break, and the other control characters.
_BREAKS = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]+")
# "<|im_start|>", "<s>", "</s>", "<<SYS>>", "<start_of_turn>", "<think>": opened by "<" and a sign
# that is no blank, digit or "=" (so that "<3", "x <= 2" and "<<4*2=8>>" stay as they are).
_ANGLE = re.compile(r"<(?=<*[|｜/!A-Za-z_])")
_BAR = re.compile(r"([|｜])(?=>)")
_SQUARE = re.compile(
    r"\[(?=/?(?:INST|SYS|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_CALLS|TOOL_RESULTS)\b)",
    re.IGNORECASE,
)
_ROLE = re.compile(
    r"\b(user|assistant|system|human|bot|ai|model|developer|instruction|response|input)(\s*)[:：]",
    re.IGNORECASE,
)
_HASHES = re.compile(r"#{2,}")
# One search tells that a text has nothing to quote, which holds for nearly every text. It is for a
# single set of characters, which is looked for in a fraction of the time that any other form takes.
_SUSPECT = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029<|｜\\[:：#]")


@lru_cache(maxsize=256)  # an utterance stands in every prompt of the dialogue that follows it
def quote(text: str) -> str:
    r"""Return ``text`` so that neither a chat template nor a model reads structure into it.

    - line breaks and control characters become one blank, so that a text stays on its line;
    - chat-control tokens (``<|...|>``, ``<s>``, ``[INST]``, ``<<SYS>>``, ``<start_of_turn>`` and
      the like) are broken by a blank;
    - a role marker such as ``User:`` or ``### Response:`` loses its colon and its hashes.

    Words are never removed or reordered, and ``quote(quote(text)) == quote(text)``.
    """
    if _SUSPECT.search(text) is None:
        return text
    text = _BREAKS.sub(" ", text)
    text = _ANGLE.sub("< ", text)
    text = _BAR.sub(r"\1 ", text)
    text = _SQUARE.sub("[ ", text)
    text = _HASHES.sub("#", text)
    return _ROLE.sub(r"\1 -", text)


def finalize(value: object) -> str:
    """Return what ``{{ value }}`` of a prompt's template prints: texts quoted, numbers as they are.

    Raises:
        jinja2.UndefinedError: there is no such variable.
        TypeError: for anything else. A list is written out by ``{% for item in items %}``; a
            ``None`` in a prompt would be a fault that nobody sees.
    """
    if isinstance(value, str):
        return quote(value)
    if isinstance(value, (int, float, jinja2.Undefined)):
        return str(value)  # an undefined variable raises, naming itself
    raise TypeError(f"a prompt prints texts and numbers, not {type(value).__name__}")
