from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from pipelines.prosocial.schema import REJECTED, SEED_ROWS, SEEDS, SOURCES, SPLITS
from pipelines.prosocial.seeds.selection import select
from pipelines.prosocial.seeds.splits import split_of_key
from transforms.frames import polars_schema
from transforms.keys import content_key
from transforms.ledger import build_ledger

SeedRowsOf = Callable[[Sequence[dict[str, Any]]], pl.DataFrame]

SITUATION = "hiding keys"


def test_one_qualifying_row_selects_a_seed_with_all_its_rows(seed_rows_of: SeedRowsOf) -> None:
    rows = seed_rows_of(
        [
            {"situation": SITUATION, "rule": "action_pressure", "value": "1", "rot": "b"},
            {"situation": SITUATION, "rot": "a", "etc": "id/1"},
            {"situation": SITUATION, "rule": "rot_bad", "value": "1"},
        ]
    )
    selection = select(rows, salt="s")
    assert selection.rejected.is_empty()
    assert selection.seeds.rows(named=True) == [
        {
            "key": content_key(SITUATION),
            "source": "socialchemistry",
            "split": "train",
            "situation": SITUATION,
            "etc": "id/1",
            "rots": ["a", "b"],
            "file": "seeds.csv",
            "line": 3,
            "input_rows": 3,
        }
    ]


def test_a_seed_without_a_qualifying_row_fails_by_the_row_that_got_furthest(
    seed_rows_of: SeedRowsOf,
) -> None:
    rows = seed_rows_of(
        [
            {"situation": SITUATION, "rule": "split", "value": "dev-extra", "rank": 3},
            {"situation": SITUATION, "rule": "action_pressure", "value": "1.0", "rank": 33},
            {"situation": SITUATION, "rule": "rot_bad", "value": "1", "rank": 13},
        ]
    )
    selection = select(rows, salt="s")
    assert selection.seeds.is_empty()
    rejected = selection.rejected.row(0, named=True)
    assert (rejected["unit"], rejected["outcome"], rejected["rule"], rejected["value"]) == (
        "seed",
        "rejected",
        "action_pressure",
        "1.0",
    )
    assert (rejected["text"], rejected["line"], rejected["input_rows"]) == (SITUATION, 3, 3)


def test_of_copies_in_several_splits_the_evaluation_one_is_kept(seed_rows_of: SeedRowsOf) -> None:
    rows = seed_rows_of(
        [
            {"situation": "Hiding  keys", "split": "train", "rot": "of train"},
            {"situation": SITUATION, "split": "test", "rot": "of test"},
            {"situation": SITUATION, "split": "validation"},
            {"situation": SITUATION, "split": "validation"},
        ]
    )
    selection = select(rows, salt="s")
    assert selection.seeds.select("split", "rots", "input_rows").rows() == [
        ("test", ["of test"], 1)
    ]
    assert selection.rejected.select(
        "outcome", "rule", "value", "split", "text", "input_rows"
    ).rows() == [
        ("duplicate", "duplicate_seed", "socialchemistry/test", "train", "Hiding  keys", 1),
        ("duplicate", "duplicate_seed", "socialchemistry/test", "validation", SITUATION, 2),
    ]


def test_of_copies_in_several_sources_the_first_source_is_kept(seed_rows_of: SeedRowsOf) -> None:
    names = ["mine", "ethics_reddit", "ethics_amt", "sbic", "another"]
    for first in (4, 3, 2, 1):
        rows = seed_rows_of([{"situation": SITUATION, "source": name} for name in names[:first]])
        expected = min(names[:first], key=lambda n: (SOURCES.index(n) if n in SOURCES else 9, n))
        assert select(rows, salt="s").seeds["source"].to_list() == [expected]
    unknown = seed_rows_of(
        [{"situation": SITUATION, "source": name} for name in ("mine", "another")]
    )
    assert select(unknown, salt="s").seeds["source"].to_list() == ["another"]


def test_a_copy_that_qualifies_wins_over_one_of_a_better_split_that_does_not(
    seed_rows_of: SeedRowsOf,
) -> None:
    rows = seed_rows_of(
        [
            {"situation": SITUATION, "split": "train"},
            {"situation": SITUATION, "split": "test", "rule": "label", "value": "0"},
        ]
    )
    selection = select(rows, salt="s")
    assert selection.seeds["split"].to_list() == ["train"]
    assert selection.rejected.select("outcome", "rule").rows() == [("rejected", "label")]


def test_a_seed_without_a_split_gets_one_from_its_key(seed_rows_of: SeedRowsOf) -> None:
    texts = [f"hiding key {number}" for number in range(200)]
    rows = seed_rows_of([{"situation": text, "split": None} for text in texts])
    for salt in ("a", "b"):
        seeds = select(rows, salt=salt).seeds
        assert seeds["split"].to_list() == [split_of_key(key, salt) for key in seeds["key"]]
        assert set(seeds["split"]) == set(SPLITS)


def test_candidates_are_five_distinct_ones_by_rank_then_number_then_text(
    seed_rows_of: SeedRowsOf,
) -> None:
    rots = [
        (33, "f"),
        (41, "c"),
        (40, "e"),
        (40, "d\nIt's ok."),
        (44, "b"),
        (44, "it's OK"),
        (44, "a"),
        (40, "d"),
        (20, "g"),
    ]
    rows = seed_rows_of([{"situation": SITUATION, "rank": rank, "rot": rot} for rank, rot in rots])
    assert select(rows, salt="s").seeds["rots"].to_list() == [["It's ok.", "a", "b", "c", "d"]]
    assert select(rows, salt="s", max_candidates=2).seeds["rots"].to_list() == [["It's ok.", "a"]]


def test_no_rows_make_an_empty_selection(seed_rows_of: SeedRowsOf) -> None:
    selection = select(seed_rows_of([{"situation": SITUATION}]).clear(), salt="s")
    assert dict(selection.seeds.schema) == dict(SEEDS)
    assert dict(selection.rejected.schema) == polars_schema(REJECTED)
    assert build_ledger(selection.counts, ["select"])["closes"]


ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "situation": st.sampled_from(["one", "One", "two  words", "two words", "three"]),
            "source": st.sampled_from([*SOURCES, "mine"]),
            "split": st.sampled_from([*SPLITS, None]),
            "etc": st.sampled_from(["", "x"]),
            "rot": st.sampled_from([None, "a", "A.", "b\nc", "d"]),
            "rule": st.sampled_from([None, "rot_bad", "target_minority", "target_stereotype"]),
            "rank": st.integers(0, 44),
            "value": st.sampled_from(["", "1"]),
        }
    ),
    max_size=24,
)


@settings(max_examples=60, deadline=None)
@given(rows=ROWS, data=st.data())
def test_order_never_matters_and_every_row_is_accounted_for(rows: Any, data: Any) -> None:
    full = [
        {"file": "f", "line": number, "key": content_key(row["situation"]), **row}
        for number, row in enumerate(rows)
    ]
    frame = pl.DataFrame(full, schema=SEED_ROWS)
    shuffled = pl.DataFrame(data.draw(st.permutations(full)), schema=SEED_ROWS)
    selection, again = select(frame, salt="s"), select(shuffled, salt="s")
    assert_frame_equal(selection.seeds, again.seeds)
    assert_frame_equal(selection.rejected, again.rejected)
    assert_frame_equal(selection.counts, again.counts)

    ended = selection.seeds["input_rows"].sum() + selection.rejected["input_rows"].sum()
    assert ended == len(rows)
    assert build_ledger(selection.counts, ["select"])["closes"]
    assert selection.seeds["key"].is_unique().all()
    qualified = set(frame.filter(pl.col("rule").is_null())["key"])
    assert qualified <= set(selection.seeds["key"])
    assert selection.seeds["split"].is_in(SPLITS).all()
