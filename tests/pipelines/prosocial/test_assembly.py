from __future__ import annotations

from collections.abc import Callable
from typing import Any

import polars as pl
import pytest

from pipelines.prosocial import schema
from pipelines.prosocial.assembly import UTTERANCES, VOTES, Assembly, assemble
from transforms.frames import polars_schema
from transforms.ledger import build_ledger, sum_counts

Key = Callable[[int], str]


class Case:
    """The frames of one partition, built dialogue by dialogue."""

    def __init__(self, key: Key) -> None:
        self.key = key
        self.rows: dict[str, list[dict[str, Any]]] = {
            name: [] for name in ("seeds", "drafts", "responses", "annotations", "unfinished")
        }

    def add(self, frame: str, number: int, **columns: Any) -> None:
        self.rows[frame].append({"key": self.key(number), **columns})

    def seed(self, number: int, rots: list[str] | None = None) -> None:
        self.add(
            "seeds",
            number,
            source="sbic",
            split="train",
            situation="reading a diary",
            etc="",
            rots=rots or [],
            file="seeds.csv",
            line=number,
            input_rows=3,
        )

    def drafted(self, number: int, turns: int) -> None:
        for turn in range(turns):
            self.add(
                "drafts",
                number,
                turn=turn,
                field="context",
                author="seed" if turn == 0 else "model",
                text=f"context {turn}",
                prompt=None if turn == 0 else "continuation.v1",
                request=None if turn == 0 else f"c{turn}",
            )
        self.add(
            "drafts",
            number,
            turn=0,
            field="response",
            author="model",
            text="question?",
            prompt="question.v1",
            request="q",
        )

    def response(self, number: int, turn: int, author: str = "crowd", **columns: Any) -> None:
        made = author == "model"
        row = {
            "turn": turn,
            "annotator": "w1",
            "response": f"response {turn}",
            "rots": ["It's rude to pry."],
            "candidates": [],
            "author": author,
            "prompt": "respond.v1" if made else None,
            "request": "r" if made else None,
            "file": None if made else "responses.jsonl",
            "line": None if made else turn + 1,
        }
        self.add("responses", number, **{**row, **columns})

    def votes(self, number: int, turn: int, votes: list[str], author: str = "crowd") -> None:
        for index, vote in enumerate(votes):
            self.add(
                "annotations",
                number,
                turn=turn,
                annotator=f"a{index}",
                vote=vote,
                reason=f"reason {index}",
                author=author,
                file="votes.jsonl",
                line=10 * turn + index,
            )

    def complete(self, number: int, turns: int = 3) -> None:
        self.seed(number)
        self.drafted(number, turns)
        for turn in range(1, turns):
            self.response(number, turn)
        for turn in range(turns):
            self.votes(number, turn, [schema.VOTE_CAUTION] * 3)

    def stop(self, number: int, **columns: Any) -> None:
        self.add("unfinished", number, **columns)

    def frames(self) -> dict[str, pl.DataFrame]:
        schemas = {
            "seeds": schema.SEEDS,
            "drafts": schema.DRAFTS,
            "responses": schema.RESPONSES,
            "annotations": schema.ANNOTATIONS,
            "unfinished": schema.UNFINISHED,
        }
        return {name: pl.DataFrame(rows, schema=schemas[name]) for name, rows in self.rows.items()}

    def assemble(self) -> Assembly:
        return assemble(**self.frames())


@pytest.fixture
def case(key: Key) -> Case:
    return Case(key)


def test_a_complete_dialogue_becomes_turns(case: Case) -> None:
    case.complete(1)
    assembly = case.assemble()
    turns = assembly.turns
    assert dict(turns.schema) == dict(pl.DataFrame(schema=schema.TURNS).schema)
    assert turns["context"].to_list() == ["context 0", "context 1", "context 2"]
    assert turns["response"].to_list() == ["question?", "response 1", "response 2"]
    assert turns["response_author"].to_list() == ["drafted", "crowd", "crowd"]
    assert turns["episode_done"].to_list() == [False, False, True]
    assert turns["safety_label"].to_list() == [schema.CAUTION] * 3
    assert (
        turns["safety_annotation_reasons"].to_list() == [["reason 0", "reason 1", "reason 2"]] * 3
    )
    assert turns["input_rows"].to_list() == [3, 3, 3]
    assert assembly.waiting.is_empty()
    assert assembly.dead.is_empty()


def test_turn_0_falls_back_to_the_rots_of_turn_1_alone(case: Case) -> None:
    case.complete(1)
    case.complete(2)
    case.rows["responses"][0]["rots"] = ["one"]
    case.rows["responses"][1]["rots"] = ["two"]
    case.rows["responses"][2]["rots"] = []
    case.rows["responses"][3]["rots"] = ["other"]
    assert case.assemble().turns["rots"].to_list() == [
        ["one"],
        ["one"],
        ["two"],
        None,
        None,
        ["other"],
    ]


def test_own_rots_of_turn_0_stand(case: Case) -> None:
    case.complete(1, turns=2)
    case.response(1, 0, response=None, rots=["own"])
    assert case.assemble().turns["rots"].to_list() == [["own"], ["It's rude to pry."]]


def test_edits_stand_in_turns_and_provenance_keeps_the_draft(case: Case) -> None:
    case.complete(1, turns=2)
    case.response(1, 0, context="context 0", response="question, edited?", annotator="w9")
    case.rows["responses"][0]["context"] = "context 1, edited"
    assembly = case.assemble()
    assert assembly.turns["context"].to_list() == ["context 0", "context 1, edited"]
    assert assembly.turns["response"].to_list() == ["question, edited?", "response 1"]
    assert assembly.turns["response_author"].to_list() == ["crowd", "crowd"]
    utterances = assembly.utterances
    assert dict(utterances.schema) == dict(pl.DataFrame(schema=dict(UTTERANCES)).schema)
    columns = ["turn", "field", "author", "annotator", "prompt", "raw_text", "text", "edited"]
    assert utterances.select(columns).rows() == [
        # The same words as drafted are no edit.
        (0, "context", "seed", None, None, "context 0", "context 0", False),
        (0, "response", "crowd", "w9", "question.v1", "question?", "question, edited?", True),
        (1, "context", "crowd", "w1", "continuation.v1", "context 1", "context 1, edited", True),
        (1, "response", "crowd", "w1", None, None, "response 1", False),
    ]


def test_a_response_of_the_model_says_so(case: Case) -> None:
    case.complete(1, turns=2)
    case.rows["responses"].clear()
    case.response(1, 1, author="model", annotator="m#1")
    assembly = case.assemble()
    assert assembly.turns["response_author"].to_list() == ["drafted", "model"]
    last = assembly.utterances.row(-1, named=True)
    assert (last["author"], last["annotator"]) == ("model as annotator", "m#1")
    assert (last["prompt"], last["request"], last["raw_text"]) == ("respond.v1", "r", None)


def test_votes_stand_by_annotator_whatever_their_files(case: Case) -> None:
    case.complete(1, turns=2)
    for row in case.rows["annotations"]:
        row["vote"] = schema.VOTE_CASUAL if row["annotator"] == "a2" else schema.VOTE_CAUTION
    forwards = case.assemble()
    case.rows["annotations"].reverse()
    for line, row in enumerate(case.rows["annotations"]):
        row.update(file="later.jsonl", line=line)
    backwards = case.assemble()
    assert forwards.turns.equals(backwards.turns)
    assert forwards.votes.equals(backwards.votes)
    assert forwards.turns["safety_annotations"].to_list()[0][2] == schema.VOTE_CASUAL
    assert dict(forwards.votes.schema) == dict(pl.DataFrame(schema=dict(VOTES)).schema)
    assert forwards.votes["annotator"].to_list() == ["a0", "a1", "a2"] * 2


def test_a_dialogue_waits_for_a_response_with_all_a_worker_needs(case: Case) -> None:
    case.seed(1, rots=["It's rude to pry."])
    case.drafted(1, turns=2)
    case.stop(1, turn=1, outcome="waiting", step="response", waits_for="response")
    waiting = case.assemble().waiting
    assert dict(waiting.schema) == polars_schema(schema.WAITING)
    assert waiting.row(0, named=True) == {
        "key": case.key(1),
        "waits_for": "response",
        "turn": 1,
        "have": 0,
        "need": 1,
        "source": "sbic",
        "split": "train",
        "situation": "reading a diary",
        "utterances": ["context 0", "question?", "context 1"],
        "rots": ["It's rude to pry."],
        "input_rows": 3,
    }


def test_model_made_candidates_are_shown_where_the_seed_has_none(case: Case) -> None:
    case.seed(1)
    case.drafted(1, turns=2)
    for rot in ("second comes first", "as made"):
        case.add("drafts", 1, turn=1, field="rot", author="model", text=rot, prompt="rots.v1")
    case.stop(1, turn=1, outcome="waiting", step="response", waits_for="response")
    assert case.assemble().waiting["rots"].to_list() == [["second comes first", "as made"]]


@pytest.mark.parametrize("said", [True, False])
def test_a_dialogue_waits_for_votes(case: Case, said: bool) -> None:
    case.complete(1)
    case.rows["annotations"] = [
        row for row in case.rows["annotations"] if row["turn"] < 1 or row["annotator"] == "a0"
    ]
    if said:  # by drafting; without it, assembly sees it by itself
        case.stop(1, turn=1, outcome="waiting", step="annotations", waits_for="annotations")
    assembly = case.assemble()
    assert assembly.turns.is_empty()
    row = assembly.waiting.row(0, named=True)
    assert (row["waits_for"], row["turn"], row["have"], row["need"]) == ("annotations", 1, 1, 3)
    assert len(row["utterances"]) == 6


def test_a_seed_of_which_nothing_is_known_waits_for_calls(case: Case) -> None:
    case.seed(1)
    assembly = case.assemble()
    row = assembly.waiting.row(0, named=True)
    assert (row["waits_for"], row["turn"], row["utterances"]) == ("call", 0, [])


def test_a_dead_dialogue_has_its_seed_and_rows(case: Case) -> None:
    case.complete(2)
    case.seed(1)
    case.stop(
        1,
        turn=0,
        outcome="dead",
        step="utterance.v1",
        error_class="refused",
        detail="refused",
        request="abc",
        attempts=2,
    )
    assembly = case.assemble()
    assert dict(assembly.dead.schema) == polars_schema(schema.DEAD)
    row = assembly.dead.row(0, named=True)
    assert row["ends_dialogue"]
    assert (row["request_hash"], row["input_rows"], row["situation"]) == (
        "abc",
        3,
        "reading a diary",
    )
    assert assembly.turns["key"].unique().to_list() == [case.key(2)]
    assert assembly.waiting.is_empty()


@pytest.mark.parametrize(
    ("error_class", "attempts"), [("refused", None), ("schema", None), ("server", 4), ("auth", 4)]
)
def test_only_attempts_that_can_be_made_again_are_counted(
    case: Case, error_class: str, attempts: int | None
) -> None:
    case.seed(1)
    case.stop(1, turn=0, outcome="dead", step="utterance.v1", error_class=error_class, attempts=4)
    assert case.assemble().dead["attempts"].to_list() == [attempts]


def test_a_cut_dialogue_is_complete_with_two_rows(case: Case) -> None:
    case.complete(1, turns=2)
    case.response(1, 2)  # the crowd had gone on; its context could not be drafted again
    case.stop(1, turn=2, outcome="dead", step="continuation.v1", error_class="content_filter")
    assembly = case.assemble()
    assert assembly.turns["episode_done"].to_list() == [False, True]
    row = assembly.dead.row(0, named=True)
    assert (row["ends_dialogue"], row["input_rows"]) == (False, 0)
    rejected = assembly.rejected.row(0, named=True)
    assert (rejected["rule"], rejected["unit"], rejected["turn"]) == (
        "turn_after_end",
        "response",
        2,
    )
    assert (rejected["file"], rejected["line"]) == ("responses.jsonl", 3)


def test_votes_after_the_end_are_rejected_one_by_one(case: Case) -> None:
    case.complete(1, turns=2)
    case.votes(1, 2, [schema.VOTE_CASUAL] * 2)
    rejected = case.assemble().rejected
    assert dict(rejected.schema) == polars_schema(schema.REJECTED)
    assert rejected["unit"].to_list() == ["annotation", "annotation"]
    assert rejected["text"].to_list() == ["reason 0", "reason 1"]


def test_counts_close_and_every_seed_ends_once(case: Case) -> None:
    case.complete(1)
    case.complete(2, turns=2)
    case.seed(3)
    case.stop(3, turn=0, outcome="dead", step="utterance.v1", error_class="timeout")
    case.seed(4)
    case.drafted(4, turns=2)
    case.stop(4, turn=1, outcome="waiting", step="response", waits_for="response")
    case.complete(5, turns=2)
    case.stop(5, turn=2, outcome="dead", step="continuation.v1", error_class="bad_json")
    assembly = case.assemble()
    ledger = build_ledger(sum_counts([assembly.counts]), ["assembly"])
    assert ledger["closes"]
    stage = ledger["stages"]["assembly"]
    assert (stage["in"], stage["out"]) == (5, {"complete": 3, "dead": 1, "waiting": 1})
    ended = pl.concat(
        [
            assembly.turns.select("key").unique(),
            assembly.dead.filter("ends_dialogue").select("key"),
            assembly.waiting.select("key"),
        ]
    )
    assert sorted(ended["key"]) == [case.key(number) for number in range(1, 6)]


def test_row_order_of_the_frames_never_matters(case: Case) -> None:
    for number in range(1, 6):
        case.complete(number, turns=2 + number % 2)
    frames = case.frames()
    shuffled = {
        name: frame.sample(fraction=1, shuffle=True, seed=7) for name, frame in frames.items()
    }
    straight, mixed = assemble(**frames), assemble(**shuffled)
    for name in ("turns", "utterances", "votes", "waiting", "dead", "rejected", "counts"):
        assert getattr(straight, name).equals(getattr(mixed, name)), name


def test_nothing_gives_frames_without_rows(case: Case) -> None:
    assembly = case.assemble()
    assert assembly.turns.is_empty()
    assert dict(assembly.waiting.schema) == polars_schema(schema.WAITING)
    assert dict(assembly.turns.schema) == dict(pl.DataFrame(schema=schema.TURNS).schema)
