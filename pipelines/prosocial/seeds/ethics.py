"""ETHICS, commonsense: short scenarios, and Reddit posts that ask whether the writer was wrong.

Rows with the label 1 (clearly wrong) are seeds. Short rows are used as they are (``ethics_amt``);
long ones have the form ``TITLE | BODY`` and their title, without the forum's question around it,
is the situation (``ethics_reddit``; inferred, the paper does not say). ``cm_ambig.csv`` has no
header and one column of such posts on which the forum's verdict was split: no label, so none is
selected; each is rejected by the rule ``no_label``. Hendrycks et al. 2021; rule: Kim et al. 2022.
"""

from __future__ import annotations

import polars as pl

from pipelines.prosocial.schema import ETHICS_AMT, ETHICS_REDDIT
from pipelines.prosocial.seeds.cells import number, stripped
from pipelines.prosocial.seeds.rows import Reading, Rule, seed_rows
from transforms.splits import split_of_file

COLUMNS = ("label", "input", "is_short")
#: The only column of the ambiguous file, which has no header.
AMBIGUOUS_COLUMNS = ("input",)

_AGE = r"(?:\s*\((?:\d{1,2}\s*[a-z]?|[a-z]\s*\d{1,2})\))?"
_PUNCTUATION = r"[\s:;,.?!/–—-]*"
_QUESTION = rf"(?:\s*(?:aita|wibta)h?\b{_AGE}{_PUNCTUATION})"
#: "Update: AITA (24M) - for ...": the forum's question at the start of a title.
_OPENING = rf"(?i)^\W*(?:update\b\W*)?{_QUESTION}(?:or{_QUESTION})?(?:(?:for|if)\b[\s:,]*)?"
_CLOSING = r"[\s?]+$"


def situation_of_post(column: str) -> pl.Expr:
    """Return the situation that a post's title (the text before the first ``|``) tells.

    The opening AITA, WIBTA, AITAH or WIBTAH, a following "for" or "if", and the question mark at
    the end are stripped. An empty text where there is no title.
    """
    title = pl.col(column).str.extract(r"(?s)^([^|]*)\|").fill_null("")
    return title.str.strip_chars().str.replace(_OPENING, "").str.replace(_CLOSING, "")


def is_named_ambiguous(path: str) -> bool:
    """Return whether a file's own name says that it holds the ambiguous posts."""
    return "ambig" in path.replace("\\", "/").rsplit("/", 1)[-1].casefold()


def is_headerless(first_row: list[str]) -> bool:
    """Return whether the first row of a file of ambiguous posts is a post, not a header."""
    return len(first_row) == 1 and first_row[0] != "input"


def rows(frame: pl.DataFrame, path: str) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return seed rows and rejects of rows with COLUMNS; the split comes from the file's name."""
    is_short = stripped("is_short").str.to_lowercase()
    short = is_short.is_in(["true", "1", "1.0"])
    known = short | is_short.is_in(["false", "0", "0.0"])
    label = number("label")
    reading = Reading(
        source=pl.when(short).then(pl.lit(ETHICS_AMT)).otherwise(pl.lit(ETHICS_REDDIT)),
        split=pl.lit(split_of_file(path), dtype=pl.String),
        situation=pl.when(short).then(stripped("input")).otherwise(situation_of_post("input")),
        situation_field="input",
        etc=pl.lit(""),
        rot=pl.lit(None, dtype=pl.String),
        rules=(
            Rule("no_label", stripped("label") != "", pl.col("label")),
            Rule("label", label == 1, pl.col("label")),
        ),
        usable=(
            Rule("is_short", known, pl.col("is_short"), field="is_short"),
            Rule("no_title", short | pl.col("input").str.contains("|", literal=True), pl.lit("")),
        ),
    )
    return seed_rows(frame, reading, path)


def ambiguous_rows(frame: pl.DataFrame, path: str) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return seed rows (none selected) and rejects of the ambiguous file's only column."""
    unlabelled = frame.with_columns(label=pl.lit(""), is_short=pl.lit("False"))
    return rows(unlabelled, path)
