"""Social Bias Inference Corpus, version 2: posts with the stereotypes that annotators see in them.

Per-annotator files (one row per post and annotator) and aggregate files (one row per post, the
targets and stereotypes as JSON lists) have the same columns here. A post is a seed when it has 10
to 40 words, a targeted group and a stereotype; the post itself is the first utterance. The
aggregate's ``hasBiasedImplication`` is inverted in the official files and not looked at. Columns:
Sap et al. 2020; rule: Kim et al. 2022.
"""

from __future__ import annotations

import polars as pl

from pipelines.prosocial.schema import SBIC
from pipelines.prosocial.seeds.cells import cell_texts
from pipelines.prosocial.seeds.rows import ROT_SEPARATOR, Reading, Rule, seed_rows
from pipelines.prosocial.seeds.rules_of_thumb import rule_of_thumb
from transforms.splits import split_of_file

COLUMNS = ("post", "targetMinority", "targetStereotype")

MIN_WORDS = 10
MAX_WORDS = 40

#: Annotators of one post complete each other: rows that each fail one of these select it together.
COMPLEMENTARY_RULES = ("target_minority", "target_stereotype")


def rows(frame: pl.DataFrame, path: str) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return seed rows and rejects of rows with COLUMNS; the split comes from the file's name."""
    words = pl.col("post").str.extract_all(r"\S+").list.len()
    has_minority = pl.col("_minority") != ""
    has_stereotype = pl.col("_stereotype") != ""
    both = pl.concat_str(
        pl.col("targetMinority").fill_null(""),
        pl.lit(" / "),
        pl.col("targetStereotype").fill_null(""),
    )
    reading = Reading(
        source=pl.lit(SBIC),
        split=pl.lit(split_of_file(path), dtype=pl.String),
        situation=pl.col("post"),
        situation_field="post",
        etc=pl.lit(""),
        rot=pl.col("_rot"),
        rules=(
            Rule("post_words", words.is_between(MIN_WORDS, MAX_WORDS), words),
            Rule("target", has_minority | has_stereotype, both),
            Rule("target_minority", has_minority, pl.col("targetMinority")),
            Rule("target_stereotype", has_stereotype, pl.col("targetStereotype")),
        ),
    )
    return seed_rows(_with_targets(frame), reading, path)


def _with_targets(frame: pl.DataFrame) -> pl.DataFrame:
    """Return ``frame`` with ``_minority``, ``_stereotype`` ('' for none) and ``_rot``.

    Each distinct pair of cells is read once: annotators repeat each other.
    """
    pairs = frame.select("targetMinority", "targetStereotype").unique()
    read = [(cell_texts(minority), cell_texts(text)) for minority, text in pairs.iter_rows()]
    targets = pairs.with_columns(
        pl.Series("_minority", [" ".join(groups) for groups, _ in read], dtype=pl.String),
        pl.Series("_stereotype", [" ".join(texts) for _, texts in read], dtype=pl.String),
        pl.Series("_rot", [_rules_of_thumb(*cells) for cells in read], dtype=pl.String),
    )
    return frame.join(
        targets,
        on=["targetMinority", "targetStereotype"],
        how="left",
        nulls_equal=True,
        maintain_order="left",
    )


def _rules_of_thumb(groups: list[str], stereotypes: list[str]) -> str | None:
    """Return the candidates of a row, one per line; a single group can be their subject."""
    subject = groups[0] if len(groups) == 1 else None
    candidates = [rule_of_thumb(text, subject) for text in stereotypes]
    lines = [candidate for candidate in candidates if candidate is not None]
    return ROT_SEPARATOR.join(lines) or None
