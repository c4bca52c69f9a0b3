"""What every reader of tables gives: chunks of typed rows, beside the rows it could not take."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from transforms.reading.decode import printable

LINE = "line"
MAX_VALUE_CHARACTERS = 200

#: Rows that could not be taken; ``field`` is null where the whole row is at fault.
REJECTED_ROWS: dict[str, type[pl.DataType]] = {
    "file": pl.String,
    LINE: pl.Int64,
    "field": pl.String,
    "rule": pl.String,
    "value": pl.String,
    "text": pl.String,
}


@dataclass(frozen=True)
class TableFormat:
    """How a file's rows are laid out.

    Attributes:
        kind: csv, tsv, jsonl (an object a line), json (one array of objects) or parquet.
        delimiter: what parts the cells of csv and tsv.
        quoted: whether cells of csv and tsv may be quoted; if not, a quote is content.
        columns: names of the columns of a csv or tsv file without a header line, else None.
    """

    kind: str
    delimiter: str = ","
    quoted: bool = True
    columns: tuple[str, ...] | None = None


@dataclass(frozen=True)
class TableChunk:
    """Some rows of a file.

    Attributes:
        frame: ``line`` (Int64, from 1: the physical line on which the record starts; in parquet and
            in a JSON array the row's number) and the wanted columns in the order of the schema.
        rejected: rows that could not be taken, with the columns of ``REJECTED_ROWS``.
        rows: records seen, good and bad, counted apart from both frames.
    """

    frame: pl.DataFrame
    rejected: pl.DataFrame
    rows: int


class RejectedRows:
    """Collects the rejected rows of one file's chunk."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._rows: list[tuple[str, int, str | None, str, str | None, str]] = []

    def add(
        self, line: int, rule: str, text: str, field: str | None = None, value: str | None = None
    ) -> None:
        """Record that the row ``text`` on ``line`` breaks ``rule``, with the value that did."""
        shown = None if value is None else printable(value, MAX_VALUE_CHARACTERS)
        self._rows.append((self._path, line, field, rule, shown, printable(text)))

    def frame(self) -> pl.DataFrame:
        """Return what was recorded as a frame."""
        return pl.DataFrame(self._rows, schema=dict(REJECTED_ROWS), orient="row")
