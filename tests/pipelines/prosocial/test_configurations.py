"""Publishable rows: ids run on over partitions, annotators are hashed, prompts are named."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.prosocial import schema
from pipelines.prosocial.assembly import UTTERANCES, VOTES
from pipelines.prosocial.command import PROMPTS
from pipelines.prosocial.configurations import (
    Authorship,
    configurations,
    dialogue_counts,
    offsets_of,
    with_dialogue_ids,
)
from pipelines.prosocial.stages import SCHEMAS
from transforms.llm.prompts import load_prompts
from transforms.publishing.shards import to_table

MakeTurns = Callable[..., pl.DataFrame]


@given(st.lists(st.tuples(st.integers(0, 5), st.sampled_from(schema.SPLITS)), max_size=30))
def test_ids_are_contiguous_over_partitions(dialogues: list[tuple[int, str]]) -> None:
    turns = {
        partition: pl.DataFrame(
            [
                (f"{number:032x}", turn, split)
                for number, (where, split) in enumerate(dialogues)
                if where == partition
                for turn in range(2)
            ],
            schema={"key": pl.String, "turn": pl.Int32, "split": pl.String},
            orient="row",
        )
        for partition in range(6)
    }
    counts = [one for number, frame in turns.items() for one in dialogue_counts(number, frame)]
    numbered = pl.concat(
        with_dialogue_ids(frame, offsets_of(number, counts)) for number, frame in turns.items()
    )
    for split in schema.SPLITS:
        ids = numbered.filter(split=split)["dialogue_id"].to_list()
        assert ids == sorted(ids)
        assert sorted(set(ids)) == list(range(len(ids) // 2))


@pytest.fixture
def authorship() -> Authorship:
    return Authorship(
        load_prompts(PROMPTS),
        annotator_salt="pepper",
        extra_bodies={"a-model": '{"min_p": 0.5}', "other": "{}"},
    )


def published(make_turns: MakeTurns, authorship: Authorship) -> dict[str, pl.DataFrame]:
    turns = with_dialogue_ids(make_turns(1, rows=2), offsets_of(0, []))
    prompt = authorship.prompts["utterance"].id
    key = turns["key"][0]
    frames = {name: pl.DataFrame(schema=dict(SCHEMAS[name])) for name in ("rejected", "dead")}
    frames["rejected"] = pl.DataFrame(
        [
            ("annotation", "duplicate_vote", "worker 9", "annotator"),
            ("annotation", "unknown_label", "worker 9", "vote"),
            ("seed_row", "blank_situation", "worker 9", "annotator"),
        ],
        schema=["unit", "rule", "value", "field"],
        orient="row",
    ).select(
        pl.col(name)
        if name in ("unit", "rule", "value", "field")
        else pl.lit(None, kind).alias(name)
        for name, kind in SCHEMAS["rejected"].items()
    )
    frames["waiting"] = pl.DataFrame(schema=dict(SCHEMAS["waiting"]))
    frames["utterances"] = pl.DataFrame(
        [
            (key, 0, "context", "model", None, prompt, "aa", "a-model", "Raw.", "Raw.", False),
            (
                key,
                0,
                "response",
                "crowd",
                "worker 9",
                prompt,
                "bb",
                "other",
                "Why?",
                "Why so?",
                True,
            ),
            (key, 1, "context", "seed", None, None, None, None, "Post.", "Post.", False),
        ],
        schema=dict(UTTERANCES),
        orient="row",
    )
    frames["votes"] = pl.DataFrame(
        [
            (key, 1, "worker 9", "crowd", "casual", "Fine.", None, None, None),
            (key, 0, "worker 9", "crowd", "needs caution", "Rude.", None, None, None),
        ],
        schema=dict(VOTES),
        orient="row",
    )
    return configurations(turns, frames, authorship)


def test_every_configuration_has_its_published_schema(
    make_turns: MakeTurns, authorship: Authorship
) -> None:
    rows = published(make_turns, authorship)
    for name, published_schema in schema.CONFIGURATIONS.items():
        assert to_table(rows[name], published_schema).schema.equals(published_schema)


def test_provenance_names_model_prompt_and_sampling_of_what_was_drafted(
    make_turns: MakeTurns, authorship: Authorship
) -> None:
    provenance = published(make_turns, authorship)["provenance"]
    drafted, edited, seed = provenance.iter_rows(named=True)
    prompt = authorship.prompts["utterance"]
    assert (drafted["model"], drafted["prompt_id"]) == ("a-model", prompt.id)
    assert drafted["prompt_hash"] == prompt.hash
    assert json.loads(drafted["sampling"]) == {**prompt.sampling.parameters(), "min_p": 0.5}
    assert (edited["model"], edited["edited"], edited["raw_text"]) == ("other", True, "Why?")
    assert json.loads(edited["sampling"]) == prompt.sampling.parameters()
    assert (seed["model"], seed["prompt_id"], seed["sampling"]) == (None, None, None)


def test_annotators_are_hashed_with_the_salt_alike_everywhere(
    make_turns: MakeTurns, authorship: Authorship
) -> None:
    rows = published(make_turns, authorship)
    hashes = set(rows["annotations"]["annotator"]) | set(
        rows["provenance"]["annotator"].drop_nulls()
    )
    assert len(hashes) == 1
    assert "worker" not in next(iter(hashes))
    other = published(make_turns, replace(authorship, annotator_salt="salt"))
    assert hashes.isdisjoint(other["annotations"]["annotator"])


def test_an_annotators_id_is_hashed_among_rejects_too(
    make_turns: MakeTurns, authorship: Authorship
) -> None:
    rows = published(make_turns, authorship)
    (hashed,) = set(rows["annotations"]["annotator"])
    values = rows["rejected"].select("rule", "value").rows()
    assert sorted(values) == [
        ("blank_situation", "worker 9"),
        ("duplicate_vote", hashed),
        ("unknown_label", "worker 9"),
    ]


def test_votes_stand_in_the_order_of_turns(make_turns: MakeTurns, authorship: Authorship) -> None:
    annotations = published(make_turns, authorship)["annotations"]
    assert annotations["response_id"].to_list() == [0, 1]
    assert annotations["vote"].to_list() == ["needs caution", "casual"]
