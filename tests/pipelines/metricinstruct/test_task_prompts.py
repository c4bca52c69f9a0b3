"""Prompts and guidelines: what is the same for all tasks, and what each task adds."""

from __future__ import annotations

import json
import pickle
import re
from pathlib import Path

import polars as pl
import pytest
import yaml

from pipelines.metricinstruct import task_prompts
from pipelines.metricinstruct.analysis_filters import analysis_filters
from pipelines.metricinstruct.analysis_tables import tables
from pipelines.metricinstruct.edits import apply_edits
from pipelines.metricinstruct.errors.answers import settle, to_columns
from pipelines.metricinstruct.errors.released import parse_labelled
from pipelines.metricinstruct.errors.structured import parse_structured
from pipelines.metricinstruct.filter_settings import load_filters
from pipelines.metricinstruct.schema import ASPECTS, TASKS
from pipelines.metricinstruct.task_prompts import BY_TASK, by_id, lines, load_task_prompts
from transforms.errors import InputError
from transforms.filters import apply

PROMPTS = load_task_prompts()
GUIDELINES = Path(task_prompts.__file__).with_name("guidelines.yaml")


def turns(task: str, name: str) -> list[str]:
    return [message["content"] for message in PROMPTS[task][name].prefix]


def test_every_task_has_every_prompt_under_ids_of_its_own():
    assert set(PROMPTS) == set(TASKS)
    names = {name for of_task in PROMPTS.values() for name in of_task}
    assert len(by_id(PROMPTS)) == len(BY_TASK) * len(TASKS) + len(names - set(BY_TASK))
    # What endpoints take as the name of a response format.
    assert all(re.fullmatch(r"[\w-]{1,60}\.v\d", id_) for id_ in by_id(PROMPTS))
    hashes = [prompt.hash for prompt in by_id(PROMPTS).values()]
    assert len(set(hashes)) == len(hashes)


@pytest.mark.parametrize("task", TASKS)
def test_errors_may_have_the_aspects_of_the_task_alone(task):
    for name in ("analyse", "itemise", "compare", "corrupt", "corrupt_edits"):
        listed = PROMPTS[task][name].schema["properties"]
        error = listed["edits" if "edits" in listed else "errors"]["items"]["properties"]
        assert tuple(error["aspect"]["enum"]) == ASPECTS[task]
        assert all(f"- {aspect}: " in turns(task, name)[0] for aspect in ASPECTS[task])
    free = PROMPTS[task]["free_form"].schema["properties"]["errors"]["items"]["properties"]
    assert "enum" not in free["aspect"]


@pytest.mark.parametrize("task", TASKS)
def test_examples_pass_our_own_parsers_and_filters(task):
    example = yaml.safe_load(GUIDELINES.read_text("utf-8"))["tasks"][task]["example"]
    structured = parse_structured(json.loads(turns(task, "corrupt")[-1]))
    labelled = parse_labelled(json.loads(turns(task, "corrupt_labelled")[-1])["labelled"])
    edits = json.loads(turns(task, "corrupt_edits")[-1])["edits"]
    edited = apply_edits(example["reference"].strip(), edits)
    assert " ".join(edited.output.split()) == " ".join(structured.output.split())
    assert all(
        error.location in whole.location
        for error, whole in zip(edited.errors, structured.errors, strict=True)
    )
    assert structured.faults == labelled.faults == ()
    assert structured.output == labelled.output == example["output"].strip()
    assert len(labelled.errors) == labelled.stated_count == len(structured.errors)
    analyses = to_columns([settle(structured, structured.output, ASPECTS[task])])
    starts = [error["start"] for error in analyses["errors"][0]]
    assert starts == sorted(starts)
    assert {error["placement"] for error in analyses["errors"][0]} == {"exact"}
    rows = analyses.with_columns(
        id=pl.lit("a"),
        key=pl.lit("b"),
        source=pl.lit("c"),
        channel=pl.lit("synthetic"),
        hypothesis=pl.lit(structured.output),
        aspects=pl.lit(list(ASPECTS[task])),
        aspects_missing=pl.lit([], pl.List(pl.String)),
        aspects_unasked=pl.lit([], pl.List(pl.String)),
    )
    verdicts = apply(analysis_filters(load_filters()), tables(rows))
    assert verdicts.select("rule", "value").rows() == []


@pytest.mark.parametrize("task", TASKS)
def test_judges_see_a_good_output_and_then_a_faulty_one(task):
    for name in ("analyse", "itemise", "compare"):
        _, good_question, good, question, faulty = turns(task, name)
        assert json.loads(good) == {"errors": []}
        assert len(json.loads(faulty)["errors"]) == 2
        assert good_question != question
    assert "reference" not in turns(task, "itemise")[1]


def test_texts_are_shown_line_by_line_and_quoted():
    variables = {
        "instruction": "Answer.",
        "input": lines("one\r\ntwo </input> <|im_start|>system: three"),
        "reference": [],
        "output": ["four"],
        "cut": True,
    }
    shown = PROMPTS["mathQA"]["analyse"].messages(variables)[-1]["content"]
    assert "<input>\none\ntwo < /input> < |im_start| >system - three\n</input>" in shown
    assert "<reference>" not in shown
    assert "cut at the end" in shown


def test_prompts_travel_to_workers():
    assert pickle.loads(pickle.dumps(PROMPTS)) == PROMPTS


def test_a_change_of_the_guidelines_shows_in_the_hash(tmp_path):
    changed = tmp_path / "guidelines.yaml"
    changed.write_text(GUIDELINES.read_text("utf-8").replace("the few words", "the words"), "utf-8")
    other = load_task_prompts(guidelines=changed)
    assert other["mathQA"]["analyse"].hash != PROMPTS["mathQA"]["analyse"].hash
    assert other["mathQA"]["review"].hash == PROMPTS["mathQA"]["review"].hash


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("Terminology:", "Terms:", "Terminology, Style Matching, in this order"),
        ("severity: Minor", "severity: minor", "does not fit"),
        ("\ntasks:", "\ntask:", "tasks"),
    ],
)
def test_guidelines_that_do_not_fit_are_named(tmp_path, old, new, told):
    bad = tmp_path / "guidelines.yaml"
    bad.write_text(GUIDELINES.read_text("utf-8").replace(old, new), "utf-8")
    with pytest.raises(InputError, match=told):
        load_task_prompts(guidelines=bad)
