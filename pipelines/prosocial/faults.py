"""What a fault of a turn does to its dialogue: the third row is cut, an earlier one ends it all.

The release has dialogues of two rows, so a fault in the third row leaves the first two standing;
without one of the first two there is no dialogue.
"""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from pipelines.prosocial import schema
from transforms.frames import Schema, concat, polars_schema
from transforms.ledger import COUNTS

#: One row per reason against a turn; the smallest ``position`` is the recorded one.
FAULTS: Schema = {
    "key": pl.String,
    "turn": pl.Int32,
    "field": pl.String,
    "rule": pl.String,
    "value": pl.String,
    "text": pl.String,
    "position": pl.Int32,
}

_REJECTED = polars_schema(schema.REJECTED)


@dataclass(frozen=True)
class Sifted:
    """Turns without the faulty ones.

    Attributes:
        turns: schema ``TURNS``, sorted by key and turn; ``episode_done`` moves to the second row
            where a third one was cut.
        rejected: schema ``REJECTED``: per rejected dialogue one row of unit ``dialogue`` (with its
            ``input_rows`` and the text at fault) and one of unit ``turn`` for each of its turns;
            per cut row one of unit ``turn``. A turn's ``text`` is its two utterances on two lines.
        counts: stages ``<stage>.dialogues`` and ``<stage>.turns``.
    """

    turns: pl.DataFrame
    rejected: pl.DataFrame
    counts: pl.DataFrame


def sift(turns: pl.DataFrame, faults: pl.DataFrame, stage: str, outcome: str) -> Sifted:
    """Take the faulty turns out of ``turns``.

    Args:
        turns: complete dialogues, schema ``TURNS``.
        faults: schema ``FAULTS``; several per turn are fine.
        stage: what the counts are counted under.
        outcome: ``rejected`` or ``duplicate``.
    """
    turns = turns.sort("key", "turn")
    early = pl.col("turn") < schema.MIN_TURNS
    # Only what lies before the third row decides over the dialogue, so that is its reason.
    reasons = faults.sort(~early, "position", "turn", "field", "value").unique(
        "key", keep="first", maintain_order=True
    )
    fatal = reasons.filter(early)
    cuts = reasons.filter(~early)
    fallen = turns.join(
        fatal.select("key", pl.col("turn").alias("at"), "field", "rule", "value"), on="key"
    ).with_columns(
        pl.when(pl.col("turn") == pl.col("at")).then(pl.col(name)).alias(name)
        for name in ("field", "value")
    )
    cut = turns.join(cuts.select("key", "turn", "field", "rule", "value"), on=["key", "turn"])
    gone = pl.concat([fallen.select("key", "turn"), cut.select("key", "turn")])
    kept = turns.join(gone, on=["key", "turn"], how="anti", maintain_order="left").with_columns(
        (pl.col("turn") == pl.col("turn").max().over("key")).alias("episode_done")
    )
    dialogues = fatal.join(turns.unique("key"), on="key", suffix="_of_turn")
    both = pl.concat_str("context", "response", separator="\n", ignore_nulls=True)
    none = pl.lit(0, dtype=pl.Int64)
    rejected = [
        _rejects(dialogues, "dialogue", outcome, pl.col("text"), pl.col("input_rows")),
        _rejects(fallen, "turn", outcome, both, none),
        _rejects(cut, "turn", outcome, both, none),
    ]
    return Sifted(
        turns=kept,
        rejected=concat(rejected, _REJECTED).sort("key", "unit", "turn"),
        counts=concat(
            [
                _counts(f"{stage}.dialogues", outcome, turns, kept, [dialogues], distinct=True),
                _counts(f"{stage}.turns", outcome, turns, kept, [fallen, cut], distinct=False),
            ],
            COUNTS,
        ),
    )


def _rejects(
    rows: pl.DataFrame, unit: str, outcome: str, text: pl.Expr, input_rows: pl.Expr
) -> pl.DataFrame:
    return rows.select(
        pl.lit(unit).alias("unit"),
        "rule",
        "value",
        pl.lit(outcome).alias("outcome"),
        "key",
        "turn",
        "field",
        "source",
        "split",
        pl.lit(None, dtype=pl.String).alias("file"),
        pl.lit(None, dtype=pl.Int64).alias("line"),
        text.alias("text"),
        input_rows.alias("input_rows"),
    )


def _counts(
    stage: str,
    outcome: str,
    came: pl.DataFrame,
    kept: pl.DataFrame,
    lost: list[pl.DataFrame],
    *,
    distinct: bool,
) -> pl.DataFrame:
    entered, passed = (
        frame["key"].n_unique() if distinct else frame.height for frame in (came, kept)
    )
    rules = pl.concat([frame.select("rule") for frame in lost])
    by_rule = rules.group_by("rule").len().sort("rule").rows()
    rows = [("in", "", "", entered), ("out", "passed", "", passed)]
    rows += [("out", outcome, rule, n) for rule, n in by_rule]
    return pl.DataFrame(
        [(stage, *row) for row in rows if row[-1]], schema=dict(COUNTS), orient="row"
    )
