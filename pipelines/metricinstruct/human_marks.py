"""What human annotators marked, in the texts as they are published: perhaps cut since."""

from __future__ import annotations

import polars as pl

#: What ``side`` says of a mark that stands beyond the end of its text as it is published.
BEYOND = {"output": "beyond output", "source": "beyond source"}


def marks_within(human: pl.DataFrame) -> pl.DataFrame:
    """Return the annotations with their marks as far as the texts go.

    A mark that goes on beyond the end of its text ends with it. One that begins there keeps its
    place in the whole text, and ``side`` is one of ``BEYOND``.

    Args:
        human: the columns of ``HUMAN_ERRORS``, and ``input_context`` and ``hypothesis``, the
            source and the output as they are published.
    """
    side, start = pl.col("side"), pl.col("start")
    length = (
        pl.when(side == "output")
        .then(pl.col("hypothesis").str.len_chars())
        .when(side == "source")
        .then(pl.col("input_context").str.len_chars())
        .cast(pl.Int64)
    )
    goes_on = pl.col("end") > length
    is_beyond = goes_on & (start >= length)
    ends_here = goes_on & (start < length)
    return human.with_columns(
        pl.when(is_beyond).then(side.replace(BEYOND)).otherwise(side).alias("side"),
        pl.when(ends_here).then(length).otherwise("end").alias("end"),
        pl.when(ends_here)
        .then(pl.col("text").str.slice(0, (length - start).clip(0)))
        .otherwise("text")
        .alias("text"),
    )
