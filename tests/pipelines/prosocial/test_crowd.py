from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.prosocial import schema
from pipelines.prosocial.crowd import CrowdJoin, resolve
from transforms.frames import polars_schema
from transforms.ledger import build_ledger

Key = Callable[[int], str]
KEYS = [f"{number:032x}" for number in range(5)]


def seeds(*keys: str) -> pl.DataFrame:
    rows = [
        {"key": key, "source": "sbic", "split": "test", "situation": "s", "rots": []}
        for key in keys
    ]
    return pl.DataFrame(rows, schema=schema.SEEDS)


def responses(*rows: dict[str, Any]) -> pl.DataFrame:
    plain = {
        "turn": 1,
        "annotator": "w",
        "response": "text",
        "author": "crowd",
        "file": "r",
        "line": 1,
    }
    return pl.DataFrame([{**plain, **row} for row in rows], schema=schema.RESPONSES)


def votes(*rows: dict[str, Any]) -> pl.DataFrame:
    plain = {
        "turn": 0,
        "annotator": "w",
        "vote": schema.VOTE_CASUAL,
        "reason": "fine",
        "author": "crowd",
        "file": "a",
        "line": 1,
    }
    return pl.DataFrame([{**plain, **row} for row in rows], schema=schema.ANNOTATIONS)


def verdicts(join: CrowdJoin) -> list[tuple[str, str, int]]:
    return join.rejected.select("rule", "outcome", "line").rows()


def test_the_first_response_by_file_and_line_stands() -> None:
    join = resolve(
        seeds(KEYS[0]),
        responses(
            {"key": KEYS[0], "file": "b", "line": 1, "response": "late"},
            {"key": KEYS[0], "file": "a", "line": 9, "response": "second"},
            {"key": KEYS[0], "file": "a", "line": 2, "response": "first"},
            {"key": KEYS[0], "turn": 2, "file": "b", "line": 4, "response": "other turn"},
        ),
        votes(),
    )
    assert join.responses["response"].to_list() == ["first", "other turn"]
    assert verdicts(join) == [
        ("duplicate_response", "duplicate", 9),
        ("duplicate_response", "duplicate", 1),
    ]
    assert join.rejected["text"].to_list() == ["second", "late"]
    assert join.rejected["source"].to_list() == ["sbic", "sbic"]


@pytest.mark.parametrize(
    ("rots", "candidates", "stand", "shown"),
    [
        (
            ["It's rude to pry; ask first ;It's rude to pry"],
            [],
            ["It's rude to pry", "ask first"],
            [],
        ),
        (["one; two", "three", "two"], [], ["one", "two", "three"], []),
        (["\x1c;one; \x1f"], [], ["one"], []),
        # Of the seed, of several candidates, and of one text of candidates.
        (["Be kind; always.", "a; b"], [], ["Be kind; always.", "a", "b"], []),
        (["a; b", "c"], ["a; b", "d"], ["a; b", "c"], ["a; b", "d"]),
        (["a; b"], ["a; b; Be kind"], ["a", "b"], ["a", "b", "Be kind"]),
        (["c"], ["Be kind; always."], ["c"], ["Be kind; always."]),
        ([], None, [], None),
        (None, [], None, []),
    ],
)
def test_semicolons_part_rots_but_not_those_that_were_shown(
    rots: list[str] | None,
    candidates: list[str] | None,
    stand: list[str] | None,
    shown: list[str] | None,
) -> None:
    own = pl.Series([["Be kind; always.", "x"]], dtype=pl.List(pl.String))
    join = resolve(
        seeds(KEYS[0]).with_columns(own.alias("rots")),
        responses(
            {"key": KEYS[0], "rots": rots, "candidates": candidates},
            {"key": KEYS[0], "turn": 2, "rots": ["plain"]},
        ),
        votes(),
    )
    assert join.responses["rots"].to_list() == [stand, ["plain"]]
    assert join.responses["candidates"].to_list() == [shown, None]


def test_one_annotator_votes_once_and_three_votes_are_enough() -> None:
    rows = [
        {"annotator": "1", "line": 1},
        {"annotator": "1", "line": 2, "vote": schema.VOTE_CAUTION},
        {"annotator": "2", "line": 3},
        {"annotator": "3", "line": 4},
        {"annotator": "4", "line": 5},
        {"annotator": "1", "line": 6, "turn": 1},
    ]
    join = resolve(seeds(KEYS[0]), responses(), votes(*({"key": KEYS[0], **row} for row in rows)))
    assert join.annotations["line"].to_list() == [1, 3, 4, 6]
    assert verdicts(join) == [("duplicate_vote", "duplicate", 2), ("fourth_vote", "rejected", 5)]
    assert join.rejected["value"].to_list() == ["1", "4"]


def test_keys_without_a_seed_have_the_reason() -> None:
    join = resolve(
        seeds(KEYS[0]),
        responses(*({"key": key, "line": line} for line, key in enumerate(KEYS[:4]))),
        votes({"key": KEYS[3]}),
        not_selected=pl.Series([KEYS[1], KEYS[1]]),
        beyond_limit=pl.Series([KEYS[2]]),
    )
    assert join.responses["key"].to_list() == [KEYS[0]]
    assert join.annotations.is_empty()
    assert join.rejected.select("unit", "rule", "value").rows() == [
        ("response", "seed_not_selected", KEYS[1]),
        ("response", "seed_beyond_limit", KEYS[2]),
        ("response", "unknown_key", KEYS[3]),
        ("annotation", "unknown_key", KEYS[3]),
    ]
    assert dict(join.rejected.schema) == polars_schema(schema.REJECTED)


def test_no_crowd_rows_give_frames_without_rows() -> None:
    join = resolve(seeds(KEYS[0]), responses(), votes())
    assert dict(join.responses.schema) == dict(responses().schema)
    assert dict(join.annotations.schema) == dict(votes().schema)
    assert join.rejected.is_empty()
    assert join.counts.is_empty()


ROWS = st.lists(
    st.tuples(
        st.sampled_from(KEYS),
        st.integers(0, 2),
        st.sampled_from(["1", "2", "3", "4"]),
        st.sampled_from(schema.VOTES),
    ),
    max_size=40,
)


@given(ROWS, st.randoms(use_true_random=False))
@settings(max_examples=40, deadline=None)
def test_order_of_arrival_never_matters_and_nothing_is_lost(rows: list[Any], random: Any) -> None:
    annotations = votes(
        *(
            {"key": key, "turn": turn, "annotator": annotator, "vote": vote, "line": line}
            for line, (key, turn, annotator, vote) in enumerate(rows)
        )
    )
    order = list(range(annotations.height))
    random.shuffle(order)
    known = seeds(*KEYS[:3])
    limited = pl.Series([KEYS[3]])
    straight = resolve(known, responses(), annotations, beyond_limit=limited)
    mixed = resolve(known, responses(), annotations[order], beyond_limit=limited)
    assert straight.annotations.equals(mixed.annotations)
    assert straight.rejected.equals(mixed.rejected)
    lines = [*straight.annotations["line"], *straight.rejected["line"]]
    assert sorted(lines) == list(range(len(rows)))
    per_turn = Counter(straight.annotations.select("key", "turn").rows())
    assert all(count <= schema.VOTES_PER_TURN for count in per_turn.values())
    voters = straight.annotations.select("key", "turn", "annotator")
    assert voters.is_unique().all()
    assert build_ledger(straight.counts, ["crowd.annotations"])["closes"]
