"""Sources of translation: WMT's MQM annotations and direct assessments, and its parallel text."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace

from pipelines.metricinstruct.schema import REAL, SYNTHETIC, TRANSLATION
from pipelines.metricinstruct.sources.mqm import read_mqm
from pipelines.metricinstruct.sources.source import (
    Example,
    Rejected,
    Row,
    Source,
    Yielded,
    beside_input,
    row_by_row,
)
from pipelines.metricinstruct.sources.values import Unusable, as_text, shown

LANGUAGES = {
    "cs": "Czech",
    "de": "German",
    "en": "English",
    "fr": "French",
    "ru": "Russian",
    "zh": "Chinese",
}
MQM_PAIRS = ("zh-en", "en-de", "en-ru")
DIRECT_ASSESSMENT_PAIRS = ("en-zh", "de-en", "ru-en")
PARALLEL_PAIRS = ("zh-en", "de-en", "cs-en", "ru-en", "fr-de")
#: Outputs of WMT 2022 and later are kept for evaluation.
FIRST_EVALUATION_YEAR = 2022
#: The year in a file's name, e.g. that of ``mqm_generalMT2022_ende.tsv``.
_YEAR = re.compile(r"(?<!\d)(20\d\d)(?!\d)")


def instruction_for(pair: str) -> str:
    """Return the instruction for a language pair, e.g. ``de-en``."""
    source, target = pair.split("-")
    return f"Translate the following text from {LANGUAGES[source]} to {LANGUAGES[target]}."


def _mqm(rows: Iterator[Row]) -> Iterator[Yielded]:
    """Read MQM annotations; of a file whose name tells a year of evaluation no output is used."""
    for row, yielded in read_mqm(rows, MQM_PAIRS):
        year = _YEAR.search(os.path.basename(row.file))
        if isinstance(yielded, Example) and year and int(year[1]) >= FIRST_EVALUATION_YEAR:
            yield row, Rejected("evaluation_year", "file", year[1], yielded)
        else:
            yield row, yielded


def _direct_assessment(row: Row) -> Iterator[Example | Rejected]:
    source = Example(row.text("src"), instruction="")
    with beside_input(source):
        pair = row.text("lp")
        if pair not in DIRECT_ASSESSMENT_PAIRS:  # nor is there an instruction for it
            yield Rejected("language_pair", "lp", pair, source, left_out=True)
            return
        example = replace(
            source,
            references=(row.text("ref"),),
            hypothesis=row.text("mt"),
            system=row.optional("system") or "unknown",
            instruction=None,
            stratum=pair,
            quality=row.number("score"),
        )
    year = row.number("year")
    if year is None or year >= FIRST_EVALUATION_YEAR:
        value = shown(row.fields.get("year"))
        yield Rejected("evaluation_year", "year", value, example, left_out=True)
    else:
        yield example


def _parallel(row: Row) -> Iterator[Example | Rejected]:
    texts = row.fields.get("translation")
    if not isinstance(texts, Mapping):
        raise Unusable("missing", "translation", shown(texts))
    for pair in PARALLEL_PAIRS:
        source, target = pair.split("-")
        if texts.keys() == {source, target}:
            example = Example(as_text(texts[source], source), stratum=pair)
            with beside_input(example):
                yield replace(example, references=(as_text(texts[target], target),))
            return
    # Which of the texts would be the input is not known.
    pair = "-".join(sorted(map(str, texts)))
    yield Rejected("language_pair", "translation", pair, left_out=True)


SOURCES = (
    Source(
        "wmt_mqm",
        TRANSLATION,
        (REAL,),
        None,
        "Apache-2.0",
        "mqm_*_<pair>.tsv, tab-separated without quoting",
        _mqm,
        (("system", "seg_id", "source", "target", "category", "severity"),),
        choice="sample",
    ),
    Source(
        "wmt_da",
        TRANSLATION,
        (REAL,),
        None,
        "Apache-2.0",
        "train.csv with lp, src, mt, ref, score, year",
        row_by_row(_direct_assessment),
        (("lp", "src", "mt", "ref", "score", "year"),),
        choice="sample",
    ),
    Source(
        "wmt19",
        TRANSLATION,
        (SYNTHETIC,),
        None,
        "unknown; the corpora's own",
        "rows with translation, an object of two texts by language",
        row_by_row(_parallel),
        (("translation",),),
        choice="sample",
    ),
)
