from __future__ import annotations

from collections.abc import Callable
from typing import Any

import polars as pl
import pytest

from pipelines.prosocial import schema
from pipelines.prosocial.filter_settings import FilterSettings, load_filters
from pipelines.prosocial.filters import filter_turns, prosocial_filters
from transforms.ledger import build_ledger

Make = Callable[..., pl.DataFrame]
SETTINGS = load_filters()
LOOP = "I just do not care about it, " * 4
COPY = "I am going to read my sister's diary tonight!"


def failing(turns: pl.DataFrame, settings: FilterSettings = SETTINGS) -> set[str]:
    counted = filter_turns(turns, settings).funnel
    return set(counted.filter(pl.col("turns") > 0)["rule"])


def test_a_sound_dialogue_passes(make_turns: Make) -> None:
    turns = pl.concat([make_turns(1), make_turns(2, rows=2)])
    filtered = filter_turns(turns, SETTINGS)
    assert filtered.turns.equals(turns)
    assert filtered.rejected.is_empty()
    assert failing(turns) == set()


def test_every_setting_has_its_filter_in_the_files_order() -> None:
    names = [rule.name for rule in prosocial_filters(SETTINGS)]
    assert names == list(FilterSettings.model_fields)


@pytest.mark.parametrize(
    ("rule", "value", "changes"),
    [
        ("blank_utterance", "", {"context": " \n"}),
        ("blank_utterance", "", {"response": None}),
        ("blank_utterance", "", {"response": "\x1f \x1c"}),
        ("short_utterance", "1", {"context": "Yes!"}),
        ("long_utterance", "151", {"context": " ".join(f"w{n}" for n in range(151))}),
        ("short_response", "30", {"response": "Maybe ask her first, my friend"}),
        (
            "leaked_prompt",
            "Assistant:",
            {"response": "Assistant: You could ask her first, friend."},
        ),
        ("refusal", "As an AI", {"response": "As an AI I would rather ask her first, my friend."}),
        ("foreign_language", "de", {"context": "Ich will nicht mit dir reden und das ist gut."}),
        ("repeated_ngram", "i just do not", {"context": LOOP}),
        ("repeated_utterance", COPY, {"context": COPY}),
        (
            "personal_data",
            "email",
            {"response": "Do write to her at sis@example.org about it all."},
        ),
        ("missing_rot", schema.CAUTION, {"rots": None}),
        ("missing_rot", schema.POSSIBLY, {"rots": [], "safety_label": schema.POSSIBLY}),
        ("rot_form", "2 words", {"rots": ["It's wrong to pry into a diary.", "Be kind."]}),
        ("rot_form", "question", {"rots": ["Should you pry into a diary?"]}),
        ("rot_form", "3 sentences", {"rots": ["It's bad to pry. It is. It really is."]}),
        (
            "intervention_then_casual",
            "intervention at turn 0",
            {"safety_label": schema.CASUAL},
        ),
    ],
)
def test_each_filter_rejects_with_its_value(
    make_turns: Make, rule: str, value: str, changes: dict[str, Any]
) -> None:
    """The fault is put into turn 1, so it rejects; in turn 2 the same cuts the third row."""
    first = {"safety_label": schema.INTERVENTION} if rule == "intervention_then_casual" else {}
    early = filter_turns(make_turns(1, changes={0: first, 1: changes}), SETTINGS)
    assert early.turns.is_empty()
    dialogue = early.rejected.filter(unit="dialogue").row(0, named=True)
    assert (dialogue["rule"], dialogue["turn"], dialogue["outcome"]) == (rule, 1, "rejected")
    assert dialogue["value"].startswith(value)
    assert early.rejected.filter(unit="turn")["turn"].to_list() == [0, 1, 2]
    late = filter_turns(make_turns(1, changes={0: first, 2: changes}), SETTINGS)
    assert late.turns["turn"].to_list() == [0, 1]
    assert late.turns["episode_done"].to_list() == [False, True]
    assert late.rejected.select("unit", "rule", "turn").rows() == [("turn", rule, 2)]


def test_a_response_that_echoes_its_context(make_turns: Make) -> None:
    context = "She reads my messages, so I guess it is only fair."
    said = {
        1: {"context": context, "response": "so I guess it is only fair? She reads my messages"}
    }
    filtered = filter_turns(make_turns(1, changes=said), SETTINGS)
    row = filtered.rejected.filter(unit="dialogue").row(0, named=True)
    assert (row["rule"], row["field"], row["value"]) == ("echo", "response", "1.0")


def test_an_utterance_said_before_is_at_fault_where_it_is_repeated(make_turns: Make) -> None:
    again = make_turns(1)["context"][0].upper()
    filtered = filter_turns(make_turns(1, changes={2: {"response": again}}), SETTINGS)
    assert filtered.turns["turn"].to_list() == [0, 1]
    other = pl.concat([make_turns(1), make_turns(2)])  # in another dialogue it is none
    assert failing(other) == set()


def test_warnings_count_and_reject_nothing(make_turns: Make) -> None:
    turns = make_turns(
        1,
        changes={
            1: {"response": "No. Please stop. Think again. She is family, so ask her."},
            2: {"rots": ["Siblings share secrets."]},
        },
    )
    filtered = filter_turns(turns, SETTINGS)
    assert filtered.turns.equals(turns)
    assert failing(turns) == {"many_sentences", "rot_judgement"}


def test_drafted_questions_may_be_short(make_turns: Make) -> None:
    short = {"response": "Do you have a reason for this?"}
    assert failing(make_turns(1, changes={0: short})) == set()
    by_worker = {**short, "response_author": "crowd"}
    assert failing(make_turns(1, changes={0: by_worker})) == {"short_response"}


def test_a_post_that_is_the_seed_is_taken_as_it_is(make_turns: Make) -> None:
    post = {"source": schema.SBIC, "context": f"Q: why? A: As an AI I say {LOOP}"}
    assert failing(make_turns(1, changes={0: post})) == set()
    later = {turn: {"source": schema.SBIC} for turn in range(3)}
    later[1]["context"] = post["context"]
    assert failing(make_turns(1, changes=later)) == {"refusal", "repeated_ngram"}


def test_casual_rows_may_have_rots_or_none(make_turns: Make) -> None:
    casual = {"safety_label": schema.CASUAL}
    changes = {0: {**casual, "rots": None}, 1: casual, 2: {**casual, "rots": []}}
    assert failing(make_turns(1, changes=changes)) == set()


def test_intervention_may_follow_casual(make_turns: Make) -> None:
    changes = {0: {"safety_label": schema.CASUAL}, 1: {"safety_label": schema.INTERVENTION}}
    assert failing(make_turns(1, changes=changes)) == set()


def test_levels_decide_what_a_filter_does(make_turns: Make) -> None:
    turns = make_turns(1, changes={0: {"context": " ".join(f"w{n}" for n in range(151))}})
    for level, rejected in (("error", True), ("warning", False), ("off", False)):
        rule = SETTINGS.long_utterance.model_copy(update={"level": level})
        settings = SETTINGS.model_copy(update={"long_utterance": rule})
        assert filter_turns(turns, settings).turns.is_empty() == rejected
        assert ("long_utterance" in failing(turns, settings)) == (level != "off")


def test_all_filters_that_fail_are_counted_and_the_first_is_the_reason(make_turns: Make) -> None:
    bad = {"context": "Yes!", "response": "As an AI no", "rots": None}
    filtered = filter_turns(make_turns(1, changes={1: bad}), SETTINGS)
    assert filtered.rejected["rule"].unique().to_list() == ["short_utterance"]
    counted = filtered.funnel.filter(pl.col("turns") > 0)
    assert counted.select("rule", "turns", "first").rows() == [
        ("short_utterance", 1, 1),
        ("short_response", 1, 0),
        ("refusal", 1, 0),
        ("missing_rot", 1, 0),
    ]
    assert build_ledger(filtered.counts, ["filters.dialogues", "filters.turns"])["closes"]


def test_partitions_are_filtered_alike_alone_or_together(make_turns: Make) -> None:
    parts = [
        make_turns(1, changes={2: {"rots": None}}),
        make_turns(2),
        make_turns(3, changes={0: {"response": "As an AI I can say nothing about that, friend."}}),
    ]
    whole = filter_turns(pl.concat(parts[::-1]), SETTINGS)
    alone = [filter_turns(part, SETTINGS) for part in parts]
    assert whole.turns.equals(pl.concat([part.turns for part in alone]))
    assert whole.rejected.equals(pl.concat([part.rejected for part in alone]))


def test_no_turns_are_no_trouble(make_turns: Make) -> None:
    filtered = filter_turns(make_turns(1).clear(), SETTINGS)
    assert filtered.turns.is_empty()
    assert filtered.funnel["turns"].sum() == 0
