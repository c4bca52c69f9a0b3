from __future__ import annotations

from typing import Any

import polars as pl

from pipelines.metricinstruct.answer_shares import ANSWERS, count_answers
from pipelines.metricinstruct.drafts import ANALYSED
from pipelines.metricinstruct.errors.answers import Analysis, Fault, settle, to_columns
from pipelines.metricinstruct.errors.record import ErrorRecord
from pipelines.metricinstruct.filter_settings import load_filters
from pipelines.metricinstruct.schema import DEAD, REAL, REJECTED, SYNTHETIC
from transforms.frames import polars_schema
from transforms.llm.calls import CallClass

OUTPUT = "The red door stands open."


def analysis(*locations: str, fault: str | None = None) -> Analysis:
    errors = tuple(ErrorRecord(text, "Fluency", "Why.", "Minor", 1.0) for text in locations)
    return settle(Analysis(errors, (Fault(fault),) if fault else ()), OUTPUT, ["Fluency"])


def analyses(*rows: tuple[str, str, str | None, Analysis]) -> pl.DataFrame:
    parsed = to_columns([one for *_, one in rows])
    named = pl.DataFrame(
        [row[:3] for row in rows], schema=["id", "channel", "form"], orient="row"
    ).hstack(parsed)
    return named.select(
        (pl.col(name) if name in named.columns else pl.lit(None)).cast(kind).alias(name)
        for name, kind in ANALYSED.items()
    )


def a_frame(schema: Any, rows: list[dict[str, Any]]) -> pl.DataFrame:
    return pl.DataFrame(rows, schema=dict(polars_schema(schema)))


def test_all_answers_count_and_only_they() -> None:
    drafted = analyses(
        ("a", REAL, "structured", analysis("red", "door")),
        ("b", REAL, "structured", analysis("“red”", "green", fault="text_around")),
        ("c", REAL, "structured", analysis("open", fault="missing_field")),
        ("d", SYNTHETIC, "edits", analysis()),
        ("e", SYNTHETIC, None, analysis()),  # a reference as it is
    )
    rejected = a_frame(
        REJECTED,
        [
            {"unit": "analysis", "outcome": "rejected", "channel": SYNTHETIC, "rule": rule}
            for rule in ("no_output", "unchanged_output", "no_reference")
        ]
        + [
            {"unit": "analysis", "outcome": "duplicate", "channel": REAL, "rule": "duplicate_id"},
            {"unit": "example", "outcome": "rejected", "channel": REAL, "rule": "not_chosen"},
        ],
    )
    dead = a_frame(
        DEAD, [{"channel": REAL, "error_class": one.value} for one in CallClass if one != "ok"]
    )
    passed = drafted.filter(pl.col("id").is_in(["a", "d", "e"]))
    found = count_answers(drafted, passed, rejected, dead, load_filters().format)
    assert dict(found.schema) == dict(ANSWERS)
    # Real: three analyses, and three answers that are cut, no JSON, or of another schema.
    assert found.rows() == [(REAL, 6, 2, 5, 3, 1), (SYNTHETIC, 3, 2, 0, 0, 1)]


def test_nothing_in_gives_no_row() -> None:
    none = analyses()
    rejected, dead = a_frame(REJECTED, []), a_frame(DEAD, [])
    found = count_answers(none, none, rejected, dead, load_filters().format)
    assert found.height == 0
    assert dict(found.schema) == dict(ANSWERS)
