"""Sources of data-to-text: WebNLG 2020, WikiTableText, ToTTo, DART, and Quintd's annotations."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any
from xml.etree.ElementTree import Element

from pipelines.metricinstruct.schema import (
    CHANNELS,
    DATA_TO_TEXT,
    MODEL_ANNOTATOR,
    NO_ERROR,
    REAL,
    SYNTHETIC,
)
from pipelines.metricinstruct.sources.linearise import (
    as_cell,
    highlighted_cells,
    record,
    triples,
    tuples,
)
from pipelines.metricinstruct.sources.numbered_inputs import INPUT
from pipelines.metricinstruct.sources.source import (
    Example,
    HumanError,
    InputPlace,
    Rejected,
    Row,
    Source,
    Yielded,
    beside_input,
    marking_nothing,
    rejected,
    row_by_row,
)
from pipelines.metricinstruct.sources.values import (
    Unusable,
    as_comment,
    as_list,
    as_object,
    as_text,
    as_whole,
    distinct,
    shown,
)

_DESCRIBE_TABLE = "Generate a description for the following table."
_ENGLISH = (None, "", "en")
#: Kinds of error by the numbers that the model was asked to give.
_QUINTD_TYPES = {0: "incorrect", 1: "not_checkable", 2: "misleading", 3: "other"}


def _webnlg_entries(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield the entries of ``references-en.json`` or of the challenge's XML, with their rows."""
    if isinstance(value, Element):
        for number, entry in enumerate(value.iter("entry"), 1):
            parts = [(triple.text or "").split(" | ") for triple in entry.iter("mtriple")]
            row = {
                "id": str(number),
                "triples": [[part.strip() for part in triple] for triple in parts],
                "lex": [lex.text for lex in entry.iter("lex") if lex.get("lang") in _ENGLISH],
            }
            yield entry, row
        return
    for numbered in as_list(as_object(value, "entries").get("entries"), "entries"):
        if not isinstance(numbered, Mapping):
            yield numbered, numbered
            continue
        for number, entry in numbered.items():
            yield entry, _webnlg_entry(number, entry)


def _webnlg_entry(number: str, entry: Any) -> Any:
    """Return an entry of ``references-en.json`` as a row; its reader rejects what is no object."""
    if not isinstance(entry, Mapping):
        return entry
    tripleset, lexicalisations = entry.get("modifiedtripleset"), entry.get("lexicalisations")
    if isinstance(tripleset, list):
        tripleset = [
            [triple.get(part) for part in ("subject", "property", "object")]
            if isinstance(triple, Mapping)
            else triple
            for triple in tripleset
        ]
    if isinstance(lexicalisations, list):
        lexicalisations = [
            lex.get("lex") if isinstance(lex, Mapping) else lex for lex in lexicalisations
        ]
    return {"id": number, "triples": tripleset, "lex": lexicalisations}


def _webnlg(row: Row) -> Iterator[Example]:
    example = Example(
        triples(_lists_of_texts(row, "triples")), item=row.identifier("id"), split="test"
    )
    with beside_input(example):
        yield replace(example, references=row.texts("lex"), item=row.text("id"))


def _dart(row: Row) -> Iterator[Example]:
    example = Example(tuples(_lists_of_texts(row, "tripleset")))
    with beside_input(example):
        texts = [as_text(given.get("text"), "text") for given in row.objects("annotations")]
        yield replace(example, references=distinct(*reversed(texts)))


def _lists_of_texts(row: Row, name: str) -> list[list[str]]:
    lists = [[as_text(part, name) for part in as_list(parts, name)] for parts in row.values(name)]
    if not lists:
        raise Unusable("empty", name)
    return lists


def _wikitabletext(row: Row) -> Iterator[Example]:
    if "cells" in row:  # the original: cells parted by _||_, words within a name by _$$_
        headers, cells = (
            [part.replace("_$$_", " ") for part in row.text(name).split("_||_")]
            for name in ("headers", "cells")
        )
        example = Example(record(headers, cells))
        with beside_input(example):
            yield replace(example, references=(row.text("text").replace("_$$_", " "),))
        return
    headers, cells = (_python_list(row, name) for name in ("headers", "content"))
    example = Example(record(headers, cells))
    with beside_input(example):
        yield replace(example, references=(row.text("reference"),))


def _python_list(row: Row, name: str) -> list[str]:
    """Return a list that stands in ``name`` as such or as Python wrote it."""
    value = row.fields.get(name)
    if isinstance(value, str):
        try:
            value = ast.literal_eval(value)
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            raise Unusable("not_a_list", name, shown(value)) from None
    return [str(part) for part in as_list(value, name)]


def _totto(row: Row) -> Iterator[Example]:
    cells = [as_list(place, "highlighted_cells") for place in row.values("highlighted_cells")]
    if not cells:
        raise Unusable("empty", "highlighted_cells")
    text = highlighted_cells(
        row.optional("table_page_title") or "",
        row.optional("table_section_title") or "",
        [[as_cell(cell) for cell in as_list(cells, "table")] for cells in row.values("table")],
        cells,
    )
    example = Example(text, item=row.identifier("example_id"))
    with beside_input(example):
        sentences = [
            as_text(given.get("final_sentence"), "final_sentence")
            for given in row.objects("sentence_annotations")
        ]
        yield replace(example, references=distinct(*reversed(sentences)))


def _quintd(rows: Iterator[Row]) -> Iterator[Yielded]:
    """Read annotated outputs; one whose input was not joined to it is rejected."""
    for row in rows:
        try:
            example = _quintd_output(row)
        except Unusable as fault:
            yield row, rejected(fault)
            continue
        except RecursionError:
            yield row, Rejected("nested_too_deeply")
            continue
        yield row, example if INPUT in row else Rejected("no_input", INPUT, example.item, example)


def _quintd_output(row: Row) -> Example:
    dataset, number = row.text("dataset"), row.identifier("table_idx")
    data = row.fields.get(INPUT)
    example = Example(
        f"{dataset} {number}" if data is None else json.dumps(data, ensure_ascii=False),
        item=f"{dataset}/{number}",
        stratum=dataset,
        split="test",
    )
    with beside_input(example):
        output, system = row.text("output"), row.text("model")
        errors = _quintd_errors(row, output)
    return replace(example, hypothesis=output, system=system, errors=errors)


def _quintd_errors(row: Row, output: str) -> tuple[HumanError, ...]:
    shift = row.blanks_before("output")
    human = as_object(row.fields.get("human"), "human")
    annotators = {
        as_text(human.get("annotator"), "annotator"): as_list(human.get("spans"), "human"),
        f"{MODEL_ANNOTATOR}gpt-4": row.values("gpt4"),
    }
    errors: list[HumanError] = []
    for annotator, spans in annotators.items():
        errors += [_quintd_error(as_object(s, "spans"), annotator, output, shift) for s in spans]
        if not spans:
            errors.append(HumanError(annotator, NO_ERROR, NO_ERROR))
    return tuple(errors)


def _quintd_error(span: Mapping[str, Any], annotator: str, output: str, shift: int) -> HumanError:
    kind, text = span.get("type"), as_text(span.get("text"), "text")
    start = as_whole(span.get("start"), "start") - shift
    category = _QUINTD_TYPES.get(kind, kind) if isinstance(kind, int) else kind
    error = HumanError(
        annotator, as_text(category, "type"), text=text, comment=as_comment(span.get("reason"))
    )
    if (nothing := marking_nothing(error)) is not None:
        return nothing
    found = output.find(text, max(start, 0))
    # A model's span that isn't where it says has a text but no place.
    if start < 0 or found != start:
        return error
    return replace(error, side="output", start=start, end=start + len(text))


SOURCES = (
    Source(
        "webnlg_2020",
        DATA_TO_TEXT,
        (REAL,),
        "Generate a description for the following triples.",
        "CC BY-NC-SA 4.0; the Hub's card adds CC BY-SA 3.0 and GFDL",
        "references-en.json or the challenge's test data with references (.xml); outputs beside it",
        row_by_row(_webnlg),
        (("triples", "lex"),),
        unfold=_webnlg_entries,
        choice="best_middle_worst",
    ),
    Source(
        "wikitabletext",
        DATA_TO_TEXT,
        CHANNELS,
        _DESCRIBE_TABLE,
        "not stated",
        "MSRA_NLC.Table2Text.* or rows of headers, content, reference; outputs beside it",
        row_by_row(_wikitabletext),
        (("headers", "cells", "text"), ("headers", "content", "reference")),
        columns=("row", "headers", "cells", "text"),
    ),
    Source(
        "totto",
        DATA_TO_TEXT,
        CHANNELS,
        _DESCRIBE_TABLE,
        "CC BY-SA 3.0",
        "totto_*_data.jsonl; outputs beside it",
        row_by_row(_totto),
        (("table", "highlighted_cells", "sentence_annotations"),),
    ),
    Source(
        "dart",
        DATA_TO_TEXT,
        (SYNTHETIC,),
        "Generate a description for the following tuples.",
        "MIT; parts CC BY-NC-SA (WebNLG) and CC BY-SA (E2E)",
        "dart-v*-full-*.json: an array of tripleset and annotations",
        row_by_row(_dart),
        (("tripleset", "annotations"),),
    ),
    Source(
        "quintd",
        DATA_TO_TEXT,
        (REAL,),
        "Generate a description for the following data.",
        "MIT; inputs are of the web sites they name",
        "JSON lines of dataset, model, table_idx, output, human, gpt4; inputs beside it",
        _quintd,
        (("dataset", "model", "table_idx", "output", "human", "gpt4"),),
        choice="all",
        input_place=InputPlace("dataset", "table_idx"),
    ),
)
