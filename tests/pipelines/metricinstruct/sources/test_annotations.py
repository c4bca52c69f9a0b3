from __future__ import annotations

import json

import pytest

from pipelines.metricinstruct.schema import NO_ERROR
from transforms.errors import InputError

OUTPUT = "A mill was sold, a mill of stone."
XSUM = json.dumps({"document": "The mill was sold.", "summary": "A mill.", "id": "31"}) + "\n"
OUTPUTS = json.dumps({"id": 31, "system": "alder", "output": f"  {OUTPUT}"}) + "\n"


def judged(*errors, annotator="r1", item="31", system="alder"):
    row = {"id": item, "system": system, "annotator": annotator, "errors": list(errors)}
    return json.dumps(row) + "\n"


@pytest.fixture
def read(written, read_file):
    def read(text):
        return read_file(
            "xsum",
            written("test.jsonl", XSUM),
            outputs=(written("outputs.jsonl", OUTPUTS),),
            annotations=(written("ratings.jsonl", text),),
        )

    return read


def test_errors_of_several_annotators_become_rows_of_the_output(read):
    error = {"category": "Fluency", "severity": "minor", "start": 2, "end": 6, "text": "mill"}
    text = judged(error, annotator="r2") + judged(annotator="r1") + judged(item="9")
    errors = read(text)["human_errors"]
    assert errors.select("annotator", "category", "severity", "side", "start", "end").rows() == [
        ("r1", NO_ERROR, NO_ERROR, None, None, None),
        ("r2", "Fluency", "Minor", "output", 2, 6),
    ]
    assert errors["id"].n_unique() == 1
    assert set(errors["item"]) == {"31"}


@pytest.mark.parametrize(
    ("place", "found"),
    [
        ({"text": "sold"}, (11, 15, "sold")),
        ({"text": "mill"}, (None, None, "mill")),  # it stands twice
        ({"text": "gone"}, (None, None, "gone")),
        ({"start": 19, "end": 23}, (19, 23, "mill")),
        ({"start": 19, "end": 23, "text": "sold"}, (None, None, "sold")),
        ({"start": 30, "end": 99}, (None, None, None)),
        ({"start": 5, "end": 5}, (None, None, None)),
        ({}, (None, None, None)),
    ],
)
def test_an_error_has_a_place_where_its_offsets_or_its_words_tell_one(read, place, found):
    errors = read(judged({"category": "Accuracy", "weight": 2, **place}))["human_errors"]
    assert errors.select("start", "end", "text").row(0) == found
    assert errors["weight"].to_list() == [2]


@pytest.mark.parametrize("length", [1999, 2000, 2001, 5000])
def test_a_marked_text_has_its_place_whatever_its_length(written, read_file, length):
    text, comment = "x" * length, "y" * 5000
    outputs = json.dumps({"id": 31, "system": "alder", "output": f"A {text}."}) + "\n"
    row = judged({"category": "Fluency", "text": text, "comment": comment})
    frames = read_file(
        "xsum",
        written("test.jsonl", XSUM),
        outputs=(written("outputs.jsonl", outputs),),
        annotations=(written("ratings.jsonl", row),),
    )
    errors = frames["human_errors"].select("start", "end", "text", "comment")
    assert errors.rows() == [(2, 2 + length, text, comment)]


def test_weights_have_a_scale_of_their_own_and_no_error_has_one_name(read):
    nothing = {"category": "no-Error", "text": " ", "start": 0, "end": 0, "weight": ""}
    errors = read(judged({"category": "Fluency", "weight": 60, "start": ""}, nothing))
    assert errors["human_errors"].select("category", "weight", "text", "start").rows() == [
        ("Fluency", 60.0, None, None),
        (NO_ERROR, None, None, None),
    ]


def test_it_is_told_which_annotations_name_an_output_of_the_file(read):
    told = read(judged() + judged(item="32") + judged(system="birch"))["beside"]
    told = told.filter(unit="annotation").sort("line")
    assert told.select("line", "item", "system", "used").rows() == [
        (1, "31", "alder", True),
        (2, "32", "alder", False),
        (3, "31", "birch", False),
    ]
    assert json.loads(told["text"][1])["id"] == "32"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{\n", "line 1: annotations are objects of id"),
        ("[]\n", "line 1: annotations are objects of id"),
        ("[" * 100_000 + "\n", "line 1: annotations are objects of id"),
        (judged().replace('"errors"', '"id": "32", "errors"'), "id: duplicate_field"),
        (judged() + '{"id": "31", "system": "alder", "errors": []}\n', "line 2: .*annotator"),
        (judged({"severity": "Major"}), "category"),
        (judged({"category": "Fluency", "start": "2", "end": 6}), "start"),
        (judged({"category": "Fluency", "weight": -1}), "line 1: .*weight: negative"),
        (judged({"category": "Fluency", "weight": "much"}), "weight: not_a_number"),
        (judged({"category": "no-error", "text": "mill"}), "category: no_error_marks_text"),
        (judged({"category": "No-error", "start": 2, "end": 6}), "category: no_error_marks_text"),
        (judged() + judged(), "line 2: r1 has judged that output already"),
    ],
)
def test_annotations_of_another_form_are_refused(read, text, message):
    with pytest.raises(InputError, match=message):
        read(text)
