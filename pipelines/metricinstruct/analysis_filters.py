"""The filters of analyses. One bad error rejects its row, and every rejected row has its reason.

Every rule is a ``transforms.filters.Filter`` over one of the ``analysis_tables``: faults of the
form, errors, pairs of errors of one analysis, and analyses. ``near_duplicate`` and
``error_free_share`` look at what passes these, see ``balance``.
"""

from __future__ import annotations

import polars as pl

from pipelines.metricinstruct.analysis_length import fits
from pipelines.metricinstruct.filter_settings import AspectsNotAsAsked, FilterSettings
from pipelines.metricinstruct.schema import MAJOR, MINOR, SEVERITIES
from transforms.filter_settings import Rule
from transforms.filters import Filter

# Sums of decimal reductions as floats differ by less than this from the sums they stand for.
_PRECISION = 1e-6


def analysis_filters(settings: FilterSettings) -> tuple[Filter, ...]:
    """Return the filters in the order of filters.yaml, but for those of ``balance``."""
    by_name = {
        rule.name: rule
        for rule in (
            *_form_filters(settings),
            *_value_filters(settings),
            _aspects_filter(settings.aspects_not_as_asked),
            *_location_filters(settings),
            *_explanation_filters(settings),
            *_analysis_filters(settings),
        )
    }
    return tuple(by_name[name] for name in FilterSettings.model_fields if name in by_name)


def _of_error(name: str, rule: Rule, fails: pl.Expr, value: pl.Expr, field: str) -> Filter:
    place = pl.format(f"{field} {{}}", pl.col("number"))
    return Filter(name, "error", fails, value, rule.level, place)


def _form_filters(settings: FilterSettings) -> list[Filter]:
    reason, name = pl.col("reason"), pl.col("value")
    about = pl.when(pl.col("error").is_null()).then(pl.lit("answer"))
    return [
        Filter(
            "format",
            "fault",
            ~reason.is_in(list(settings.format.tolerated)),
            pl.when(name.is_null()).then(reason).otherwise(pl.format("{}: {}", reason, name)),
            settings.format.level,
            about.otherwise(pl.format("error {}", pl.col("error"))),
        ),
        _of_error(
            "unwritable",
            settings.unwritable,
            pl.col("unwritable").is_not_null(),
            pl.col("unwritable"),
            "error",
        ),
    ]


def _value_filters(settings: FilterSettings) -> list[Filter]:
    aspect, severity = pl.col("aspect"), pl.col("severity")
    points, bounds, bands = (
        pl.col("score_reduction"),
        settings.reduction_range,
        settings.severity_band,
    )
    outside = points.is_null() | points.is_nan() | ~points.is_between(bounds.least, bounds.most)
    off_band = ((severity == MAJOR) & ~points.is_between(*bands.major)) | (
        (severity == MINOR) & ~points.is_between(*bands.minor)
    )
    return [
        _of_error(
            "unknown_aspect",
            settings.unknown_aspect,
            ~pl.col("aspects").list.contains(aspect),
            aspect,
            "aspect",
        ),
        _of_error(
            "unknown_severity",
            settings.unknown_severity,
            ~severity.is_in(list(SEVERITIES)),
            severity,
            "severity",
        ),
        _of_error("reduction_range", bounds, outside, points, "score_reduction"),
        _of_error(
            "severity_band",
            bands,
            off_band,
            pl.format("{} {}", severity, points),
            "score_reduction",
        ),
    ]


def _aspects_filter(rule: AspectsNotAsAsked) -> Filter:
    """Return the comparison of the aspects asked for with those that came."""
    differing = {
        name: pl.col(f"aspects_{name}")
        for name in ("missing", "unasked")
        if name not in rule.tolerated
    }
    told = (
        pl.when(names.list.len() > 0).then(pl.format(f"{kind} {{}}", names.list.join(", ")))
        for kind, names in differing.items()
    )
    return Filter(
        "aspects_not_as_asked",
        "analysis",
        pl.any_horizontal(pl.lit(value=False), *(n.list.len() > 0 for n in differing.values())),
        pl.concat_str(*told, pl.lit(None, pl.String), separator="; ", ignore_nulls=True),
        rule.level,
        pl.lit("aspect"),
    )


def _location_filters(settings: FilterSettings) -> list[Filter]:
    location, blank = pl.col("location"), pl.col("location").str.strip_chars() == ""
    whole = _core(location) == _core(pl.col("text"))
    same = (pl.col("start") == pl.col("start_other")) & (pl.col("end") == pl.col("end_other"))
    both = pl.format("errors {} and {}", "number", "number_other")
    duplicate, overlapping = settings.duplicate_errors, settings.overlapping_errors
    return [
        _of_error("empty_location", settings.empty_location, blank, pl.lit(""), "location"),
        _of_error(
            "location_not_in_output",
            settings.location_not_in_output,
            pl.col("start").is_null() & ~blank,
            location,
            "location",
        ),
        _of_error("location_is_output", settings.location_is_output, whole, location, "location"),
        Filter("duplicate_errors", "pair", same, location, duplicate.level, both),
        Filter("overlapping_errors", "pair", ~same, location, overlapping.level, both),
    ]


def _core(text: pl.Expr) -> pl.Expr:
    """Return each text without what stands around its first and last letter or digit."""
    return text.str.replace_all(r"^[^\p{L}\p{N}]+|[^\p{L}\p{N}]+$", "")


def _explanation_filters(settings: FilterSettings) -> list[Filter]:
    explanation = pl.col("explanation")
    bare = explanation.str.strip_chars().str.to_lowercase()
    nothing = [text.lower() for text in settings.empty_explanation.same_as_empty]
    empty = (bare == "") | bare.is_in(nothing)
    mentions = settings.mentions_reference
    left = explanation
    for pattern in mentions.allowed:
        left = left.str.replace_all(f"(?i){pattern}", " ")
    mention = pl.coalesce(left.str.extract(f"(?i)({pattern})", 1) for pattern in mentions.patterns)
    new, restates = pl.col("new_words"), settings.restates_location
    adds_little = (new.list.len() < restates.words) & (
        new.list.join("").str.len_chars() < restates.letters
    )
    return [
        _of_error(
            "empty_explanation", settings.empty_explanation, empty, explanation, "explanation"
        ),
        _of_error("mentions_reference", mentions, mention.is_not_null(), mention, "explanation"),
        _of_error("restates_location", restates, adds_little & ~empty, explanation, "explanation"),
        _of_error(
            "suggestion_is_location",
            settings.suggestion_is_location,
            pl.col("suggestion_is_location"),
            pl.coalesce("suggestion", "location"),
            "suggestion",
        ),
    ]


def _analysis_filters(settings: FilterSettings) -> list[Filter]:
    many, degenerate = settings.too_many_errors, settings.degenerate_analysis
    errors = pl.col("errors").list.len()
    stated, total = pl.col("stated_total"), pl.col("total")
    # A reader that takes the total for an integer loses the half point; nothing was added up wrong.
    cut = ((total.floor() - stated).abs() < _PRECISION) & (total > stated)
    length = settings.analysis_length
    return [
        Filter("too_many_errors", "analysis", errors > many.most, errors, many.level),
        Filter(
            "degenerate_analysis",
            "analysis",
            (pl.col("profile_share") >= degenerate.share)
            & (errors >= degenerate.least_errors)
            & (pl.col("source_analyses") >= degenerate.least_analyses),
            pl.format("{} in {} of the source", "profile", pl.col("profile_share").round(3)),
            degenerate.level,
        ),
        Filter(
            "total_differs",
            "analysis",
            (stated - total).abs() > _PRECISION,
            pl.format(
                "{}: {} != {}",
                pl.when(cut).then(pl.lit("cut to an integer")).otherwise(pl.lit("not the sum")),
                stated,
                total,
            ),
            settings.total_differs.level,
            pl.lit("header"),
        ),
        _of_error(
            "analysis_length",
            length,
            pl.col("largest") & ~fits(pl.col("tokens"), length),
            pl.format("{} tokens", pl.col("tokens").round(0).cast(pl.Int64)),
            "error",
        ),
    ]


def rejects(verdicts: pl.DataFrame) -> pl.DataFrame:
    """Return the verdict that rejects each analysis: of level ``error``, the first in order.

    Args:
        verdicts: schema ``transforms.filters.VERDICTS``.

    Returns:
        Columns id, rule, value, field; one row per rejected analysis.
    """
    return (
        verdicts.filter(pl.col("level") == "error")
        .sort("key", "position", "field", "value")
        .unique("key", keep="first", maintain_order=True)
        .select(pl.col("key").alias("id"), "rule", "value", "field")
    )
