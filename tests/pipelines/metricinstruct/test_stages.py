from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import settings as limits
from hypothesis import strategies as st

from pipelines.metricinstruct import stages
from pipelines.metricinstruct.choice import ChoiceSettings
from pipelines.metricinstruct.drafting import DraftAnalyses, DraftSettings
from pipelines.metricinstruct.filter_settings import load_filters
from pipelines.metricinstruct.profiles import PROFILES, count_profiles
from pipelines.metricinstruct.publication import STAGES
from pipelines.metricinstruct.schema import (
    CHOSEN,
    INSTRUCTION_FOLLOWING,
    REAL,
    SYNTHETIC,
    TRANSLATION,
)
from pipelines.metricinstruct.selection import SelectionSettings
from pipelines.metricinstruct.sources.source import output_id, source_key
from pipelines.metricinstruct.stage_frames import SCHEMAS, named
from pipelines.metricinstruct.stages import finish_partition
from pipelines.metricinstruct.task_prompts import load_task_prompts
from tests.pipelines.metricinstruct.scripted_caller import ERROR, ScriptedCaller
from transforms.ledger import build_ledger, count_in
from transforms.llm.calls import CallClass
from transforms.partitions import Frames


def test_frames_have_their_schemas_after_every_stage(
    chosen: Frames, drafted: Frames, filtered: Frames, finished: Frames
) -> None:
    for frames in (chosen, drafted, filtered, finished):
        for name, frame in frames.items():
            if name != "rows":
                assert dict(frame.schema) == dict(
                    pl.DataFrame(schema=dict(SCHEMAS[name])).schema
                ), name


def test_the_ledger_of_the_samples_closes_and_knows_every_outcome(finished: Frames) -> None:
    ledger = build_ledger(finished["counts"], STAGES)
    assert ledger["closes"]
    assert list(ledger["stages"]) == list(STAGES)
    stages_ = ledger["stages"]
    assert stages_["examples"]["reasons"]["rejected"]["not_chosen"] > 5
    assert stages_["analyses"]["out"]["published"] == finished["rows"].height
    assert stages_["errors"]["out"]["rejected"] > 0
    assert stages_["human_annotations"]["out"] == {
        "not_published": stages_["human_annotations"]["in"] - finished["human_errors"].height,
        "published": finished["human_errors"].height,
    }


@pytest.mark.parametrize("name", ["rejected", "analyses", "removed", "dead", "waiting"])
def test_a_lost_row_keeps_the_ledger_open(filtered: Frames, name: str) -> None:
    lost = {**filtered, name: named(filtered, name)[1:]}
    ledger = build_ledger(finish_partition(lost, 1.0)["counts"], STAGES)
    assert ledger["closes"] == (named(filtered, name).height == 0)


def test_an_analysis_lost_while_drafting_keeps_the_ledger_open(drafted: Frames) -> None:
    lost = {**drafted, "analyses": drafted["analyses"][1:]}
    none = pl.DataFrame(schema=dict(PROFILES))
    filtered = stages.filter_analyses(lost, none, load_filters())
    ledger = build_ledger(finish_partition(filtered, 1.0)["counts"], STAGES)
    assert not ledger["stages"]["analyses"]["closes"]


def test_an_input_stands_in_one_split_and_evaluation_sets_stay_whole() -> None:
    columns = {"key": ["a", "a", "a", "b", "b", "c", "d"]}
    splits = ["train", None, "test", "train", "validation", None, "train"]
    frame = pl.DataFrame({**columns, "split": splits})
    assert stages._one_split(frame)["split"].to_list() == [
        *("test", "test", "test", "validation", "validation", "train", "train")
    ]


def test_a_partition_without_rows_comes_through(chosen: Frames) -> None:
    nothing = stages.choose_examples({}, ChoiceSettings(), [])
    selected = stages.select_examples(nothing, None, None)  # type: ignore[arg-type]
    drafted = {
        name: pl.DataFrame(schema=dict(SCHEMAS[name]))
        for name in ("analyses", "verdicts", "unfinished", "rejected")
    }
    settled = stages.settle_drafts(selected, drafted)
    none = pl.DataFrame(schema=dict(PROFILES))
    filtered = stages.filter_analyses(settled, none, load_filters())
    finished = finish_partition(filtered, 1.0)
    assert finished["rows"].height == 0
    assert set(CHOSEN) - {"id", "systems"} <= set(chosen["chosen"].columns)
    assert build_ledger(finished["counts"], STAGES)["closes"]


@pytest.mark.parametrize(
    ("level", "stays", "seen"), [("error", 1, 1), ("warning", 2, 1), ("off", 2, 0)]
)
def test_the_level_of_near_duplicate_decides_what_goes(
    drafted: Frames, level: str, stays: int, seen: int
) -> None:
    usual = load_filters()
    off = {
        name: getattr(usual, name).model_copy(update={"level": "off"})
        for name in type(usual).model_fields
    }
    near = usual.near_duplicate.model_copy(update={"level": level})
    settings = usual.model_copy(update={**off, "near_duplicate": near})
    one = drafted["analyses"].head(1)
    alike = pl.concat([one.with_columns(id=pl.lit(digit * 16)) for digit in "ab"])
    none = pl.DataFrame(schema=dict(PROFILES))
    filtered = stages.filter_analyses({**drafted, "analyses": alike}, none, settings)
    assert filtered["analyses"].height == stays
    rejected = named(filtered, "rejected").filter(rule="near_duplicate")
    assert rejected.height == 2 - stays
    last = filtered["funnel"].row(-1, named=True)
    assert (last["rule"], last["level"], last["turns"]) == ("near_duplicate", level, seen)
    assert filtered["funnel"]["position"].is_sorted()


def test_rejects_of_analyses_say_where_they_come_from(finished: Frames) -> None:
    rejected = finished["rejected"].filter(pl.col("unit") == "analysis")
    assert rejected.height > 3
    for name in ("rule", "key", "channel", "task", "source", "split", "item", "file", "line"):
        assert rejected[name].null_count() == 0, name
    assert (rejected.filter(pl.col("channel") == "real")["system"].null_count()) == 0


CORRUPTED = "The shop opens at ten."
PROMPTS = load_task_prompts()
SENTIMENT = ("Classify the sentiment.", "What is the sentiment of the sentence?")


def an_example(**changes: Any) -> dict[str, Any]:
    """Return an example of instruction following that stands in a line of its own."""
    row: dict[str, Any] = dict.fromkeys(SCHEMAS["examples"])
    row |= {"channel": SYNTHETIC, "task": INSTRUCTION_FOLLOWING, "source": "dolly"}
    row |= {"instruction": SENTIMENT[0], "input_context": "What a day!", "references": ["Good."]}
    row |= {"file": "dolly.jsonl", "line": 1, "input_rows": 1, **changes}
    if row["channel"] == REAL:
        row |= {"hypothesis": "".join(row["references"][:1]) or "No idea.", "system": "alder"}
    key = source_key(row["task"], row["instruction"], row["input_context"])
    return row | {"key": key, "item": key[:16]}


def run_partition(examples: Sequence[dict[str, Any]], answers: Callable[[str, Any], Any]) -> Frames:
    """Return the finished frames of a partition of ``examples``, every output annotated once."""
    frame = pl.DataFrame(list(examples), schema=dict(SCHEMAS["examples"]))
    annotated = [
        {name: row.get(name) for name in SCHEMAS["human_errors"]}
        | {"id": output_id(row["key"], row["input_context"], row["hypothesis"])}
        | {"annotator": "ada", "category": "Accuracy", "severity": "Major"}
        for row in examples
        if row["channel"] == REAL
    ]
    human = pl.DataFrame(annotated, schema=dict(SCHEMAS["human_errors"]))
    counts = [
        count_in("input_rows", int(frame["input_rows"].sum())),
        count_in("examples", frame.height),
        count_in("human_annotations", human.height),
    ]
    read = {"examples": frame, "human_errors": human, "counts": pl.concat(counts)}
    chosen = stages.choose_examples(read, ChoiceSettings({}), [])
    chosen = stages.select_examples(chosen, None, SelectionSettings(ChoiceSettings({}), {}))
    work = stages.AnalyseExamples(DraftAnalyses(PROMPTS, DraftSettings(verification="drop")))

    async def drafts() -> list[Any]:
        call = ScriptedCaller(answers)
        return [await work.work(item, call) for item in work.items((0, chosen))]

    ((_, drafted),) = work.finish((0, chosen), asyncio.run(drafts()), {})
    profiles = count_profiles(drafted["analyses"])
    return finish_partition(stages.filter_analyses(drafted, profiles, load_filters()), 0.5)


def script(failing: str | None) -> Callable[[str, Any], Any]:
    """Answer with an error of an aspect that every task has; one step's calls fail."""

    def answer(name: str, _: Any) -> Any:
        if name == failing:
            return CallClass.SERVER
        if name == "corrupt":
            return {"output": CORRUPTED, "errors": [ERROR]}
        return None

    return answer


@pytest.mark.parametrize("channel", [REAL, SYNTHETIC])
@pytest.mark.parametrize("failing", [None, "review", "corrupt"])
def test_one_text_and_answer_under_two_instructions_are_two_examples(
    channel: str, failing: str | None
) -> None:
    rows = [
        an_example(channel=channel, instruction=instruction, line=line)
        for line, instruction in enumerate(SENTIMENT, 1)
    ]
    finished = run_partition(rows, script(failing))
    ended = [finished[name]["key"] for name in ("rows", "rejected", "dead", "waiting")]
    assert sorted(pl.concat(ended)) == sorted(row["key"] for row in rows)
    assert finished["rows"]["id"].n_unique() == finished["rows"].height
    assert build_ledger(finished["counts"], STAGES)["closes"]


EXAMPLES = st.fixed_dictionaries(
    {
        "channel": st.sampled_from([REAL, SYNTHETIC]),
        "task": st.sampled_from([INSTRUCTION_FOLLOWING, TRANSLATION]),
        "source": st.sampled_from(["one", "two"]),
        "instruction": st.sampled_from([*SENTIMENT, SENTIMENT[0].upper()]),
        "input_context": st.sampled_from(["What a day!", "what a  day!", ""]),
        "references": st.sampled_from([["Good."], [CORRUPTED], []]),
        "line": st.integers(1, 3),
        "input_rows": st.integers(0, 2),
    }
)


@limits(deadline=None, max_examples=60)
@given(
    st.lists(EXAMPLES, max_size=9),
    st.sampled_from([None, "review", "corrupt", "verify_fix"]),
)
def test_the_ledger_closes_whatever_rows_come(rows: list[dict[str, Any]], failing: Any) -> None:
    finished = run_partition([an_example(**row) for row in rows], script(failing))
    ledger = build_ledger(finished["counts"], STAGES)
    assert {name for name, stage in ledger["stages"].items() if not stage["closes"]} == set()
    assert finished["rows"]["id"].n_unique() == finished["rows"].height
    verdicts = finished["verdicts"].select("id", "check", "error")
    assert not verdicts.is_duplicated().any()
