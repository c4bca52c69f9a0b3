"""Sources of summarization: SummEval, XSum, Newsroom, SAMSum, CNN/DM, Gigaword, SummEdits."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from dataclasses import replace

from pipelines.metricinstruct.schema import CHANNELS, REAL, SUMMARIZATION, SYNTHETIC
from pipelines.metricinstruct.sources.source import (
    Example,
    Rejected,
    Row,
    Source,
    beside_input,
    plain_fields,
    row_by_row,
)
from pipelines.metricinstruct.sources.values import Unusable, as_number, mean

_EXPERT_RATINGS = ("coherence", "consistency", "fluency", "relevance")
_NEWSROOM_RATINGS = (
    "CoherenceRating",
    "FluencyRating",
    "InformativenessRating",
    "RelevanceRating",
)
_BRACKETS = {"-lrb-": "(", "-rrb-": ")"}
_MODEL_FOLDER = re.compile(r"(?:^|/)(M\d+)/")


def _summeval(row: Row) -> Iterator[Example]:
    """Read an annotated output, or a line of the file of all outputs of one system."""
    example = Example(row.text("text"), item=row.optional("id"))
    with beside_input(example):
        folder = _MODEL_FOLDER.search(row.file)
        system = row.optional("model_id") or (folder and folder[1])
        if not system:
            raise Unusable("no_system", "model_id")
        ratings = row.objects("expert_annotations") if "expert_annotations" in row else []
        yield replace(
            example,
            references=row.texts("references") if "references" in row else (row.text("reference"),),
            hypothesis=re.sub("-[lr]rb-", lambda found: _BRACKETS[found[0]], row.text("decoded")),
            system=system,
            quality=mean([as_number(rating.get(n)) for rating in ratings for n in _EXPERT_RATINGS]),
        )


def _newsroom(row: Row) -> Iterator[Example | Rejected]:
    """Read a row of the human evaluation, which has no reference, or of the release."""
    if "ArticleText" not in row:
        yield from plain_fields("text", "summary", "url")(row)
        return
    example = Example(_paragraphs(row.text("ArticleText")), item=row.identifier("ArticleID"))
    with beside_input(example):
        yield replace(
            example,
            hypothesis=_paragraphs(row.text("SystemSummary")),
            system=row.text("System"),
            quality=mean([row.number(name) for name in _NEWSROOM_RATINGS]),
        )


def _paragraphs(text: str) -> str:
    """Return a text whose paragraphs are marked up as plain text."""
    return html.unescape(re.sub(r"\s*</p>\s*<p>\s*|</?p>", "\n", text)).strip()


def _summedits(row: Row) -> Iterator[Example]:
    example = Example(row.text("doc"), item=row.identifier("id"), split="test")
    with beside_input(example):
        yield replace(
            example,
            references=(row.text("original_summary"),),
            hypothesis=row.text("summary"),
            system="+".join(sorted(row.texts("edit_types"))) or "unedited",
            item=row.text("id"),
            quality=row.number("label"),
        )


SOURCES = (
    Source(
        "summeval",
        SUMMARIZATION,
        (REAL,),
        "Write a summary of the text below.",
        "MIT (annotations); articles are CNN's and the Daily Mail's",
        "model_annotations.aligned.paired.jsonl or M*/paired/outputs*.aligned.paired.jsonl",
        row_by_row(_summeval),
        (("text", "decoded", "references"), ("text", "decoded", "reference")),
        choice="best_middle_worst",
    ),
    Source(
        "xsum",
        SUMMARIZATION,
        CHANNELS,
        "Write an abstractive summary of the article below.",
        "unknown; MIT (code); articles are the BBC's",
        "rows with document, summary and id; outputs beside it",
        row_by_row(plain_fields("document", "summary", "id")),
        (("document", "summary"),),
        choice="mostly_worst",
    ),
    Source(
        "newsroom",
        SUMMARIZATION,
        (REAL,),
        "Write a summary of the text below.",
        "given on request; articles are their newspapers'",
        "newsroom-human-eval.csv, or the release's JSON lines with outputs beside it",
        row_by_row(_newsroom),
        (("ArticleText", "SystemSummary", "System"), ("text", "summary", "url")),
        choice="mostly_worst",
    ),
    Source(
        "samsum",
        SUMMARIZATION,
        CHANNELS,
        "Write a summary of the dialogue below.",
        "CC BY-NC-ND 4.0",
        "train.json and its like: an array of id, summary, dialogue; outputs beside it",
        row_by_row(plain_fields("dialogue", "summary", "id")),
        (("dialogue", "summary"),),
        choice="mostly_worst",
    ),
    Source(
        "cnn_dailymail",
        SUMMARIZATION,
        (SYNTHETIC,),
        "Write a summary of the news article below.",
        "none known; articles are CNN's and the Daily Mail's",
        "rows with article, highlights and id",
        row_by_row(plain_fields("article", "highlights", "id")),
        (("article", "highlights"),),
    ),
    Source(
        "gigaword",
        SUMMARIZATION,
        (SYNTHETIC,),
        "Write a title for the article below.",
        "not stated; articles are from LDC's Gigaword",
        "rows with document and summary",
        row_by_row(plain_fields("document", "summary")),
        (("document", "summary"),),
    ),
    Source(
        "summedits",
        SUMMARIZATION,
        (REAL,),
        "Write a summary of the text below.",
        "Apache-2.0",
        "summedits_*.json: an array of id, doc, summary, label, original_summary, edit_types",
        row_by_row(_summedits),
        (("doc", "summary", "original_summary", "edit_types"),),
        choice="all",
    ),
)
