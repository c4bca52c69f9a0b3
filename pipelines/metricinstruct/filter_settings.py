"""Levels and thresholds of the filters of analyses: one typed object, read from filters.yaml."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import polars as pl
from pydantic import BaseModel, ConfigDict, Field, field_validator

from transforms import filter_settings
from transforms.filter_settings import Pinned, Rule

DEFAULT_FILE = Path(__file__).with_name("filters.yaml")

ToleratedFault = Literal["value_on_next_line", "continued_value", "text_around"]
Band = tuple[float, float]


class Format(Rule):
    """Faults of an answer's form that don't reject it; only those that lose nothing."""

    tolerated: tuple[ToleratedFault, ...]


class AspectsNotAsAsked(Rule):
    """Which differences between the aspects asked for and those that came don't reject a row."""

    tolerated: tuple[Literal["missing", "unasked"], ...]


class EmptyExplanation(Rule):
    """Texts, case ignored, that say as little as none."""

    same_as_empty: tuple[str, ...]


class ReductionRange(Rule):
    """Least and most points off for one error."""

    least: float = Field(ge=0)
    most: float = Field(gt=0)


class SeverityBand(Rule):
    """Least and most points off for an error of each severity."""

    major: Band
    minor: Band

    @field_validator("major", "minor")
    @classmethod
    def _in_order(cls, band: Band) -> Band:
        if not 0 <= band[0] <= band[1]:
            raise ValueError("must be [least, most], neither negative")
        return band


class TooManyErrors(Rule):
    """The most errors an analysis may have."""

    most: int = Field(ge=1)


class MentionsReference(Rule):
    """Patterns that show a mention of the reference; harmless words that are taken out first."""

    patterns: tuple[str, ...] = Field(min_length=1)
    allowed: tuple[str, ...]

    @field_validator("patterns", "allowed")
    @classmethod
    def _are_patterns(cls, patterns: tuple[str, ...]) -> tuple[str, ...]:
        for pattern in patterns:
            try:
                pl.Series([""]).str.contains(pattern)
            except pl.exceptions.ComputeError:
                raise ValueError(f"{pattern} is no regular expression of Rust's syntax") from None
        return patterns


class RestatesLocation(Rule):
    """Words beyond the location's, and letters in them, of which an explanation needs either."""

    words: int = Field(ge=1)
    letters: int = Field(ge=1)


class DegenerateAnalysis(Rule):
    """From which share of a source's analyses on, and for which analyses, a profile is suspect."""

    share: float = Field(gt=0, le=1)
    least_errors: int = Field(ge=1)
    least_analyses: int = Field(ge=1)


class AnalysisLength(Rule):
    """The most tokens of the released text, as ``transforms.tokens`` estimates them."""

    tokens: int = Field(ge=50)


class NearDuplicate(Rule):
    """The similarity, 0 to 1, from which on two texts are the same, and the length of n-grams."""

    similarity: float = Field(gt=0, le=1)
    characters: int = Field(ge=2, le=16)


class ErrorFreeShare(Rule):
    """The most that analyses without errors may be of all."""

    most: float = Field(ge=0, le=1)


class FilterSettings(BaseModel):
    """All filters in their order, which is that of filters.yaml."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    format: Format
    unknown_aspect: Pinned
    aspects_not_as_asked: AspectsNotAsAsked
    unknown_severity: Pinned
    empty_location: Rule
    empty_explanation: EmptyExplanation
    reduction_range: ReductionRange
    severity_band: SeverityBand
    too_many_errors: TooManyErrors
    location_not_in_output: Rule
    location_is_output: Rule
    duplicate_errors: Rule
    overlapping_errors: Rule
    mentions_reference: MentionsReference
    restates_location: RestatesLocation
    suggestion_is_location: Rule
    degenerate_analysis: DegenerateAnalysis
    total_differs: Rule
    unwritable: Pinned
    analysis_length: AnalysisLength
    near_duplicate: NearDuplicate
    error_free_share: ErrorFreeShare


def load_filters(path: str | None = None) -> FilterSettings:
    """Return the settings of filters.yaml, changed by what the file at ``path`` names.

    Raises:
        InputError: the file is missing or can't be read.
        OptionError: it is no YAML mapping, or names a filter, threshold or value there isn't.
    """
    return filter_settings.load_filters(FilterSettings, DEFAULT_FILE, path)
