"""Joining the crowd's work to seeds: which response and which votes of a turn stand.

Each row that does not stand has a rule (units ``response`` and ``annotation``; see CROWD.md):

===================  ============================================================================
seed_not_selected    the key is a seed's that a selection rule rejected
seed_beyond_limit    the key is a seed's that a limited run leaves for later
unknown_key          no seed file of this run has the key
duplicate_response   a second response to one key and turn; the first by file and line stands
duplicate_vote       a second vote of one annotator on a turn; the first by file and line stands
fourth_vote          a vote on a turn that has three already, by file and line
===================  ============================================================================

What stands depends on files' names and lines alone, never on the order in which rows arrive.
"""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from pipelines.prosocial import schema
from transforms.frames import concat, polars_schema
from transforms.ledger import COUNTS
from transforms.text import SAYS_SOMETHING

_REJECTED = polars_schema(schema.REJECTED)
_PLACE = ["key", "turn", "file", "line"]


@dataclass(frozen=True)
class CrowdJoin:
    """The crowd's rows of a partition after joining.

    Attributes:
        responses: schema ``RESPONSES``, at most one per key and turn, sorted by them.
        annotations: schema ``ANNOTATIONS``, at most three per key and turn, sorted by them.
        rejected: schema ``REJECTED``, every other row with its rule.
        counts: stages ``crowd.responses`` and ``crowd.annotations``.
    """

    responses: pl.DataFrame
    annotations: pl.DataFrame
    rejected: pl.DataFrame
    counts: pl.DataFrame


def resolve(
    seeds: pl.DataFrame,
    responses: pl.DataFrame,
    annotations: pl.DataFrame,
    *,
    not_selected: pl.Series | None = None,
    beyond_limit: pl.Series | None = None,
) -> CrowdJoin:
    """Join the crowd's rows to the seeds of their partition.

    Semicolons part rules-of-thumb, but not those that were shown: a seed's own, and of candidates
    that were given as a list of several each one.

    Args:
        seeds: the seeds this run works on, schema ``SEEDS``.
        responses: schema ``RESPONSES``, as read from files.
        annotations: schema ``ANNOTATIONS``, as read from files.
        not_selected: keys that selection rejected.
        beyond_limit: keys that wait because of ``--limit``.
    """
    known = _known(seeds, not_selected, beyond_limit)
    judged_responses = _with_seed(_parted(responses, seeds), known).with_columns(
        pl.when(_repeats("key", "turn")).then(pl.lit("duplicate_response")).alias("rule")
    )
    judged_annotations = _with_seed(annotations, known).with_columns(
        pl.when(_repeats("key", "turn", "annotator")).then(pl.lit("duplicate_vote")).alias("rule")
    )
    vote = pl.col("rule").is_null().cum_sum().over("key", "turn")
    judged_annotations = judged_annotations.with_columns(
        pl.when(pl.col("rule").is_null() & (vote > schema.VOTES_PER_TURN))
        .then(pl.lit("fourth_vote"))
        .otherwise("rule")
        .alias("rule")
    )
    by_seed = pl.coalesce("seed_rule", "rule").alias("rule")
    judged_responses = judged_responses.with_columns(by_seed)
    judged_annotations = judged_annotations.with_columns(by_seed)
    stands = pl.col("rule").is_null()
    rejected = concat(
        [
            _rejects(judged_responses.filter(~stands), "response", "response"),
            _rejects(judged_annotations.filter(~stands), "annotation", "reason"),
        ],
        _REJECTED,
    )
    counts = concat(
        [
            _counts("crowd.responses", responses.height, judged_responses),
            _counts("crowd.annotations", annotations.height, judged_annotations),
        ],
        COUNTS,
    )
    return CrowdJoin(
        responses=judged_responses.filter(stands).select(list(schema.RESPONSES)),
        annotations=judged_annotations.filter(stands).select(list(schema.ANNOTATIONS)),
        rejected=rejected,
        counts=counts,
    )


def _parted(responses: pl.DataFrame, seeds: pl.DataFrame) -> pl.DataFrame:
    """Return ``responses`` with their candidates and rules-of-thumb one by one."""
    rows = responses.join(
        seeds.select("key", pl.col("rots").fill_null([]).alias("whole")),
        on="key",
        how="left",
        maintain_order="left",
    ).with_columns(pl.col("whole").fill_null([]))
    several = pl.when(pl.col("candidates").list.len() > 1).then("candidates").otherwise("whole")
    for column, also_whole in (("candidates", several), ("rots", pl.col("candidates"))):
        whole = pl.concat_list("whole", also_whole.fill_null([]))
        rows = rows.with_columns(whole.alias("whole"))
        rows = rows.with_columns(_one_by_one(rows, column))
    return rows.drop("whole")


def _one_by_one(rows: pl.DataFrame, column: str) -> pl.Series:
    """Return the lists of ``column`` with texts parted at semicolons but for those in ``whole``."""
    numbered = rows.select(pl.int_range(pl.len()).alias("row"), column, "whole")
    said = pl.col(column)
    parts = said.str.split(";").list.eval(pl.element().str.strip_chars())
    parted = (
        numbered.filter(said.list.join(";", ignore_nulls=True).str.contains(";", literal=True))
        .explode(column)
        .with_columns(
            pl.when(said.is_in(pl.col("whole"))).then(pl.concat_list(column)).otherwise(parts)
        )
        .explode(column)
        .filter(said.str.contains(SAYS_SOMETHING))
        .unique(["row", column], keep="first", maintain_order=True)
        .group_by("row", maintain_order=True)
        .agg(said.alias("parted"))
    )
    joined = numbered.join(parted, on="row", how="left", maintain_order="left")
    return joined.select(pl.coalesce("parted", column).alias(column))[column]


def _known(
    seeds: pl.DataFrame, not_selected: pl.Series | None, beyond_limit: pl.Series | None
) -> pl.DataFrame:
    """Return every key a seed file gave, with the rule that keeps it out of this run."""
    empty = pl.Series("key", [], dtype=pl.String)
    frames = [
        seeds.select("key", "source", "split", pl.lit(None, dtype=pl.String).alias("seed_rule"))
    ]
    for keys, rule in ((beyond_limit, "seed_beyond_limit"), (not_selected, "seed_not_selected")):
        named = (empty if keys is None else keys).alias("key").unique().to_frame()
        frames.append(
            named.select(
                "key",
                pl.lit(None, dtype=pl.String).alias("source"),
                pl.lit(None, dtype=pl.String).alias("split"),
                pl.lit(rule).alias("seed_rule"),
            )
        )
    return pl.concat(frames).unique("key", keep="first", maintain_order=True)


def _with_seed(rows: pl.DataFrame, known: pl.DataFrame) -> pl.DataFrame:
    """Return ``rows`` in the order in which they count, with what is known of their key."""
    return (
        rows.join(known.with_columns(pl.lit(True).alias("known")), on="key", how="left")
        .with_columns(
            pl.when(pl.col("known").is_null())
            .then(pl.lit("unknown_key"))
            .otherwise("seed_rule")
            .alias("seed_rule")
        )
        .sort(_PLACE, nulls_last=True)
    )


def _repeats(*columns: str) -> pl.Expr:
    return ~pl.struct(*columns).is_first_distinct()


def _rejects(rows: pl.DataFrame, unit: str, text: str) -> pl.DataFrame:
    rule = pl.col("rule")
    by_annotator = rule.is_in(["duplicate_vote", "fourth_vote", "duplicate_response"])
    repeated = rule.str.starts_with("duplicate_")
    return rows.select(
        pl.lit(unit).alias("unit"),
        "rule",
        pl.when(by_annotator).then("annotator").otherwise("key").alias("value"),
        pl.when(repeated).then(pl.lit("duplicate")).otherwise(pl.lit("rejected")).alias("outcome"),
        "key",
        "turn",
        pl.when(by_annotator).then(pl.lit("annotator")).otherwise(pl.lit("key")).alias("field"),
        "source",
        "split",
        "file",
        "line",
        pl.col(text).alias("text"),
        pl.lit(0, dtype=pl.Int64).alias("input_rows"),
    )


def _counts(stage: str, rows: int, judged: pl.DataFrame) -> pl.DataFrame:
    duplicate = pl.col("rule").str.starts_with("duplicate_")
    outcome = (
        pl.when(pl.col("rule").is_null())
        .then(pl.lit("joined"))
        .when(duplicate)
        .then(pl.lit("duplicate"))
        .otherwise(pl.lit("rejected"))
    )
    out = (
        judged.group_by(outcome.alias("outcome"), pl.col("rule").fill_null("").alias("reason"))
        .len("n")
        .sort("outcome", "reason")
        .select(
            pl.lit(stage).alias("stage"),
            pl.lit("out").alias("side"),
            "outcome",
            "reason",
            pl.col("n").cast(pl.Int64),
        )
    )
    came = pl.DataFrame(
        [(stage, "in", "", "", rows)] if rows else [], schema=dict(COUNTS), orient="row"
    )
    return pl.concat([came, out])
