from __future__ import annotations

from collections.abc import Callable

import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.prosocial import schema
from pipelines.prosocial.faults import FAULTS, sift
from transforms.frames import polars_schema
from transforms.ledger import build_ledger

Make = Callable[..., pl.DataFrame]
Key = Callable[[int], str]


def faults(*rows: tuple[str, int, str, int]) -> pl.DataFrame:
    """Return faults from (key, turn, rule, position)."""
    return pl.DataFrame(
        [(key, turn, "response", rule, "v", f"text {rule}", at) for key, turn, rule, at in rows],
        schema=dict(FAULTS),
        orient="row",
    )


def test_a_fault_in_the_third_row_leaves_two(make_turns: Make, key: Key) -> None:
    sifted = sift(make_turns(1), faults((key(1), 2, "echo", 4)), "filters", "rejected")
    assert sifted.turns["turn"].to_list() == [0, 1]
    assert sifted.turns["episode_done"].to_list() == [False, True]
    assert dict(sifted.rejected.schema) == polars_schema(schema.REJECTED)
    row = sifted.rejected.row(0, named=True)
    assert (row["unit"], row["rule"], row["turn"], row["input_rows"]) == ("turn", "echo", 2, 0)
    last = make_turns(1).row(2, named=True)
    assert row["text"] == f"{last['context']}\n{last['response']}"


def test_an_earlier_fault_rejects_the_dialogue_and_all_its_rows(make_turns: Make, key: Key) -> None:
    turns = pl.concat([make_turns(1), make_turns(2)])
    sifted = sift(turns, faults((key(1), 1, "refusal", 6)), "filters", "rejected")
    assert sifted.turns.equals(make_turns(2))
    columns = ["unit", "turn", "rule", "field", "value", "input_rows"]
    assert sifted.rejected.select(columns).rows() == [
        ("dialogue", 1, "refusal", "response", "v", 2),
        ("turn", 0, "refusal", None, None, 0),
        ("turn", 1, "refusal", "response", "v", 0),
        ("turn", 2, "refusal", None, None, 0),
    ]
    assert sifted.rejected["text"][0] == "text refusal"
    assert sifted.rejected["split"].to_list() == ["train"] * 4


def test_the_reason_is_the_first_filter_among_those_that_decide(make_turns: Make, key: Key) -> None:
    found = faults(
        (key(1), 2, "blank", 0),
        (key(1), 1, "late", 8),
        (key(1), 0, "early", 5),
        (key(2), 2, "b", 3),
        (key(2), 2, "a", 2),
    )
    turns = pl.concat([make_turns(1), make_turns(2)])
    sifted = sift(turns, found, "filters", "rejected")
    reasons = sifted.rejected.filter(pl.col("field").is_not_null()).select("unit", "turn", "rule")
    assert reasons.rows() == [("dialogue", 0, "early"), ("turn", 0, "early"), ("turn", 2, "a")]


def test_a_dialogue_of_two_rows_has_none_to_spare(make_turns: Make, key: Key) -> None:
    sifted = sift(make_turns(1, rows=2), faults((key(1), 1, "echo", 0)), "filters", "rejected")
    assert sifted.turns.is_empty()
    assert sifted.rejected["unit"].to_list() == ["dialogue", "turn", "turn"]


@given(st.sets(st.tuples(st.integers(1, 4), st.integers(0, 2))), st.sets(st.integers(1, 4)))
@settings(max_examples=40, deadline=None)
def test_every_row_passes_or_is_rejected_once(
    make_turns: Make, key: Key, at: set[tuple[int, int]], short: set[int]
) -> None:
    turns = pl.concat([make_turns(n, rows=2 if n in short else 3) for n in range(1, 5)])
    there = [(n, turn) for n, turn in sorted(at) if not (n in short and turn == 2)]
    found = faults(*((key(n), turn, f"rule {turn}", turn) for n, turn in there))
    sifted = sift(turns, found, "filters", "rejected")
    lost = sifted.rejected.filter(unit="turn").select("key", "turn")
    both = pl.concat([sifted.turns.select("key", "turn"), lost]).sort("key", "turn")
    assert both.equals(turns.select("key", "turn").sort("key", "turn"))
    ledger = build_ledger(sifted.counts, ["filters.dialogues", "filters.turns"])
    assert ledger["closes"]
    assert ledger["stages"]["filters.turns"]["in"] == turns.height
    done = sifted.turns.group_by("key").agg(pl.col("episode_done").sum(), pl.len())
    assert (done["episode_done"] == 1).all()
    assert (done["len"] >= schema.MIN_TURNS).all()
    fallen = sifted.rejected.filter(unit="dialogue")
    assert fallen["input_rows"].sum() + 2 * done.height == 8
