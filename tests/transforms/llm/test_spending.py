"""What calls came to: from the engine's counts to the ledger's rows and to what a run tells."""

from __future__ import annotations

import polars as pl
import pytest

from transforms.ledger import COUNTS, build_ledger, count_in, count_out, sum_counts
from transforms.llm.prices import Price
from transforms.llm.spending import calls_entry, calls_frame, money, spending_lines

PRICE = Price(input=2.0, cached_input=1.0, output=10.0)
COUNTED = {
    "calls_sent": 5,
    "calls_cached": 3,
    "tokens_prompt": 1_500_000,
    "tokens_completion": 200_000,
    "tokens_cached": 500_000,
    "vote.v1 org/model/calls_sent": 4,
    "vote.v1 org/model/tokens_prompt": 1_000_000,
    "vote.v1 org/model/tokens_cached": 500_000,
    "vote.v1 org/model/tokens_completion": 100_000,
    "rots.v1 org/model/calls_sent": 1,
    "rots.v1 org/model/calls_cached": 3,
    "rots.v1 org/model/tokens_prompt": 500_000,
    "rots.v1 org/model/tokens_completion": 100_000,
}


def test_the_ledger_has_a_row_per_prompt_and_model_with_its_cost() -> None:
    both = [calls_frame(COUNTED), calls_frame({"rots.v1 org/model/calls_sent": 1, "keys_done": 9})]
    rots, vote = calls_entry(sum_counts(both), {"org/model": PRICE})
    assert (rots["prompt"], rots["model"], rots["calls_sent"]) == ("rots.v1", "org/model", 2)
    assert rots["calls_cached"] == 3
    assert rots["cost"] == pytest.approx(0.5 * 2 + 0.1 * 10)
    assert vote["cost"] == pytest.approx(0.5 * 2 + 0.5 * 1 + 0.1 * 10)


def test_without_a_price_the_cost_is_none() -> None:
    assert {row["cost"] for row in calls_entry(calls_frame(COUNTED), {})} == {None}


def test_calls_are_no_stage_of_the_ledger() -> None:
    lost = pl.DataFrame([("x", 1)], schema=["key", "n"], orient="row")
    counts = pl.concat(
        [
            calls_frame(COUNTED),
            count_in("turns", 1),
            count_out("turns", "published", pl.lit(""), lost, pl.col("n").sum()),
        ]
    )
    assert counts.schema == pl.Schema(COUNTS)
    ledger = build_ledger(counts, ["turns"])
    assert list(ledger["stages"]) == ["turns"]
    assert ledger["closes"]


def test_a_run_tells_calls_tokens_and_cost() -> None:
    (line,) = spending_lines(COUNTED, {"org/model": PRICE}, None)
    assert line == (
        "calls: 5 sent, 3 answered from the cache; tokens: 1,500,000 in (500,000 of them cached by "
        "the endpoint), 200,000 out; cost: 4.50 USD"
    )
    assert "cost unknown: no price of org/model" in spending_lines(COUNTED, {}, None)[0]


def test_a_spent_budget_is_told_with_what_to_do() -> None:
    lines = spending_lines({**COUNTED, "class_budget": 7}, {"org/model": PRICE}, 4.5)
    assert lines[1].startswith("the budget of 4.50 USD is spent: 7 calls were not sent")
    assert "run again with more" in lines[1]


def test_nothing_called_is_nothing_to_tell() -> None:
    assert spending_lines({"keys_done": 3}, {}, 1.0) == []


@pytest.mark.parametrize(
    ("dollars", "told"),
    [(0, "0.00 USD"), (1234.5, "1,234.50 USD"), (0.0562, "0.0562 USD"), (0.00096, "0.000960 USD")],
)
def test_money_for_reading(dollars: float, told: str) -> None:
    assert money(dollars) == told
