"""Crowd files: responses and safety votes as JSON Lines, read to frames. CROWD.md has the fields.

A row that can't be used is a reject with its file, line, field and one of these rules, or one of
the reading of JSON Lines itself (``transforms.reading.json_records``):

=========================  ======================================================================
malformed_key              ``key`` is not the 32 hex digits that waiting dialogues are listed with
unknown_turn               ``turn`` is not 0, 1 or 2
missing_annotator          ``annotator`` is absent or blank: votes could not be told apart
blank_response             a response on turn 1 or 2 without text (turn 0 has a drafted question)
malformed_episode_done     ``episode_done`` is true on turn 0: a dialogue has two rows at least
unknown_label              ``vote`` is none of the three labels
=========================  ======================================================================
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple

import polars as pl

from pipelines.prosocial import schema
from transforms.errors import InputError
from transforms.frames import Schema, concat, polars_schema
from transforms.keys import KEY_LENGTH
from transforms.ledger import COUNTS
from transforms.reading.tables import TableFormat, header, read_table

Unit = Literal["response", "annotation"]

_FORM = TableFormat("jsonl")
#: A character that is neither white space (Python's, too) nor a semicolon.
_SAYS_MORE_THAN_SEMICOLONS = r"[^\s\x1c-\x1f;]"
_REJECTED = polars_schema(schema.REJECTED)


@dataclass(frozen=True)
class _Kind:
    fields: Schema
    optional: frozenset[str]
    text: str  # what a reject shows of the row


_KINDS: dict[Unit, _Kind] = {
    "response": _Kind(
        {
            "key": pl.String,
            "turn": pl.String,
            "annotator": pl.String,
            "response": pl.String,
            "context": pl.String,
            "rots": pl.List(pl.String),
            "candidates": pl.List(pl.String),
            "episode_done": pl.Boolean,
        },
        frozenset({"context", "rots", "candidates", "episode_done"}),
        "response",
    ),
    "annotation": _Kind(
        {
            "key": pl.String,
            "turn": pl.String,
            "annotator": pl.String,
            "vote": pl.String,
            "reason": pl.String,
        },
        frozenset({"reason"}),
        "reason",
    ),
}


class CrowdRows(NamedTuple):
    """Some rows of a crowd file.

    Attributes:
        frame: usable rows, schema ``RESPONSES`` or ``ANNOTATIONS``, author ``crowd``.
        rejected: the others, schema ``REJECTED``.
        rows: how many were read, counted apart from both.
        counts: stage ``read.responses`` or ``read.annotations``.
    """

    frame: pl.DataFrame
    rejected: pl.DataFrame
    rows: int
    counts: pl.DataFrame


def check_crowd_file(path: str, unit: Unit) -> None:
    """Refuse a file whose first objects lack a field that every row needs.

    Raises:
        InputError: names the file, the missing fields, those that are there, and the remedy.
    """
    kind = _KINDS[unit]
    there = list(header(path, _FORM))
    missing = [name for name in kind.fields if name not in there and name not in kind.optional]
    if missing:
        raise InputError(
            f"{path}: no field {', '.join(missing)} (there are: {', '.join(there[:40])}); {unit}s "
            f"have the fields {', '.join(kind.fields)}, see pipelines/prosocial/CROWD.md"
        )


def read_crowd_file(path: str, unit: Unit) -> Iterator[CrowdRows]:
    """Yield the rows of a crowd file chunk by chunk; each is usable or rejected.

    Raises:
        InputError: the file can't be read to its end.
    """
    kind = _KINDS[unit]
    for chunk in read_table(path, _FORM, kind.fields, kind.optional):
        frame, refused = crowd_rows(chunk.frame.with_columns(pl.lit(path).alias("file")), unit)
        rejected = concat([_unread(chunk.rejected, unit), refused], _REJECTED).sort("line")
        counts = _counts(unit, chunk.rows, frame, rejected)
        yield CrowdRows(frame, rejected, chunk.rows, counts)


def crowd_rows(rows: pl.DataFrame, unit: Unit) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return usable rows (``RESPONSES`` or ``ANNOTATIONS``) and rejects (``REJECTED``).

    Args:
        rows: the fields of the unit as read, and ``file`` and ``line``.
        unit: what the rows are.
    """
    kind = _KINDS[unit]
    read = [name for name in ("key", "turn", "annotator", "vote") if name in kind.fields]
    given = rows.rename({name: f"given_{name}" for name in read})
    plain = given.with_columns(
        pl.col("given_key").str.strip_chars().str.to_lowercase().alias("key"),
        pl.col("given_turn")
        .str.strip_chars()
        .str.extract(r"^([0-2])(?:\.0+)?$")
        .cast(pl.Int32)
        .alias("turn"),
        # Spreadsheets and data frames write the id 12 as 12.0.
        _text("given_annotator").str.replace(r"^(\d+)\.0+$", "$1").alias("annotator"),
    )
    faults = [
        _fault("malformed_key", "key", ~_matches("key", rf"^[0-9a-f]{{{KEY_LENGTH}}}$")),
        _fault("unknown_turn", "turn", pl.col("turn").is_null()),
        _fault("missing_annotator", "annotator", pl.col("annotator").is_null()),
    ]
    if unit == "response":
        plain, columns = _responses(plain), schema.RESPONSES
        faults += [
            _fault(
                "blank_response",
                "response",
                (pl.col("turn") > 0) & pl.col("response").is_null(),
                given="response",
            ),
            _fault(
                "malformed_episode_done",
                "episode_done",
                (pl.col("turn") == 0) & pl.col("episode_done"),
                given="episode_done",
            ),
        ]
    else:
        plain, columns = _annotations(plain), schema.ANNOTATIONS
        faults.append(_fault("unknown_label", "vote", pl.col("vote").is_null()))
    judged = plain.with_columns(pl.coalesce(faults).alias("fault"))
    usable = judged.filter(pl.col("fault").is_null()).with_columns(
        pl.lit("crowd").alias("author"),
        pl.lit(None, dtype=pl.String).alias("prompt"),
        pl.lit(None, dtype=pl.String).alias("request"),
        pl.lit(None, dtype=pl.String).alias("model"),
    )
    refused = judged.filter(pl.col("fault").is_not_null()).unnest("fault")
    return usable.select(list(columns)), _rejects(refused, unit, kind.text)


def _responses(rows: pl.DataFrame) -> pl.DataFrame:
    return rows.with_columns(
        _text("response").alias("response"),
        _text("context").alias("context"),
        _rots("rots"),
        _rots("candidates"),
    )


def _annotations(rows: pl.DataFrame) -> pl.DataFrame:
    # ``__Needs_Caution__``, ``needs-caution`` and ``needs caution`` are one label.
    label = (
        pl.col("given_vote").str.to_lowercase().str.replace_all(r"[\s_\-]+", " ").str.strip_chars()
    )
    return rows.with_columns(
        pl.when(label.is_in(schema.VOTES)).then(label).alias("vote"),
        pl.col("reason").str.strip_chars().fill_null("").alias("reason"),
    )


def _text(column: str) -> pl.Expr:
    stripped = pl.col(column).str.strip_chars()
    return pl.when(stripped != "").then(stripped)


def _rots(column: str) -> pl.Expr:
    """Return rules-of-thumb as they were written; blanks and repetitions are dropped.

    None, ``[]``, ``[""]`` and ``[null]`` are the same: an empty list. What semicolons part is seen
    where the candidates are known, see ``crowd.resolve``.
    """
    stripped = pl.element().str.strip_chars()
    said = pl.col(column).list.eval(
        stripped.filter(stripped.str.contains(_SAYS_MORE_THAN_SEMICOLONS))
    )
    return said.list.unique(maintain_order=True).fill_null([]).alias(column)


def _matches(column: str, pattern: str) -> pl.Expr:
    return pl.col(column).str.contains(pattern).fill_null(False)


def _fault(rule: str, field: str, broken: pl.Expr, given: str | None = None) -> pl.Expr:
    value = pl.col(given or f"given_{field}").cast(pl.String)
    fault = pl.struct(
        pl.lit(rule).alias("rule"), pl.lit(field).alias("field"), value.alias("value")
    )
    return pl.when(broken).then(fault)


def _rejects(refused: pl.DataFrame, unit: Unit, text: str) -> pl.DataFrame:
    of_a_key = pl.col("rule") != "malformed_key"
    return _rejected(
        refused.with_columns(
            # What is no key can't be placed by it; its digits stand in ``value``.
            pl.when(of_a_key).then("key").alias("key"),
            pl.col(text).alias("text"),
        ),
        unit,
    )


def _unread(rows: pl.DataFrame, unit: Unit) -> pl.DataFrame:
    return _rejected(
        rows.with_columns(
            pl.lit(None, dtype=pl.String).alias("key"),
            pl.lit(None, dtype=pl.Int32).alias("turn"),
            # The line as it stands holds an annotator's id in plain text: file and line find it.
            pl.lit(None, dtype=pl.String).alias("text"),
        ),
        unit,
    )


def _rejected(rows: pl.DataFrame, unit: Unit) -> pl.DataFrame:
    return rows.with_columns(
        pl.lit(unit).alias("unit"),
        pl.lit("rejected").alias("outcome"),
        pl.lit(None, dtype=pl.String).alias("source"),
        pl.lit(None, dtype=pl.String).alias("split"),
        pl.lit(0, dtype=pl.Int64).alias("input_rows"),
    ).select(list(_REJECTED))


def _counts(unit: Unit, rows: int, frame: pl.DataFrame, rejected: pl.DataFrame) -> pl.DataFrame:
    stage = f"read.{unit}s"
    by_rule = rejected.group_by("rule").len().sort("rule").rows()
    counts = [("in", "", "", rows), ("out", unit, "", frame.height)]
    counts += [("out", "rejected", rule, n) for rule, n in by_rule]
    return pl.DataFrame(
        [(stage, *row) for row in counts if row[-1]], schema=dict(COUNTS), orient="row"
    )
