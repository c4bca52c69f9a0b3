"""The ledger: what went into each stage and what came out of it, counted apart.

The side ``in`` is counted where rows enter a stage, the side ``out`` where they end; neither is
computed from the other, so a row that is lost, or comes twice, keeps the ledger open.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import polars as pl

from transforms.errors import LedgerError
from transforms.frames import concat

#: The side of counts that tell how calls went; they enter no stage (``transforms.llm.spending``).
CALLS = "calls"

#: Frames of counts, added up over partitions.
COUNTS: dict[str, pl.DataType | type[pl.DataType]] = {
    "stage": pl.String,
    "side": pl.String,  # in | out | calls
    "outcome": pl.String,  # published, rejected, dead, waiting, duplicate; "" on the side "in"
    "reason": pl.String,  # the filter, error class or what is awaited; "" where there is none
    "n": pl.Int64,
}


def count_in(stage: str, rows: int) -> pl.DataFrame:
    """Return the count of so many ``rows`` that enter ``stage``, schema ``COUNTS``."""
    return pl.DataFrame([(stage, "in", "", "", rows)], schema=COUNTS, orient="row")


def count_out(
    stage: str, outcome: str | pl.Expr, reason: pl.Expr, rows: pl.DataFrame, n: pl.Expr
) -> pl.DataFrame:
    """Return how many of ``rows`` end ``stage`` by outcome and reason, schema ``COUNTS``.

    Args:
        stage: the stage.
        outcome: one for all rows, or an expression.
        reason: why; null is none.
        rows: what ended.
        n: from a group of rows to their number.
    """
    named = pl.lit(outcome) if isinstance(outcome, str) else outcome
    return (
        rows.group_by(named.alias("outcome"), reason.fill_null("").alias("reason"))
        .agg(n.cast(pl.Int64).alias("n"))
        .filter(pl.col("n") != 0)  # no rows at all are one group where all keys are literals
        .select(pl.lit(stage).alias("stage"), pl.lit("out").alias("side"), *list(COUNTS)[2:])
    )


def sum_counts(frames: Iterable[pl.DataFrame]) -> pl.DataFrame:
    """Return the counts of all ``frames`` added up, sorted."""
    return (
        concat(frames, COUNTS)
        .with_columns(pl.col("outcome", "reason").fill_null(""))
        .group_by("stage", "side", "outcome", "reason")
        .agg(pl.col("n").sum())
        .sort("stage", "side", "outcome", "reason")
    )


def build_ledger(counts: pl.DataFrame, stages: Sequence[str]) -> dict[str, Any]:
    """Return the ledger of ``counts``, its ``stages`` in the order given.

    Returns:
        ``{"stages": {stage: {"in": n, "out": {outcome: n}, "reasons": {outcome: {reason: n}},
        "closes": bool}}, "closes": bool}``. A stage of which nothing was counted stands in the
        ledger with zeros; a stage that is counted and not named in ``stages`` comes last.
    """
    summed = sum_counts([counts.filter(pl.col("side") != CALLS)])
    others = sorted(set(summed["stage"]) - set(stages))
    entries = {
        stage: _stage(summed.filter(pl.col("stage") == stage)) for stage in [*stages, *others]
    }
    return {"stages": entries, "closes": all(entry["closes"] for entry in entries.values())}


def _stage(counts: pl.DataFrame) -> dict[str, Any]:
    entered = int(counts.filter(pl.col("side") == "in")["n"].sum())
    outcomes: dict[str, int] = {}
    reasons: dict[str, dict[str, int]] = {}
    for _, side, outcome, reason, n in counts.iter_rows():
        if side != "out":
            continue
        outcomes[outcome] = outcomes.get(outcome, 0) + n
        if reason:
            reasons.setdefault(outcome, {})[reason] = n
    closes = entered == sum(outcomes.values()) and bool((counts["n"] >= 0).all())
    return {"in": entered, "out": outcomes, "reasons": reasons, "closes": closes}


def ledger_table(ledger: Mapping[str, Any]) -> pl.DataFrame:
    """Return what came out of each stage of ``ledger``: stage, outcome, n."""
    rows = [
        (stage, outcome, n)
        for stage, entry in ledger["stages"].items()
        for outcome, n in entry["out"].items()
    ]
    schema = {name: COUNTS[name] for name in ("stage", "outcome", "n")}
    return pl.DataFrame(rows, schema=schema, orient="row")


def close_ledger(ledger: Mapping[str, Any]) -> None:
    """Return if what went into every stage of ``ledger`` came out of it.

    Raises:
        LedgerError: naming each stage that does not close, and its difference.
    """
    faults = []
    for stage, entry in ledger["stages"].items():
        if entry["closes"]:
            continue
        left = sum(entry["out"].values())
        fault = f"{stage}: {entry['in']} in, {left} out, difference {left - entry['in']:+d}"
        faults.append(fault if left != entry["in"] else f"{stage}: a negative count")
    if faults:
        raise LedgerError(
            "the ledger does not close (" + "; ".join(faults) + "); this is a fault of remint, not "
            "of your data: please report it with the run's ledger.json"
        )


def render_funnel(ledger: Mapping[str, Any]) -> str:
    """Return the ledger as text for a terminal: per stage its outcomes, and the reasons of each.

    Stages that nothing entered are left out.
    """
    lines = []
    for stage, entry in ledger["stages"].items():
        if not entry["in"] and entry["closes"]:
            continue
        state = "" if entry["closes"] else "   DOES NOT CLOSE"
        lines.append(f"{stage:<28}{entry['in']:>12,}{state}")
        for outcome, n in entry["out"].items():
            lines.append(f"  {outcome:<26}{n:>12,}{_share(n, entry['in'])}")
            reasons = entry["reasons"].get(outcome, {})
            for reason, count in sorted(reasons.items(), key=lambda item: (-item[1], item[0])):
                lines.append(f"    {reason:<24}{count:>12,}{_share(count, entry['in'])}")
    failing = [row for row in ledger.get("filters", ()) if row["turns"]]
    if failing:
        lines.append("filters (what fails each, whichever came first)")
    for row in failing:
        level = "" if row["level"] == "error" else f"   {row['level']}"
        lines.append(f"  {row['rule']:<26}{row['turns']:>12,}{level}")
    return "\n".join(lines)


def _share(n: int, whole: int) -> str:
    return f"{n / whole:>8.1%}" if whole else ""
