"""Levels and thresholds of the filters: one typed object, read from filters.yaml."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from transforms.errors import OptionError
from transforms.filters import Level
from transforms.reading.files import open_bytes, reading

DEFAULT_FILE = Path(__file__).with_name("filters.yaml")


class Rule(BaseModel):
    """A filter without a threshold."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    level: Level

    @field_validator("level", mode="before")
    @classmethod
    def _yaml_reads_off_as_false(cls, value: Any) -> Any:
        return "off" if value is False else value


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

    blank_utterance: Rule
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
    missing_rot: Rule
    rot_form: RotForm
    rot_judgement: Rule
    intervention_then_casual: Rule


def load_filters(path: str | None = None) -> FilterSettings:
    """Return the settings of filters.yaml, changed by what the file at ``path`` names.

    Raises:
        InputError: the file is missing or can't be read.
        OptionError: it is no YAML mapping, or names a filter, threshold or value there isn't.
    """
    with DEFAULT_FILE.open(encoding="utf-8") as file:
        merged: dict[str, Any] = yaml.safe_load(file)
    for name, change in (_mapping_in(path) if path else {}).items():
        if not isinstance(change, dict):
            raise OptionError(
                f"{path}: {name} must be a mapping such as {{level: warning}}, as in filters.yaml"
            )
        merged[name] = {**merged.get(name, {}), **change}
    try:
        return FilterSettings.model_validate(merged)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        known = ", ".join(FilterSettings.model_fields)
        raise OptionError(
            f"{path or DEFAULT_FILE.name}: {place}: {first['msg']}; the filters are {known}, their "
            "thresholds stand in pipelines/prosocial/filters.yaml"
        ) from None


def _mapping_in(path: str) -> dict[str, Any]:
    with reading(path), open_bytes(path) as file:
        content = file.read()
    try:
        mapping = yaml.safe_load(content)
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        mark = getattr(error, "problem_mark", None)
        place = f" (line {mark.line + 1})" if mark else ""
        raise OptionError(
            f"{path}: not YAML{place}; see pipelines/prosocial/filters.yaml"
        ) from None
    if mapping is None:
        return {}
    if not isinstance(mapping, dict):
        raise OptionError(f"{path}: must map filters to their levels and thresholds")
    return {str(name): change for name, change in mapping.items()}
