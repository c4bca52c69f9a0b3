"""What calls came to, by prompt and model: the ledger's part on them, and what a run tells.

The engine's counts travel to the ledger among its other counts (``transforms.ledger.COUNTS``), on a
side of their own: ``outcome`` is the prompt and model, ``reason`` the name of what is counted.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars as pl

from transforms.ledger import CALLS, COUNTS
from transforms.llm.latencies import percentiles, seconds_of
from transforms.llm.prices import Price
from transforms.llm.statistics import (
    BATCHED,
    CACHED,
    CACHED_TOKENS,
    COMPLETION_TOKENS,
    PROMPT_TOKENS,
    SENT,
    by_prompt,
    class_shares,
)

_STAGE = "calls"


def calls_frame(counts: Mapping[str, int]) -> pl.DataFrame:
    """Return those of an engine's ``counts`` that are by prompt and model, schema ``COUNTS``."""
    rows = [
        (_STAGE, CALLS, label, name, number)
        for label, named in by_prompt(counts).items()
        for name, number in named.items()
        if number
    ]
    return pl.DataFrame(rows, schema=COUNTS, orient="row")


def calls_entry(counts: pl.DataFrame, prices: Mapping[str, Price]) -> list[dict[str, Any]]:
    """Return the ledger's part on calls: per prompt and model one object.

    It has the counts, the cost, the share of each class among the answers, and percentiles of the
    latency in seconds.

    Args:
        counts: all of the ledger's, schema ``COUNTS``.
        prices: of the models; without a model's price its ``cost`` is None.
    """
    summed = (
        counts.filter(pl.col("side") == CALLS)
        .group_by("outcome", "reason")
        .agg(pl.col("n").sum())
        .sort("outcome", "reason")
    )
    by_label: dict[str, dict[str, int]] = {}
    for label, name, number in summed.iter_rows():
        by_label.setdefault(label, {})[name] = number
    return [_entry(label, named, prices) for label, named in by_label.items()]


def _entry(label: str, named: Mapping[str, int], prices: Mapping[str, Price]) -> dict[str, Any]:
    prompt, _, model = label.partition(" ")
    return {
        "prompt": prompt,
        "model": model,
        **{name: number for name, number in named.items() if seconds_of(name) is None},
        "cost": cost_of(named, prices.get(model)),
        "class_shares": class_shares(named),
        "latency": percentiles(named),
    }


def cost_of(counts: Mapping[str, int], price: Price | None) -> float | None:
    """Return US dollars that the tokens of ``counts`` cost, or None without a price."""
    if price is None:
        return None
    sent, received, read = (
        counts.get(name, 0) for name in (PROMPT_TOKENS, COMPLETION_TOKENS, CACHED_TOKENS)
    )
    return round(price.cost(sent, received, read), 12)


def spending_lines(
    counts: Mapping[str, int], prices: Mapping[str, Price], max_cost: float | None
) -> list[str]:
    """Return what a run tells of its calls: their number, tokens and cost, and a spent budget.

    Args:
        counts: the engines' counts over the whole run, those by prompt and model among them.
        prices: of the models.
        max_cost: the most that they might cost, US dollars.
    """
    names = (SENT, BATCHED, CACHED, "class_budget")
    sent, batched, cached, refused = (counts.get(name, 0) for name in names)
    if not (sent or batched or cached or refused):
        return []
    line = f"calls: {sent:,} sent, {cached:,} answered from the cache"
    if batched:
        line += f", {batched:,} of whose answers were collected from batches now"
    if sent or batched:
        line += (
            f"; tokens: {counts.get(PROMPT_TOKENS, 0):,} in "
            f"({counts.get(CACHED_TOKENS, 0):,} of them cached by the endpoint), "
            f"{counts.get(COMPLETION_TOKENS, 0):,} out; {_cost_line(counts, prices)}"
        )
    lines = [line]
    if refused:
        bound = "" if max_cost is None else f" of {money(max_cost)}"
        lines.append(
            f"the budget{bound} is spent: {refused:,} calls were not sent, and what needs them "
            "waits; run again with more to carry on, no call is repeated"
        )
    return lines


def total_cost(counts: Mapping[str, int], prices: Mapping[str, Price]) -> tuple[float, set[str]]:
    """Return US dollars that calls cost, and the models that were called and have no price.

    Args:
        counts: an engine's, those by prompt and model among them.
        prices: of the models.
    """
    costs: list[float] = []
    unpriced: set[str] = set()
    for label, named in by_prompt(counts).items():
        model = label.partition(" ")[2]
        cost = cost_of(named, prices.get(model))
        if cost is not None:
            costs.append(cost)
        elif named.get(SENT) or named.get(BATCHED):
            unpriced.add(model)
    return sum(costs), unpriced


def _cost_line(counts: Mapping[str, int], prices: Mapping[str, Price]) -> str:
    cost, unpriced = total_cost(counts, prices)
    if unpriced:
        return f"cost unknown: no price of {', '.join(sorted(unpriced))} (see --prices)"
    return f"cost: {money(cost)}"


def money(dollars: float) -> str:
    """Return an amount for reading: to the cent, or as far as a small one needs."""
    digits = 2 if dollars >= 1 or dollars == 0 else 4 if dollars >= 0.01 else 6
    return f"{dollars:,.{digits}f} USD"
