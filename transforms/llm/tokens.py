"""Counting tokens before anything is sent, and without downloading anything.

The model's own encoding counts where this machine has it: in tiktoken's cache of encodings, or in
the package bpe-openai, which carries them. tiktoken on its own would fetch an encoding at its first
use; it is kept from that. Without an encoding, tokens are estimated from a text's bytes. Either
count is then held against what the endpoint reported of calls that were answered (``Calibration``):
it adds to the texts what it wraps around them, and its tokens may be longer or shorter than ours.
"""

from __future__ import annotations

import importlib.util
import logging
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

#: Bytes of a token where no encoding is at hand; our prompts have 3.9 to 4.5 by o200k_base.
BYTES_PER_TOKEN = 4.1
#: What chat formats wrap around each message, and put before the answer (role and separators).
TOKENS_PER_MESSAGE, TOKENS_BEFORE_ANSWER = 4, 3

#: Which of OpenAI's encodings a model reads by, the first that matches.
_ENCODINGS = (
    (
        re.compile(r"(?:ft:)?(?:chatgpt-4o|gpt-4o|gpt-4\.[15]|gpt-5|o[134])(?:$|[-.:])"),
        "o200k_base",
    ),
    (re.compile(r"(?:.*/)?gpt-oss(?:$|[-.:])"), "o200k_base"),  # o200k_harmony's texts are alike
    (re.compile(r"(?:ft:)?gpt-(?:4|3\.5)(?:$|[-.:])"), "cl100k_base"),
)

logger = logging.getLogger("remint.tokens")


class TokenCounter(NamedTuple):
    """Counts the tokens of texts; ``name`` says by what, for the user to read.

    ``exact`` tells whether the model's own encoding counts.
    """

    name: str
    exact: bool
    count: Callable[[str], int]


@lru_cache(maxsize=8)
def token_counter(model: str) -> TokenCounter:
    """Return what counts tokens for ``model``; nothing is downloaded."""
    name = _encoding_name(model)
    if name is not None:
        for source, find in (("tiktoken", _from_tiktoken), ("bpe-openai", _from_package)):
            encoding = find(name)
            if encoding is not None:
                return TokenCounter(f"{name} ({source})", True, _counting(encoding))
    return TokenCounter(f"bytes / {BYTES_PER_TOKEN}", False, estimated_tokens)


def estimated_tokens(text: str) -> int:
    """Return roughly how many tokens ``text`` is, from its bytes in UTF-8."""
    return tokens_of_bytes(len(text.encode("utf-8", "surrogatepass")))


def tokens_of_bytes(size: int) -> int:
    """Return roughly how many tokens a text of ``size`` bytes is."""
    return round(size / BYTES_PER_TOKEN)


def _encoding_name(model: str) -> str | None:
    return next((name for pattern, name in _ENCODINGS if pattern.match(model)), None)


def _counting(encoding: Any) -> Callable[[str], int]:
    # What looks like a control token is text here, as it is to the endpoint.
    return lambda text: len(encoding.encode_ordinary(text))


def _from_tiktoken(name: str) -> Any:
    """Return tiktoken's encoding called ``name`` if its file is in tiktoken's own cache."""
    if importlib.util.find_spec("tiktoken") is None:
        return None
    import tiktoken
    import tiktoken.load

    read_file = tiktoken.load.read_file

    def read_no_url(blobpath: str) -> bytes:
        if "://" in blobpath:
            raise FileNotFoundError("encodings are not downloaded")
        found: bytes = read_file(blobpath)
        return found

    # Everything tiktoken fetches goes through this function, wherever it keeps its cache.
    tiktoken.load.read_file = read_no_url
    try:
        return tiktoken.get_encoding(name)
    except (OSError, ValueError) as error:
        logger.debug("tiktoken has no %s at hand: %s", name, error)
        return None
    finally:
        tiktoken.load.read_file = read_file


def _from_package(name: str) -> Any:
    """Return the encoding called ``name`` that the package bpe-openai carries."""
    if importlib.util.find_spec("bpe_openai") is None:
        return None
    import bpe_openai

    return bpe_openai.get_encoding(name)


@dataclass
class Calibration:
    """What an endpoint's own counts say of ours: ``tokens = offset + slope * counted``.

    Sums over calls that were answered, so that calibrations of partitions add up in any order.
    """

    calls: int = 0
    counted: int = 0
    reported: int = 0
    squares: int = 0
    products: int = 0

    def observe(self, counted: int, reported: int) -> None:
        """Take note that the endpoint reported so many tokens where we ``counted`` so many."""
        self.calls += 1
        self.counted += counted
        self.reported += reported
        self.squares += counted * counted
        self.products += counted * reported

    def line(self) -> tuple[float, float]:
        """Return offset and slope, by least squares; nothing observed is 0 and 1.

        Where all counts are alike, or the slope is none that encodings can have between them, the
        slope is 1: the offset alone makes the mean right.
        """
        if not self.calls:
            return 0.0, 1.0
        spread = self.calls * self.squares - self.counted**2
        slope = 1.0
        if spread > 0:
            fitted = (self.calls * self.products - self.counted * self.reported) / spread
            slope = fitted if _LEAST_SLOPE <= fitted <= _MOST_SLOPE else 1.0
        return (self.reported - slope * self.counted) / self.calls, slope

    def total(self, calls: int, counted: int) -> float:
        """Return the tokens of so many ``calls``, of which we ``counted`` so many."""
        offset, slope = self.line()
        return max(0.0, offset * calls + slope * counted)


#: Between the most and the least frugal encodings of a text.
_LEAST_SLOPE, _MOST_SLOPE = 0.4, 2.5
