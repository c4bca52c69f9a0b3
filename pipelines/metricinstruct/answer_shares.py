"""How well a model answers: which of its answers parse, quote the output verbatim, and pass.

The figures by which models are compared before one is chosen for a large run. They are of all
answers, not of the published rows alone.
"""

from __future__ import annotations

import polars as pl

from pipelines.metricinstruct.filter_settings import Format
from transforms.frames import Schema
from transforms.llm.calls import CallClass

#: Numbers of a channel's answers; summed over partitions.
ANSWERS: Schema = {
    "channel": pl.String,
    "answers": pl.Int64,  # examples for which the model finished its answers, readable or not
    "parsed": pl.Int64,  # of them, read as an analysis of an output without a fault of the form
    "errors": pl.Int64,  # in the analyses
    "verbatim": pl.Int64,  # of them, those whose location stands in the output as it was quoted
    "passed": pl.Int64,  # analyses that no filter rejects, before near-duplicates and balance
}

#: A location that stands in the output just as the model quoted it.
IS_VERBATIM = pl.col("start").is_not_null() & pl.col("quoted").is_null()

_UNREADABLE = [CallClass.TRUNCATED.value, CallClass.BAD_JSON.value, CallClass.SCHEMA.value]


def count_answers(
    analyses: pl.DataFrame,
    passed: pl.DataFrame,
    rejected: pl.DataFrame,
    dead: pl.DataFrame,
    form: Format,
) -> pl.DataFrame:
    """Return the numbers of a partition, schema ``ANSWERS``.

    Examples for which the model finished no answer count nowhere: calls that were refused or
    failed, references that stay as they are.

    Args:
        analyses: schema ``ANALYSED``, before the filters.
        passed: those that no filter rejects.
        rejected: schema ``REJECTED``, up to the drafting.
        dead: schema ``DEAD``.
        form: what of an answer's form is tolerated.
    """
    faulty = pl.element().struct.field("reason").is_in(list(form.tolerated)).not_()
    answered = analyses.filter(pl.col("form").is_not_null()).select(
        "channel",
        (~pl.col("faults").list.eval(faulty).list.any()).alias("parsed"),
        pl.col("id").is_in(passed["id"].to_list()).alias("passed"),
        "errors",
    )
    # What the drafting itself rejects was answered, but for an example that lacks a reference.
    refused = rejected.filter(
        (pl.col("unit") == "analysis")
        & (pl.col("outcome") == "rejected")
        & (pl.col("rule") != "no_reference")
    )
    unreadable = dead.filter(pl.col("error_class").is_in(_UNREADABLE))
    each = [
        answered.select("channel", "parsed", "passed"),
        refused.select("channel", (pl.col("rule") != "no_output").alias("parsed")),
        unreadable.select("channel", pl.lit(value=False).alias("parsed")),
    ]
    numbers = (
        pl.concat(each, how="diagonal")
        .group_by("channel")
        .agg(
            pl.len().alias("answers"),
            pl.col("parsed").sum(),
            pl.col("passed").fill_null(False).sum(),
        )
    )
    located = (
        answered.select("channel", "errors")
        .explode("errors", empty_as_null=False)
        .unnest("errors")
        .group_by("channel")
        .agg(pl.len().alias("errors"), IS_VERBATIM.sum().alias("verbatim"))
    )
    return (
        numbers.join(located, on="channel", how="left")
        .select(
            pl.col(name).cast(kind).fill_null(0 if name != "channel" else "")
            for name, kind in ANSWERS.items()
        )
        .sort("channel")
    )
