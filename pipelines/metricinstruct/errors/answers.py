"""What a parser makes of a model's answer: the analysis, as far as it can be read, and faults."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence

import polars as pl
import pyarrow as pa

from pipelines.metricinstruct.errors.places import place
from pipelines.metricinstruct.errors.record import ERRORS_TYPE, ErrorRecord, to_column
from pipelines.metricinstruct.schema import SEVERITIES
from transforms.frames import Schema, polars_schema

NOT_JSON = "not_json"
NOT_AN_ANALYSIS = "not_an_analysis"
NO_HEADER = "no_header"
SINGULAR_HEADER = "singular_header"
COUNT_DIFFERS = "count_differs"
MISSING_FIELD = "missing_field"
REPEATED_FIELD = "repeated_field"
UNKNOWN_FIELD = "unknown_field"
NULL_FIELD = "null_field"
WRONG_TYPE = "wrong_type"
NOT_A_NUMBER = "not_a_number"
NOT_TEXT = "not_text"
VALUE_ON_NEXT_LINE = "value_on_next_line"
CONTINUED_VALUE = "continued_value"
TEXT_AROUND = "text_around"
#: What can be wrong with the form of an answer. From ``VALUE_ON_NEXT_LINE`` on nothing is lost
#: by it: the parsers read such answers in full and only say that they did.
FAULTS = (
    NOT_JSON,
    NOT_AN_ANALYSIS,
    NO_HEADER,
    SINGULAR_HEADER,
    COUNT_DIFFERS,
    MISSING_FIELD,
    REPEATED_FIELD,
    UNKNOWN_FIELD,
    NULL_FIELD,
    WRONG_TYPE,
    NOT_A_NUMBER,
    NOT_TEXT,
    VALUE_ON_NEXT_LINE,
    CONTINUED_VALUE,
    TEXT_AROUND,
)


@dataclasses.dataclass(frozen=True)
class Fault:
    """One fault of an answer's form.

    Fields:
        reason: one of ``FAULTS``.
        error: which error of the answer it is about, from 1; None for the answer as a whole.
        value: the field, number or name that shows it, short and never a passage of the answer.
    """

    reason: str
    error: int | None = None
    value: str | None = None


@dataclasses.dataclass(frozen=True)
class Analysis:
    """A parsed answer.

    Fields:
        errors: the errors that could be read in full, in order.
        faults: what is wrong with the form; an error with a fault that loses something of it is
            not among ``errors``.
        output: the output that the answer holds (synthetic channel), None where it holds none.
        stated_count: number of errors by the answer's own header, None where it has none.
        stated_total: score reduction by its own header, None where it has none.
    """

    errors: tuple[ErrorRecord, ...] = ()
    faults: tuple[Fault, ...] = ()
    output: str | None = None
    stated_count: int | None = None
    stated_total: float | None = None


#: Faults as a column of an analysis.
FAULT_STRUCT = pa.struct(
    [
        pa.field("reason", pa.string()),
        pa.field("error", pa.int32()),
        pa.field("value", pa.string()),
    ]
)
FAULTS_TYPE: pl.DataType = polars_schema(pa.schema([pa.field("f", pa.list_(FAULT_STRUCT))]))["f"]

#: What the filters look at: one row per analysis. Further columns may stand beside these.
ANALYSES: Schema = {
    "id": pl.String,  # of the row: input and output
    "key": pl.String,  # of the input
    "task": pl.String,
    "channel": pl.String,
    "source": pl.String,
    "input_context": pl.String,
    "hypothesis": pl.String,  # the output that is analysed
    "aspects": pl.List(pl.String),  # that an error of this row may have
    "aspects_missing": pl.List(pl.String),  # asked for, and no error has them
    "aspects_unasked": pl.List(pl.String),  # that errors have, though others were asked for
    "stated_total": pl.Float64,  # by the answer's own header, null where it has none
    "faults": FAULTS_TYPE,
    "errors": ERRORS_TYPE,
}


def settle(analysis: Analysis, output: str, aspects: Iterable[str]) -> Analysis:
    """Return ``analysis`` with its errors placed in ``output`` and its names spelled as given.

    An aspect or severity that differs from a known one only by case or blanks is spelled as that
    one; any other stays as the model gave it, for a filter to judge.
    """
    spelling = {_folded(name): name for name in (*aspects, *SEVERITIES)}
    errors = (place(_spelled(error, spelling), output) for error in analysis.errors)
    return dataclasses.replace(analysis, errors=tuple(errors))


def _spelled(error: ErrorRecord, spelling: Mapping[str, str]) -> ErrorRecord:
    aspect = spelling.get(_folded(error.aspect), error.aspect)
    severity = spelling.get(_folded(error.severity), error.severity)
    if (aspect, severity) == (error.aspect, error.severity):
        return error
    return dataclasses.replace(error, aspect=aspect, severity=severity)


def to_columns(analyses: Sequence[Analysis]) -> pl.DataFrame:
    """Return the columns of ``ANALYSES`` that come from the answers: a row for each, in order."""
    faults = [[dataclasses.asdict(fault) for fault in analysis.faults] for analysis in analyses]
    totals = [analysis.stated_total for analysis in analyses]
    return pl.DataFrame(
        {
            "stated_total": pl.Series(totals, dtype=pl.Float64),
            # By way of Arrow: a twentieth of the time that Polars takes for nested values.
            "faults": pl.Series(pa.array(faults, pa.list_(FAULT_STRUCT))).cast(FAULTS_TYPE),
            "errors": to_column([analysis.errors for analysis in analyses]),
        }
    )


def _folded(name: str) -> str:
    return " ".join(name.split()).casefold()
