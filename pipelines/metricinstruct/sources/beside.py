"""Rows beside a source: of files that are joined to its own, and which of them joined nothing.

Outputs and human annotations come in files of their own, whose rows name inputs of the source. Each
file of the source reads them all and tells which it has asked for; one that none has asked for ends
as a reject.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from pipelines.metricinstruct.schema import ANNOTATION, BESIDE, OUTPUT, REAL, REJECTED
from pipelines.metricinstruct.sources.source import Source
from transforms.frames import from_rows, polars_schema
from transforms.ledger import count_out
from transforms.reading.decode import printable

#: The ledger's stage of these rows.
STAGE = "beside_rows"
#: What is wrong with a row that joins nothing, by what it is.
_RULES = {ANNOTATION: "no_such_output", OUTPUT: "no_such_input"}


@dataclass
class RowBeside:
    """One row: what it is, where it stands, what it names, and whether that was asked for."""

    unit: str
    file: str
    line: int
    item: str | None
    system: str | None
    text: str
    used: bool = False


def beside_frame(rows: Sequence[RowBeside], source: Source) -> pl.DataFrame:
    """Return the rows beside a file of ``source``, schema ``BESIDE``."""
    values = [
        (
            row.unit,
            row.file,
            row.line,
            source.name,
            source.task,
            row.item and printable(row.item),
            row.system and printable(row.system),
            printable(row.text),
            row.used,
        )
        for row in rows
    ]
    return from_rows(values, BESIDE)


def unjoined(told: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return rejects of the rows that no file has asked for, and the count of the others.

    Args:
        told: what all files of the sources told, schema ``BESIDE``.
    """
    place = [name for name in BESIDE if name != "used"]
    rows = told.group_by(place).agg(pl.col("used").any()).sort(place)
    left = rows.filter(~pl.col("used"))
    columns = {
        "rule": pl.col("unit").replace_strict(_RULES, return_dtype=pl.String),
        "value": pl.col("item"),
        "outcome": pl.lit("rejected"),
        "channel": pl.lit(REAL),
        "field": pl.lit("id"),
        "key": pl.lit(None),
        "split": pl.lit(None),
        "input_rows": pl.lit(0),
    }
    rejected = left.select(
        columns.get(name, pl.col(name)).cast(kind).alias(name)
        for name, kind in polars_schema(REJECTED).items()
    )
    joined = count_out(STAGE, "joined", pl.lit(""), rows.filter(pl.col("used")), pl.len())
    return rejected, joined
