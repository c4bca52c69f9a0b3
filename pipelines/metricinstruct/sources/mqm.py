"""MQM: expert annotations of translations as the WMT metrics tasks publish them.

A file is tab-separated without quoting, one row for each error an annotator marked, or one that
says No-error. The span is marked by ``<v>`` and ``</v>`` within the target, for omissions within
the source; a mark that is never closed reaches to the text's end. Human references are rows like
those of systems: their texts serve as references.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import replace

import polars as pl

from pipelines.metricinstruct.schema import (
    MAJOR,
    MINOR,
    MQM_MAJOR,
    MQM_MINOR,
    MQM_MINOR_PUNCTUATION,
    MQM_NON_TRANSLATION,
    NO_ERROR,
)
from pipelines.metricinstruct.sources.source import (
    Example,
    HumanError,
    Rejected,
    Row,
    Yielded,
    beside_input,
    rejected,
)
from pipelines.metricinstruct.sources.values import Unusable, as_text
from transforms.errors import InputError

_MARK = re.compile(r"</?v>")
_REFERENCE = re.compile(r"(?:ref|human)(?:$|[-_. ]|[A-Z])", re.IGNORECASE)
_PAIR = re.compile(r"(?:^|[_.\-])([a-z]{2})[-_]?([a-z]{2})(?=[_.\-]|$)")
_NEEDED = ("system", "seg_id", "target", "category", "severity")


def language_pair_of(path: str, known: tuple[str, ...]) -> str:
    """Return the language pair that a file's name tells, e.g. en-de for ``mqm_ted_ende.tsv``.

    Raises:
        InputError: it tells none of the ``known`` ones.
    """
    for found in _PAIR.finditer(os.path.basename(path)):
        if (pair := f"{found[1]}-{found[2]}") in known:
            return pair
    raise InputError(
        f"{path}: its name tells none of the language pairs {', '.join(known)}; name the file as "
        "its publishers do, e.g. mqm_ted_ende.tsv"
    )


def marked(text: str) -> tuple[str, list[tuple[int, int]]]:
    """Return ``text`` without its marks and outer white space, and the marked spans in it."""
    plain, spans, opened, end = "", [], None, 0
    for mark in _MARK.finditer(text):
        plain += text[end : mark.start()]
        end = mark.end()
        if mark[0] == "<v>":
            opened = len(plain) if opened is None else opened
        elif opened is not None:
            spans.append((opened, len(plain)))
            opened = None
    plain += text[end:]
    if opened is not None:
        spans.append((opened, len(plain)))
    stripped = plain.strip()
    shift = len(plain) - len(plain.lstrip())
    clamp = range(len(stripped) + 1)
    return stripped, [
        (min(max(a - shift, 0), clamp[-1]), min(max(b - shift, 0), clamp[-1])) for a, b in spans
    ]


def weight_of(category: str, severity: str) -> float:
    """Return the MQM weight of an error (Freitag et al. 2021, table 12)."""
    if category.startswith("Non-translation"):
        return MQM_NON_TRANSLATION
    if severity == MAJOR:
        return MQM_MAJOR
    if severity == MINOR:
        return MQM_MINOR_PUNCTUATION if category == "Fluency/Punctuation" else MQM_MINOR
    return 0.0


def read_mqm(rows: Iterator[Row], pairs: tuple[str, ...]) -> Iterator[Yielded]:
    """Yield one example for each output of one file, with the errors of all its annotators.

    Outputs by humans come out rejected by ``reference_system``, their errors with them.

    Raises:
        InputError: the file's name doesn't tell one of ``pairs``.
    """
    outputs: dict[tuple[str, str, str, str], list[tuple[Row, list[HumanError]]]] = {}
    for row in rows:
        try:
            key, errors = _annotation(row)
        except Unusable as fault:
            yield row, rejected(fault)
            continue
        outputs.setdefault(key, []).append((row, errors))
    if not outputs:
        return
    pair = language_pair_of(next(iter(outputs.values()))[0][0].file, pairs)
    references: dict[tuple[str, str], dict[str, str]] = {}
    for segment, source, system, target in outputs:
        if _REFERENCE.match(system):
            references.setdefault((segment, source), {}).setdefault(system, target)
    for (segment, source, system, target), annotated in outputs.items():
        row = annotated[0][0]
        written = sorted(references.get((segment, source), {}).items())
        doc = row.optional("doc")
        example = Example(
            source,
            tuple(dict.fromkeys(text for _, text in written)),
            target,
            system,
            item="/".join(filter(None, (pair, doc, segment))),
            stratum=pair,
            reference_system=written[0][0] if written else None,
            errors=tuple(error for _, errors in annotated for error in errors),
            input_rows=len(annotated),
        )
        if _REFERENCE.match(system):
            yield row, Rejected("reference_system", "system", system, example)
        else:
            yield row, example


def _annotation(row: Row) -> tuple[tuple[str, str, str, str], list[HumanError]]:
    source, in_source = marked(row.text("source"))
    with beside_input(Example(as_text(source, "source"), instruction="")):
        system, segment, text, category, severity = (row.text(name) for name in _NEEDED)
        target, in_target = marked(text)
        key = (segment, source, system, as_text(target, "target"))
        rater, comment = row.optional("rater") or "unknown", row.optional("comment")
    if severity.lower() == NO_ERROR.lower() or category.lower() == NO_ERROR.lower():
        return key, [HumanError(rater, NO_ERROR, NO_ERROR, 0.0, line=row.line)]
    severity = severity.capitalize()
    weight = weight_of(category, severity)
    unmarked = HumanError(rater, category, severity, weight, comment=comment, line=row.line)
    marks = [("output", target, *span) for span in in_target]
    marks += [("source", source, *span) for span in in_source]
    errors = [
        # An error marked in several pieces weighs once.
        replace(
            unmarked,
            weight=0.0 if number else weight,
            side=side,
            start=start,
            end=end,
            text=text[start:end],
        )
        for number, (side, text, start, end) in enumerate(marks)
    ]
    return key, errors or [unmarked]


def segment_scores(human_errors: pl.DataFrame) -> pl.DataFrame:
    """Return the MQM score of each output: minus the mean over annotators of their weights' sums.

    Args:
        human_errors: a frame of ``HUMAN_ERRORS``; rows without a weight are left out.

    Returns:
        Columns source, item, system and score (0 is best, as in ``*.avg_seg_scores.tsv``).
    """
    output = ["source", "item", "system"]
    return (
        human_errors.filter(pl.col("weight").is_not_null())
        .group_by(*output, "annotator")
        .agg(pl.col("weight").sum())
        .group_by(output)
        .agg((-pl.col("weight").sort().mean()).alias("score"))
        .sort(output)
    )
