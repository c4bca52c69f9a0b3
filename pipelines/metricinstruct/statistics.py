"""Statistics of published rows: counted per partition, added up, and summed up for card and suites.

A partition's statistics are one small frame of counts (``STATISTICS``), which merge in any order.
``summarise`` turns the merged frame into tables, which are what ``statistics.json`` holds and what
the version's suites look at.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import polars as pl

from pipelines.metricinstruct import schema
from pipelines.metricinstruct.answer_shares import ANSWERS, IS_VERBATIM
from pipelines.metricinstruct.errors.record import PLACEMENTS
from pipelines.metricinstruct.examples import KINDS
from pipelines.metricinstruct.human_agreement import groups_of
from transforms.crowd import spans
from transforms.frames import Schema, concat
from transforms.publishing.summaries import ratio, shares

#: ``value`` and ``other`` name what is counted, ``x`` and ``y`` are scores; null where not needed.
STATISTICS: Schema = {
    "statistic": pl.String,
    "split": pl.String,
    "value": pl.String,
    "other": pl.String,
    "x": pl.Float64,
    "y": pl.Float64,
    "n": pl.Int64,
    "amount": pl.Float64,  # a sum of points or lengths
}
_GROUP = ("statistic", "split", "value", "other", "x", "y")
_OF_ANSWERS = tuple(name for name in ANSWERS if name != "channel")
_PAIR_COUNTS = tuple(name for name in spans.COUNTS if name not in ("first", "second"))

Tables = dict[str, list[dict[str, Any]]]


def partition_statistics(
    rows: pl.DataFrame, verdicts: pl.DataFrame, sums: Mapping[str, pl.DataFrame]
) -> pl.DataFrame:
    """Return the statistics of one partition.

    Args:
        rows: as ``configurations.released`` returns them.
        verdicts: of the verification, for these rows.
        sums: ``funnel``, what the filters saw of all analyses; ``answers``, schema ``ANSWERS``;
            ``pair_counts`` and ``pair_scores``, ``COUNTS`` and ``SCORES`` of
            ``transforms.crowd.spans``.
    """
    errors = (
        rows.select("split", "task", "errors")
        .explode("errors", empty_as_null=False)
        .unnest("errors")
    )
    systems = rows.select("split", "systems").explode("systems", empty_as_null=False)
    words = pl.col("hypo_output").str.count_matches(r"\S+")
    frames = [
        _counted("rows", rows, "task", "channel", amount=pl.col("score_reduction")),
        _counted("sources", rows, "source", "channel"),
        _counted("systems", systems, "systems"),
        _counted("kinds", rows, "kind"),
        _counted("choices", rows.drop_nulls("choice"), "choice"),
        _counted("error_free", rows.filter(pl.col("error_count") == 0), "task", "channel"),
        _counted("words", rows, amount=words),
        _counted("severities", errors, "severity", "task"),
        _counted("aspects", errors, "task", "aspect"),
        _counted("placements", errors, "placement"),
        _counted("verbatim", errors.filter(IS_VERBATIM)),
        _counted("verdicts", verdicts, "check", "outcome"),
        *_of_filters(sums["funnel"]),
        *(
            _frame(f"answers {name}", sums["answers"].select(value="channel", n=name))
            for name in _OF_ANSWERS
        ),
        *_of_pairs(sums["pair_counts"], sums["pair_scores"]),
    ]
    return merge_statistics(frames)


def merge_statistics(frames: Iterable[pl.DataFrame]) -> pl.DataFrame:
    """Return the statistics of all ``frames`` together, sorted."""
    return (
        concat(frames, STATISTICS)
        .group_by(_GROUP)
        .agg(pl.col("n").sum(), pl.col("amount").sum())
        .sort(_GROUP)
    )


def _counted(
    statistic: str,
    rows: pl.DataFrame,
    value: str | None = None,
    other: str | None = None,
    amount: pl.Expr | None = None,
) -> pl.DataFrame:
    names = {"split": "split" if "split" in rows.columns else None, "value": value, "other": other}
    by = [
        (pl.lit(None) if column is None else pl.col(column)).cast(pl.String).alias(name)
        for name, column in names.items()
    ]
    summed = pl.lit(0.0) if amount is None else amount.sum()
    return _frame(
        statistic,
        rows.group_by(by).agg(pl.len().alias("n"), summed.cast(pl.Float64).alias("amount")),
    )


def _frame(statistic: str, counts: pl.DataFrame) -> pl.DataFrame:
    named = counts.with_columns(pl.lit(statistic).alias("statistic"))
    return named.select(
        (pl.col(name) if name in named.columns else pl.lit(0.0 if name == "amount" else None))
        .cast(kind)
        .alias(name)
        for name, kind in STATISTICS.items()
    )


def _of_filters(funnel: pl.DataFrame) -> Iterable[pl.DataFrame]:
    rule = pl.format("{} {}", pl.col("position").cast(pl.String).str.zfill(3), "rule")
    named = funnel.select(rule.alias("value"), pl.col("level").alias("other"), "turns", "first")
    yield _frame("filters", named.rename({"turns": "n"}))
    yield _frame("filters_first", named.rename({"first": "n"}))


def _of_pairs(counts: pl.DataFrame, scores: pl.DataFrame) -> Iterable[pl.DataFrame]:
    names = {"first": "value", "second": "other"}
    for name in _PAIR_COUNTS:
        yield _frame(f"pairs {name}", counts.select("first", "second", n=name).rename(names))
    yield _frame("pair scores", scores.rename({**names, "score_first": "x", "score_second": "y"}))


def summarise(statistics: pl.DataFrame) -> Tables:
    """Return the tables that sum up ``statistics``, those of all partitions, merged or not.

    Returns:
        ``version`` (one row: totals, means, shares), ``splits``, ``tasks``, ``channels``,
        ``sources``, ``severities``, ``aspects``, ``kinds``, ``choices``, ``placements``,
        ``answers`` (how well the model answered, for each channel), ``filters``, ``verdicts``,
        ``agreement`` (of annotators) and ``agreement_of_groups`` (all people who annotated a source
        and stratum are one group). A mean or a share of nothing is None.
    """
    statistics = merge_statistics([statistics])
    rows = _of(statistics, "rows")
    severities = _of(statistics, "severities")
    whole, errors = _sum(rows), _sum(severities)
    error_free = _sum(_of(statistics, "error_free"))
    placements = _of(statistics, "placements")
    tallies = _tallies(statistics)
    groups = groups_of(pl.concat([tallies.counts["first"], tallies.counts["second"]]).unique())
    by_channel = {row["value"]: row["n"] for row in shares(rows, schema.CHANNELS, "other")}
    version = {
        "rows": whole,
        "errors": errors,
        "errors_per_row": ratio(errors, whole),
        "major_share": ratio(_sum(severities.filter(pl.col("value") == schema.MAJOR)), errors),
        "error_free_rows": error_free,
        "error_free_share": ratio(error_free, whole),
        "reduction_per_row": ratio(float(rows["amount"].sum()), whole),
        "words_per_output": ratio(float(_of(statistics, "words")["amount"].sum()), whole),
        "real_share": ratio(by_channel[schema.REAL], whole),
        "verbatim_share": ratio(_sum(_of(statistics, "verbatim")), errors),
        "tasks": rows["value"].n_unique(),
        "sources": _of(statistics, "sources")["value"].n_unique(),
        "systems": _of(statistics, "systems")["value"].n_unique(),
    }
    return {
        "version": [version],
        "splits": [
            {"split": split, "rows": _sum(rows.filter(pl.col("split") == split))}
            for split in schema.SPLITS
        ],
        "tasks": [_task(statistics, task, whole) for task in schema.TASKS],
        "channels": shares(rows, schema.CHANNELS, "other"),
        "sources": shares(_of(statistics, "sources"), ()),
        "severities": shares(severities, schema.SEVERITIES),
        "aspects": [
            {"task": task, **row}
            for task, aspects in schema.ASPECTS.items()
            for row in shares(
                _of(statistics, "aspects").filter(pl.col("value") == task), aspects, "other"
            )
        ],
        "kinds": shares(_of(statistics, "kinds"), KINDS),
        "choices": shares(_of(statistics, "choices"), ()),
        "placements": shares(placements, PLACEMENTS),
        "answers": _answers(statistics),
        "filters": _filters(statistics),
        "verdicts": [
            {"check": check, **row}
            for check in sorted(set(_of(statistics, "verdicts")["value"]))
            for row in shares(
                _of(statistics, "verdicts").filter(pl.col("value") == check), (), "other"
            )
        ],
        "agreement": spans.agreement(tallies).to_dicts(),
        "agreement_of_groups": spans.agreement(spans.pool(tallies, groups)).to_dicts(),
    }


def _of(statistics: pl.DataFrame, statistic: str) -> pl.DataFrame:
    return statistics.filter(pl.col("statistic") == statistic)


def _sum(counts: pl.DataFrame) -> int:
    return int(counts["n"].sum())


def _task(statistics: pl.DataFrame, task: str, whole: int) -> dict[str, Any]:
    rows = _of(statistics, "rows").filter(pl.col("value") == task)
    severities = _of(statistics, "severities").filter(pl.col("other") == task)
    n, errors = _sum(rows), _sum(severities)
    return {
        "task": task,
        "rows": n,
        "share": ratio(n, whole),
        **{channel: _sum(rows.filter(pl.col("other") == channel)) for channel in schema.CHANNELS},
        "errors_per_row": ratio(errors, n),
        "major_share": ratio(_sum(severities.filter(pl.col("value") == schema.MAJOR)), errors),
    }


def _answers(statistics: pl.DataFrame) -> list[dict[str, Any]]:
    numbers = {
        name: dict(_of(statistics, f"answers {name}").select("value", "n").iter_rows())
        for name in _OF_ANSWERS
    }
    return [
        {
            "channel": channel,
            **{name: numbers[name][channel] for name in _OF_ANSWERS},
            "parsed_share": ratio(numbers["parsed"][channel], numbers["answers"][channel]),
            "verbatim_share": ratio(numbers["verbatim"][channel], numbers["errors"][channel]),
            "passed_share": ratio(numbers["passed"][channel], numbers["answers"][channel]),
        }
        for channel in schema.CHANNELS
        if channel in numbers["answers"]
    ]


def _filters(statistics: pl.DataFrame) -> list[dict[str, Any]]:
    first = dict(_of(statistics, "filters_first").select("value", "n").iter_rows())
    failed = _of(statistics, "filters").sort("value").select("value", "other", "n")
    return [
        {"rule": rule.partition(" ")[2], "level": level, "analyses": n, "first": first[rule]}
        for rule, level, n in failed.iter_rows()
    ]


def _tallies(statistics: pl.DataFrame) -> spans.Tallies:
    names = {"value": "first", "other": "second"}
    counts: pl.DataFrame | None = None
    for name in _PAIR_COUNTS:
        column = _of(statistics, f"pairs {name}").rename(names).select("first", "second", n="n")
        column = column.rename({"n": name})
        counts = column if counts is None else counts.join(column, on=["first", "second"])
    assert counts is not None  # noqa: S101 - there are several of them
    scores = _of(statistics, "pair scores").rename(
        {**names, "x": "score_first", "y": "score_second"}
    )
    return spans.Tallies(counts.select(list(spans.COUNTS)), scores.select(list(spans.SCORES)))
