"""Tokens, where no tokenizer is at hand that would suit every endpoint: four bytes of UTF-8 each.

Vocabularies are made over bytes, so one rule does for all scripts: four letters of English, two of
Cyrillic, one and a third of Chinese, Japanese and Korean. Measured with Qwen2.5's tokenizer, a
token has 4.6 bytes of English, 3.7 of German, 4.9 of Chinese (texts of the WMT 2021 TED talks) and
4 to 6 of Russian, Japanese and Korean (a sentence each); DeepSeek's documentation gives 0.3 tokens
for an English and 0.6 for a Chinese character, which is 3.3 and 5 bytes.
"""

from __future__ import annotations

import re

import polars as pl

BYTES_PER_TOKEN = 4

#: How far back from where a text has to end a blank is looked for, in characters.
_LONGEST_WORD = 60
_LAST_BLANK = re.compile(r"\s(?=\S*$)")


def tokens(text: pl.Expr) -> pl.Expr:
    """Return about how many tokens each text has, null as none."""
    return text.str.len_bytes().fill_null(0).cast(pl.Float64) / BYTES_PER_TOKEN


def cut(text: str, most: int) -> str:
    """Return ``text`` as far as ``most`` tokens go, up to the end of a word where one ends nearby.

    Args:
        text: without surrogates.
        most: tokens; what has no more comes back as the same object.
    """
    if len(text) <= most:  # no character has more than four bytes
        return text
    data = text.encode()
    if len(data) <= BYTES_PER_TOKEN * most:
        return text
    # A character that the cut falls into goes.
    end = len(data[: BYTES_PER_TOKEN * most].decode(errors="ignore"))
    if not text[end].isspace():
        blank = _LAST_BLANK.search(text, max(0, end - _LONGEST_WORD), end)
        end = blank.start() if blank else end
    return text[:end].rstrip()
