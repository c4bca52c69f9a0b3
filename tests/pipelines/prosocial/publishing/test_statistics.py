from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.prosocial import schema
from pipelines.prosocial.statistics import (
    STATISTICS,
    merge_statistics,
    partition_statistics,
    summarise,
)


@pytest.fixture(scope="module")
def dialogues(make_dialogues):
    return make_dialogues({"train": 10, "validation": 4, "test": 2})


def statistics_of(dialogues, turns=None):
    turns = dialogues.turns if turns is None else turns
    return partition_statistics(turns, dialogues.responses, dialogues.votes)


@pytest.fixture(scope="module")
def tables(dialogues):
    return summarise(statistics_of(dialogues))


def test_totals(tables, dialogues):
    (version,) = tables["version"]

    rows = dialogues.turns.height
    assert version["dialogues"] == 16
    assert (version["rows"], version["utterances"], version["annotations"]) == (
        rows,
        2 * rows,
        3 * rows,
    )
    assert version["two_turn_share"] == 5 / 16
    assert tables["splits"] == [
        {"split": "train", "dialogues": 10, "rows": 27, "id_breaks": 0},
        {"split": "validation", "dialogues": 4, "rows": 11, "id_breaks": 0},
        {"split": "test", "dialogues": 2, "rows": 5, "id_breaks": 0},
    ]


def test_words_are_counted_per_text(dialogues, tables):
    texts = [*dialogues.turns["context"], *dialogues.turns["response"]]
    rots = [rot for rots in dialogues.turns["rots"] if rots is not None for rot in rots]

    (version,) = tables["version"]

    assert version["words_per_utterance"] == sum(len(t.split()) for t in texts) / len(texts)
    assert version["words_per_rot"] == sum(len(rot.split()) for rot in rots) / len(rots)
    assert (version["rots"], version["distinct_rots"]) == (len(rots), len(set(rots)))


def test_a_rule_of_thumb_that_was_shown_counts_as_selected(tables):
    assert tables["version"][0]["new_rot_share"] == 0.5


def test_labels_by_turn_and_in_the_order_of_severity(tables, dialogues):
    assert [row["value"] for row in tables["labels"]] == list(schema.LABELS)
    third = [row for row in tables["turn_labels"] if row["response_id"] == 2]
    expected = dialogues.turns.filter(turn=2)
    assert [row["n"] for row in third] == [
        expected.filter(safety_label=label).height for label in schema.LABELS
    ]
    assert sum(row["share"] for row in tables["labels"]) == pytest.approx(1)


def test_authors_and_sources(tables, dialogues):
    assert tables["vote_authors"] == [
        {"value": "crowd", "n": 3 * dialogues.turns.height, "share": 1.0}
    ]
    assert {row["value"]: row["n"] for row in tables["response_authors"]} == {
        "crowd": 27, "drafted": 16,
    }  # fmt: skip
    assert sum(row["n"] for row in tables["sources"]) == 16


def test_alpha_is_that_of_the_votes(dialogues, tables):
    from krippendorff import alpha

    votes = [list(row) for row in dialogues.turns["safety_annotations"]]
    counts = [[row.count(vote) for vote in schema.VOTES] for row in votes]

    expected = alpha(value_counts=counts, level_of_measurement="nominal")
    assert tables["version"][0]["alpha"] == pytest.approx(float(expected))


def test_votes_of_turns_that_are_not_published_do_not_count(dialogues):
    turns = dialogues.turns.filter(pl.col("split") == "test")

    assert summarise(statistics_of(dialogues, turns))["version"][0]["annotations"] == 15


@given(st.lists(st.integers(0, 3), min_size=43, max_size=43), st.randoms())
@settings(max_examples=15, deadline=None)
def test_statistics_of_parts_add_up_to_those_of_the_whole(make_dialogues, parts, random):
    dialogues = make_dialogues({"train": 10, "validation": 4, "test": 2})
    by_dialogue = dict(zip(sorted(set(dialogues.turns["key"])), parts, strict=False))
    part = pl.col("key").replace_strict(by_dialogue)
    pieces = [
        statistics_of(dialogues, dialogues.turns.filter(part == number)) for number in range(4)
    ]
    random.shuffle(pieces)

    merged = merge_statistics(pieces)

    def without_ids(frame: pl.DataFrame) -> pl.DataFrame:
        return frame.filter(pl.col("statistic") != "dialogue_ids")

    assert without_ids(merged).equals(without_ids(statistics_of(dialogues)))
    assert merge_statistics([merged]).equals(merged)
    assert summarise(pl.concat(pieces)) == summarise(merged)


def ids(*ranges: tuple[int, int, int]) -> list[dict]:
    """Return the splits of ranges of ids in the train split: low, high, how many dialogues."""
    rows = [("dialogue_ids", "train", None, str(low), n, low, high) for low, high, n in ranges]
    frame = pl.DataFrame(rows, schema=dict(STATISTICS), orient="row")
    return summarise(merge_statistics([frame]))["splits"]


@pytest.mark.parametrize(
    ("ranges", "breaks"),
    [
        ([(0, 3, 4), (4, 6, 3)], 0),
        ([(4, 6, 3), (0, 3, 4)], 0),
        ([(1, 3, 3)], 1),  # does not begin at 0
        ([(0, 3, 4), (5, 6, 2)], 1),  # a gap between partitions
        ([(0, 3, 4), (3, 6, 4)], 1),  # an id in two partitions
        ([(0, 3, 3)], 1),  # a gap within a partition
        ([(0, 3, 4), (0, 3, 4)], 1),  # two partitions with the same ids
        ([], 0),
    ],
)
def test_breaks_in_dialogue_ids_are_found(ranges, breaks):
    assert ids(*ranges)[0]["id_breaks"] == breaks


def test_nothing_has_no_means():
    version = summarise(merge_statistics([]))["version"][0]

    assert version["rows"] == 0
    assert [version[name] for name in ("words_per_rot", "alpha", "two_turn_share")] == [None] * 3
