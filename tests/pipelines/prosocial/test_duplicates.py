from __future__ import annotations

from collections.abc import Callable

import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.prosocial.duplicates import (
    HASHES,
    LOSERS,
    drop_duplicates,
    find_losers,
    hash_turns,
    standing,
)
from transforms.ledger import build_ledger

Make = Callable[..., pl.DataFrame]
Key = Callable[[int], str]


def test_the_smallest_keys_row_stands(make_turns: Make, key: Key) -> None:
    own = {turn: {"context": f"I plan thing {turn}."} for turn in (0, 1)}
    turns = pl.concat([make_turns(1), make_turns(2, changes=own)])
    losers = find_losers(hash_turns(turns))
    assert losers.rows() == [(key(2), 2, key(1))]
    sifted = drop_duplicates(turns, losers)
    assert sifted.turns.filter(key=key(2))["episode_done"].to_list() == [False, True]
    row = sifted.rejected.row(0, named=True)
    assert (row["unit"], row["rule"], row["outcome"]) == ("turn", "duplicate", "duplicate")
    assert (row["value"], row["turn"]) == (key(1), 2)


def test_a_dialogue_that_another_one_holds_is_dropped(make_turns: Make, key: Key) -> None:
    turns = pl.concat([make_turns(3), make_turns(1), make_turns(2, rows=2)])
    sifted = drop_duplicates(turns, find_losers(hash_turns(turns)))
    assert sifted.turns["key"].unique().to_list() == [key(1)]
    dialogues = sifted.rejected.filter(unit="dialogue")
    assert dialogues.select("key", "value").rows() == [(key(2), key(1)), (key(3), key(1))]
    assert build_ledger(sifted.counts, [])["closes"]


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 4), st.integers(0, 2)), max_size=6), st.integers(2, 3))
def test_what_stands_is_known_without_the_texts(
    make_turns: Make, key: Key, lost: list[tuple[int, int]], rows: int
) -> None:
    turns = pl.concat([make_turns(1), make_turns(2, rows=rows), make_turns(3)])
    losers = pl.DataFrame(
        [(key(number), turn, key(9)) for number, turn in lost], schema=dict(LOSERS), orient="row"
    )
    places = turns.select("key", "turn", "split")
    kept = drop_duplicates(turns, losers).turns
    assert standing(places, losers).sort("key", "turn").equals(kept.select(places.columns))


def test_case_and_the_border_of_the_two_texts_count(make_turns: Make) -> None:
    first = {turn: {"context": f"a{turn}", "response": "bc"} for turn in range(3)}
    other = {turn: {"context": f"a{turn}b", "response": "c"} for turn in range(3)}
    loud = {turn: {"context": f"A{turn}", "response": "bc"} for turn in range(3)}
    turns = pl.concat(
        [make_turns(n, changes=texts) for n, texts in enumerate((first, other, loud), 1)]
    )
    assert find_losers(hash_turns(turns)).is_empty()


def test_losers_of_other_partitions_are_left_alone(make_turns: Make, key: Key) -> None:
    turns = make_turns(1)
    losers = pl.DataFrame([(key(9), 0, key(1))], schema=["key", "turn", "winner"], orient="row")
    losers = losers.cast({"turn": pl.Int32})
    assert drop_duplicates(turns, losers).turns.equals(turns)


@given(
    st.lists(
        st.tuples(st.sampled_from("abc"), st.integers(0, 5), st.integers(0, 2)),
        unique_by=lambda r: r[1:],
    ),
    st.randoms(use_true_random=False),
)
@settings(max_examples=50, deadline=None)
def test_one_row_per_hash_stands_in_any_order_and_bucketing(
    rows: list[tuple[str, int, int]], random: object
) -> None:
    hashes = pl.DataFrame(
        [(text, f"{number:032x}", turn) for text, number, turn in rows],
        schema=dict(HASHES),
        orient="row",
    )
    losers = find_losers(hashes)
    assert losers.height == hashes.height - hashes["hash"].n_unique()
    standing = hashes.join(losers, on=["key", "turn"], how="anti")
    smallest = hashes.sort("key", "turn").unique("hash", keep="first")
    assert standing.sort("hash").equals(smallest.sort("hash"))
    mixed = list(range(hashes.height))
    random.shuffle(mixed)  # type: ignore[attr-defined]
    assert find_losers(hashes[mixed]).equals(losers)
    by_bucket = [find_losers(bucket) for bucket in hashes.partition_by("hash")]
    if by_bucket:
        assert pl.concat(by_bucket).sort("key", "turn").equals(losers)
