"""Our analyses and human annotations in the one form in which their agreement is measured.

A segment is one system's output for one input of a source. A score is points off, negative, so
that higher is better for all annotators: the reductions of an analysis, the weights of a human's
errors (or their number, where the annotators' scheme has no weights). What a human marks in the
source, as an omission is, counts for the score and for any error, and for no character.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

import polars as pl

from pipelines.metricinstruct.human_marks import BEYOND, marks_within
from pipelines.metricinstruct.schema import MODEL_ANNOTATOR, NO_ERROR, REAL, SEVERITIES
from transforms.crowd.spans import JUDGEMENTS, SPANS, Tallies, tally

#: Columns that name a segment.
SEGMENT = ("source", "item", "system")
#: The name of all human annotators of a source and stratum together.
PEOPLE = "people"
#: Between the names of models that made an analysis together.
TOGETHER = " + "
# After the source and stratum that a person's name begins with; in the name of a model a colon.
_BEHIND_PLACE = ": +"


def model_annotations(analyses: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return analyses as judgements and spans of the models that made them.

    Args:
        analyses: columns source, item, system (none null), annotator (the model's name) and errors
            (``ERRORS_TYPE``), one row per segment; an output that several systems gave has a row
            for each of them.

    Returns:
        Schemas ``JUDGEMENTS`` and ``SPANS`` of ``transforms.crowd.spans``.
    """
    rows = analyses.select(_segment().alias("segment"), "annotator", "errors")
    reductions = pl.element().struct.field("score_reduction")
    judgements = rows.with_columns(
        (0 - pl.col("errors").list.eval(reductions).list.sum()).alias("score")
    )
    spans = (
        rows.explode("errors", empty_as_null=False)
        .unnest("errors")
        .with_columns(pl.col("start", "end").cast(pl.Int64))
    )
    return judgements.select(list(JUDGEMENTS)), spans.select(list(SPANS))


def human_annotations(human: pl.DataFrame, no_error: str) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return human annotations as judgements and spans.

    Args:
        human: schema ``HUMAN_ERRORS``.
        no_error: the category of a row that says that its annotator found nothing.

    Returns:
        Schemas ``JUDGEMENTS`` and ``SPANS`` of ``transforms.crowd.spans``.
    """
    rows = human.with_columns(
        _segment().alias("segment"),
        (pl.col("category") != no_error).fill_null(True).alias("is_error"),
    )
    points = pl.coalesce("weight", pl.lit(1.0)) * pl.col("is_error")
    in_output = pl.col("side") == "output"
    judgements = rows.group_by("segment", "annotator", maintain_order=True).agg(
        (0 - points.sum()).alias("score")
    )
    spans = rows.filter("is_error").with_columns(
        pl.when(in_output).then(pl.col("start", "end").cast(pl.Int64)).name.keep()
    )
    return judgements.select(list(JUDGEMENTS)), spans.select(list(SPANS))


def annotator_pairs(analyses: pl.DataFrame, chosen: pl.DataFrame, human: pl.DataFrame) -> Tallies:
    """Return the sums for all pairs of the model and the human annotators of a partition.

    Only outputs that the model analysed count, also between human annotators, so that all figures
    are about the same outputs, and of these only as much as it was shown: an error that is marked
    beyond their end is none here. Annotators are named with their source and stratum: the same name
    in two sources is not the same person. Models are named as ``model_named`` says, and several
    that made an analysis step by step with ``TOGETHER`` between them.

    Args:
        analyses: schema ``ANALYSED``.
        chosen: schema ``CHOSEN``, the examples behind them.
        human: schema ``HUMAN_ERRORS``.
    """
    real = pl.col("channel") == REAL
    models = pl.col("models").list.unique(maintain_order=True).list.join(TOGETHER)
    models = models.str.replace_all(_BEHIND_PLACE, ":")
    judged = human.join(
        analyses.filter(real).select(
            "errors", "input_context", "hypothesis", models=models, id="example_id"
        ),
        on="id",
        maintain_order="left",
    ).join(chosen.filter(real).select("id", "stratum"), on="id", maintain_order="left")
    place = pl.concat_str("source", "stratum", separator=" ", ignore_nulls=True)
    is_beyond = pl.col("side").is_in(list(BEYOND.values()))
    people = marks_within(judged).with_columns(
        pl.when(is_beyond).then(pl.lit(NO_ERROR)).otherwise("category").alias("category"),
        # The same item and system may stand in two strata; the output tells them apart.
        pl.concat_str("id", "item", separator=" ").alias("item"),
        pl.format("{}: {}", place, "annotator").alias("annotator"),
    )
    segments = people.unique([*SEGMENT, "id"], maintain_order=True)
    analysed = segments.with_columns(pl.col("models").alias("annotator"))
    both = zip(model_annotations(analysed), human_annotations(people, NO_ERROR), strict=True)
    judgements, spans = (pl.concat(frames) for frames in both)
    return tally(judgements, spans, SEVERITIES)


def model_named(model: str) -> str:
    """Return the name of a model as an annotator's: no person's, who has a blank after a colon."""
    return re.sub(_BEHIND_PLACE, ":", model)


def groups_of(annotators: Iterable[str]) -> dict[str, str]:
    """Return for each of ``annotators`` who is a person the name of all people of one's source.

    Args:
        annotators: names as ``annotator_pairs`` gives them: the model's that analysed, and
            ``SOURCE STRATUM: NAME``, in which ``MODEL_ANNOTATOR`` marks models.
    """
    groups = {}
    for annotator in annotators:
        place, colon, name = annotator.partition(": ")
        if colon and not name.startswith(MODEL_ANNOTATOR):
            groups[annotator] = f"{place}: {PEOPLE}"
    return groups


def _segment() -> pl.Expr:
    return pl.concat_str(SEGMENT, separator="\t")
