"""One error of an analysis as a typed record, and as a struct of a column.

Offsets count Unicode code points of the output, as Python's and Polars' characters do.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence
from typing import Any

import polars as pl
import pyarrow as pa

from transforms.frames import polars_schema

EXACT = "exact"
NORMALISED = "normalised"
NEAREST_TO_CONTEXT = "nearest_to_context"
FIRST_OF_SEVERAL = "first_of_several"
ABSENT = "absent"
#: How a location was found in the output: it stands there once as quoted; once but for quotes,
#: white space or case; several times, and the one nearest to the quoted context was taken, or the
#: first one; or not at all.
PLACEMENTS = (EXACT, NORMALISED, NEAREST_TO_CONTEXT, FIRST_OF_SEVERAL, ABSENT)


@dataclasses.dataclass(frozen=True)
class ErrorRecord:
    """One error of a system output.

    Fields:
        location: the words that are wrong, verbatim from the output where they were found in it,
            else as the model quoted them.
        aspect: the aspect of the task that the error belongs to.
        explanation: why it is an error, with the correction.
        severity: ``Major`` or ``Minor``; another text where the model gave another.
        score_reduction: points off the output's score.
        suggestion: what should stand in place of the location; empty where it should go; None
            where the answer says nothing of it.
        context: a passage of the output around the location, as the model quoted it.
        quoted: the location as the model quoted it, None where that is ``location``.
        start: offset of the location's first character; None where it was not found.
        end: offset behind its last character.
        occurrence: which one of the places where the output holds exactly this text, from 1.
        candidates: offsets of all places that the quoted location fits; more than one means that
            the place is ambiguous.
        placement: one of ``PLACEMENTS``, None before the location was looked for.
    """

    location: str
    aspect: str
    explanation: str
    severity: str
    score_reduction: float
    suggestion: str | None = None
    context: str | None = None
    quoted: str | None = None
    start: int | None = None
    end: int | None = None
    occurrence: int | None = None
    candidates: tuple[int, ...] = ()
    placement: str | None = None


#: The same record as a struct, field by field in the same order.
ERROR_STRUCT = pa.struct(
    [
        pa.field("location", pa.string()),
        pa.field("aspect", pa.string()),
        pa.field("explanation", pa.string()),
        pa.field("severity", pa.string()),
        pa.field("score_reduction", pa.float64()),
        pa.field("suggestion", pa.string()),
        pa.field("context", pa.string()),
        pa.field("quoted", pa.string()),
        pa.field("start", pa.int32()),
        pa.field("end", pa.int32()),
        pa.field("occurrence", pa.int32()),
        pa.field("candidates", pa.list_(pa.int32())),
        pa.field("placement", pa.string()),
    ]
)
#: The column of an analysis: its errors in order.
ERRORS = pa.list_(ERROR_STRUCT)
#: The same column in Polars.
ERRORS_TYPE: pl.DataType = polars_schema(pa.schema([pa.field("errors", ERRORS)]))["errors"]

_FIELDS = tuple(field.name for field in dataclasses.fields(ErrorRecord))
_CANDIDATES = _FIELDS.index("candidates")


def to_column(analyses: Sequence[Sequence[ErrorRecord]]) -> pl.Series:
    """Return the column of the errors of each analysis, named ``errors``, type ``ERRORS_TYPE``."""
    flat = [error for errors in analyses for error in errors]
    # Field by field: a tenth of the time that a conversion of nested dictionaries takes.
    structs = pa.StructArray.from_arrays(
        [
            pa.array([getattr(error, field.name) for error in flat], field.type)
            for field in ERROR_STRUCT
        ],
        fields=list(ERROR_STRUCT),
    )
    offsets = pa.array(itertools.accumulate(map(len, analyses), initial=0), pa.int32())
    return pl.Series("errors", pa.ListArray.from_arrays(offsets, structs)).cast(ERRORS_TYPE)


def from_column(errors: pl.Series) -> list[tuple[ErrorRecord, ...]]:
    """Return the errors of each analysis that ``to_column`` wrote."""
    flat = errors.explode(empty_as_null=False).struct.unnest().select(_FIELDS)
    records = (_record(list(row)) for row in flat.iter_rows())
    return [tuple(itertools.islice(records, length)) for length in errors.list.len()]


def _record(fields: list[Any]) -> ErrorRecord:
    fields[_CANDIDATES] = tuple(fields[_CANDIDATES])
    return ErrorRecord(*fields)
