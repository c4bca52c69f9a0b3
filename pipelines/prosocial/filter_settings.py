"""Levels and thresholds of the filters: one typed object, read from filters.yaml."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from transforms import filter_settings
from transforms.filter_settings import Pinned, Rule

DEFAULT_FILE = Path(__file__).with_name("filters.yaml")


class ShortUtterance(Rule):
    """The fewest words an utterance may have."""

    min_words: int = Field(ge=1)


class LongUtterance(Rule):
    """The most words an utterance may have."""

    max_words: int = Field(ge=1)


class ShortResponse(Rule):
    """What the characters of a worker's response have to exceed."""

    more_than_characters: int = Field(ge=0)


class ManySentences(Rule):
    """The most sentences a response may have."""

    max_sentences: int = Field(ge=1)


class RotForm(Rule):
    """Bounds of a rule-of-thumb."""

    min_words: int = Field(ge=1)
    max_words: int = Field(ge=1)
    max_sentences: int = Field(ge=1)


class RepeatedNgram(Rule):
    """How many words in a row, how many times."""

    words: int = Field(ge=2)
    times: int = Field(ge=2)


class Echo(Rule):
    """The similarity, 0 to 1, from which on a response echoes its context."""

    similarity: float = Field(gt=0, le=1)


class ForeignLanguage(Rule):
    """How many different function words of another language show that language."""

    min_words: int = Field(ge=1)


class FilterSettings(BaseModel):
    """All filters in their order, which is that of filters.yaml."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    blank_utterance: Pinned
    short_utterance: ShortUtterance
    long_utterance: LongUtterance
    short_response: ShortResponse
    many_sentences: ManySentences
    leaked_prompt: Rule
    refusal: Rule
    foreign_language: ForeignLanguage
    repeated_ngram: RepeatedNgram
    repeated_utterance: Rule
    echo: Echo
    personal_data: Rule
    missing_rot: Pinned
    rot_form: RotForm
    rot_judgement: Rule
    intervention_then_casual: Pinned


def load_filters(path: str | None = None) -> FilterSettings:
    """Return the settings of filters.yaml, changed by what the file at ``path`` names.

    Raises:
        InputError: the file is missing or can't be read.
        OptionError: it is no YAML mapping, or names a filter, threshold or value there isn't.
    """
    return filter_settings.load_filters(FilterSettings, DEFAULT_FILE, path)
