"""A partition's chosen examples to rows and back: nothing is lost, and everything is said."""

from __future__ import annotations

import asyncio
import pickle
from dataclasses import replace

import polars as pl
import pytest

from pipelines.metricinstruct.corruption import CorruptionSettings
from pipelines.metricinstruct.drafting import DraftAnalyses, DraftSettings
from pipelines.metricinstruct.drafts import ANALYSED, UNFINISHED, VERDICTS
from pipelines.metricinstruct.examples import LABELLED
from pipelines.metricinstruct.lengths import Lengths
from pipelines.metricinstruct.schema import REJECTED, SYNTHETIC
from pipelines.metricinstruct.sources.source import output_id
from pipelines.metricinstruct.task_prompts import load_task_prompts
from tests.pipelines.metricinstruct.scripted_caller import (
    OUTPUT,
    REFERENCE,
    SOURCE,
    ScriptedCaller,
    chosen_rows,
)
from transforms.errors import OptionError
from transforms.frames import polars_schema
from transforms.llm.calls import CallClass

PROMPTS = load_task_prompts()
CORRUPT_ALL = CorruptionSettings(reference_share=0, paraphrase_share=0)


def run(
    chosen: pl.DataFrame,
    settings: DraftSettings | None = None,
    caller: ScriptedCaller | None = None,
) -> dict[str, pl.DataFrame]:
    work = DraftAnalyses(PROMPTS, settings or DraftSettings(corruption=CORRUPT_ALL))
    frames = {"chosen": chosen}

    async def drafts():
        call = caller or ScriptedCaller()
        return [await work.work(item, call) for item in work.items(frames)]

    made = work.finish(frames, asyncio.run(drafts()))
    assert {name: dict(frame.schema) for name, frame in made.items()} == {
        "analyses": ANALYSED,
        "verdicts": VERDICTS,
        "unfinished": UNFINISHED,
        "rejected": polars_schema(REJECTED),
    }
    ended = [made[name].height for name in ("analyses", "unfinished", "rejected")]
    assert sum(ended) == chosen.height
    return made


def test_nothing_in_gives_empty_frames():
    assert {frame.height for frame in run(chosen_rows()).values()} == {0}


def test_a_row_says_how_it_was_made():
    made = run(chosen_rows({}))
    (row,) = made["analyses"].rows(named=True)
    assert row["id"] == output_id(row["key"], SOURCE, OUTPUT)
    assert row["example_id"] == "0" * 16
    assert (row["channel"], row["kind"], row["form"]) == ("real", "real", "structured")
    assert row["aspects_asked"] is None
    assert (row["aspects_missing"], row["aspects_unasked"]) == ([], [])
    assert row["prompts"] == ["review-translation.v1", "itemise-translation.v1"]
    assert len(row["requests"]) == 2
    assert row["errors"][0]["location"] == "ten"
    assert row["truncated"] == []


def test_what_was_asked_is_compared_with_what_came():
    rows = [{"channel": SYNTHETIC, "id": f"{n:016x}"} for n in range(12)]
    caller = ScriptedCaller(
        lambda name, variables: {
            "output": f"{OUTPUT} {variables['aspects']}",
            "errors": [
                {
                    "location": "ten",
                    "context": "",
                    "suggestion": "nine",
                    "explanation": "The source says nine o'clock and not ten.",
                    "aspect": "Fluency",
                    "severity": "Minor",
                    "score_reduction": 1,
                }
            ],
        }
    )
    made = run(chosen_rows(*rows), caller=caller)["analyses"]
    assert made.height > 4
    for asked, missing, unasked in made.select(
        "aspects_asked", "aspects_missing", "aspects_unasked"
    ).iter_rows():
        assert missing == [aspect for aspect in asked if aspect != "Fluency"]
        assert unasked == ([] if "Fluency" in asked else ["Fluency"])


@pytest.mark.parametrize("error_class", list(CallClass)[1:])
def test_a_failed_call_leaves_a_dead_example(error_class):
    caller = ScriptedCaller(lambda name, _: error_class if name == "itemise" else None)
    made = run(chosen_rows({}), caller=caller)
    (row,) = made["unfinished"].rows(named=True)
    assert row == {
        "id": "0" * 16,
        "key": "0" * 32,
        "channel": "real",
        "task": "translation",
        "source": "wmt_mqm",
        "step": "itemise-translation.v1",
        "error_class": error_class.value,
        "transient": error_class.transient,
        "detail": "scripted",
        "request": "itemise-translation.v1-0",
        "attempts": 2,
    }


def test_what_cannot_be_a_row_is_rejected_with_its_rule():
    unchanged = {"output": REFERENCE, "errors": [an_error()]}
    chosen = chosen_rows(
        {"channel": SYNTHETIC, "references": []},
        {"channel": SYNTHETIC, "references": None},
        {"channel": SYNTHETIC, "input_context": "unchanged"},
    )
    rejected = run(chosen, caller=ScriptedCaller(lambda name, _: unchanged))["rejected"]
    assert rejected["rule"].to_list() == ["no_reference", "no_reference", "unchanged_output"]
    assert rejected["unit"].unique().to_list() == ["analysis"]
    assert rejected["item"].to_list() == chosen["item"].to_list()
    assert rejected["text"].to_list() == [None, None, REFERENCE]
    assert rejected["outcome"].unique().to_list() == ["rejected"]


def test_an_answer_without_an_output_is_rejected():
    settings = DraftSettings(corruption=replace(CORRUPT_ALL, form=LABELLED))
    caller = ScriptedCaller(
        lambda name, _: {"labelled": "There is an output with one error in it, somewhere."}
    )
    rejected = run(chosen_rows({"channel": SYNTHETIC}), settings, caller)["rejected"]
    assert rejected["rule"].to_list() == ["no_output"]
    assert rejected["text"].to_list() == [None]


def an_error():
    return {
        "location": "nine",
        "context": "",
        "suggestion": "ten",
        "explanation": "The source says ten o'clock and not nine.",
        "aspect": "Accuracy",
        "severity": "Major",
        "score_reduction": 3,
    }


def test_of_the_same_output_in_both_channels_the_systems_own_stays():
    made_rows = {"channel": SYNTHETIC, "key": "0" * 32}
    made = run(chosen_rows(made_rows, {"key": "0" * 32}, made_rows))
    assert made["analyses"]["kind"].to_list() == ["real"]
    assert made["rejected"]["rule"].to_list() == ["duplicate_id"] * 2
    assert made["rejected"]["outcome"].to_list() == ["duplicate"] * 2
    assert made["rejected"]["value"].to_list() == made["analyses"]["id"].to_list() * 2


def test_long_texts_are_cut_and_the_row_holds_what_the_model_saw():
    changes = {"input_context": "word " * 60, "hypothesis": f"{OUTPUT} {'more ' * 60}"}
    long = chosen_rows({**changes, "instruction": "do it " * 40})
    caller = ScriptedCaller()
    settings = DraftSettings(lengths=Lengths(inputs={}, input=20, output=20))
    (row,) = run(long, settings, caller)["analyses"].rows(named=True)
    assert row["truncated"] == ["instruction", "input_context", "hypothesis"]
    assert row["id"] == output_id(row["key"], row["input_context"], row["hypothesis"])
    assert row["input_context"] == ("word " * 16).strip()
    assert len(row["hypothesis"]) <= 80
    assert all("cut at the end" in text for _, text in caller.calls)


@pytest.mark.parametrize(("mode", "left"), [("off", 2), ("record", 2), ("drop", 1)])
def test_verdicts_are_recorded_and_may_drop_rows(mode, left):
    def script(name, variables):
        if name == "verify_fix":
            return {"reason": "They say the same thing.", "better": "same"}
        if name == "analyse" and "good" in variables["output"][0]:
            return {"errors": []}
        return None

    chosen = chosen_rows({}, {"hypothesis": "A good one."})
    settings = DraftSettings("one_step", verification=mode)
    made = run(chosen, settings, ScriptedCaller(script))
    assert made["analyses"].height == left
    outcomes = {"off": [], "record": ["same", "yes", "yes"], "drop": ["yes"]}[mode]
    assert made["verdicts"]["outcome"].to_list() == outcomes
    if mode != "off":
        assert set(made["analyses"]["id"]) == set(made["verdicts"]["id"])
    if mode == "drop":
        assert made["rejected"].select("rule", "value").rows() == [
            ("fix_not_better", "error 1: same")
        ]


@pytest.mark.parametrize("mode", ["record", "drop"])
def test_verdicts_of_a_rejected_draft_are_not_those_of_the_one_that_stays(mode):
    def script(name, variables):
        if name == "verify_fix":  # of the made output, whose fix is another one
            return {"reason": "It is no better.", "better": "same"}
        return {"errors": []} if name == "itemise" else None

    made_row = {"channel": SYNTHETIC, "key": "0" * 32}
    settings = DraftSettings(corruption=CORRUPT_ALL, verification=mode)
    made = run(chosen_rows(made_row, {"key": "0" * 32}), settings, ScriptedCaller(script))
    assert made["analyses"]["kind"].to_list() == ["real"]
    assert made["rejected"]["rule"].to_list() == [
        "duplicate_id" if mode == "record" else "fix_not_better"
    ]
    assert made["verdicts"].select("check", "outcome").rows() == [("analysis", "yes")]


def test_work_is_picklable():
    work = DraftAnalyses(PROMPTS, DraftSettings())
    assert pickle.loads(pickle.dumps(work)) == work


@pytest.mark.parametrize("values", [{"analysis": "three_step"}, {"verification": "maybe"}])
def test_settings_are_checked(values):
    with pytest.raises(OptionError, match="known are"):
        DraftSettings(**values)
