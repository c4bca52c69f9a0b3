from __future__ import annotations

import json

import pytest

from transforms.errors import InputError

ANNOTATED = {
    "model": "alder",
    "output": "The phone is heavy.",
    "human": {"annotator": "h1", "spans": [{"start": 13, "text": "heavy", "type": "incorrect"}]},
    "gpt4": [],
}


def lines(*places):
    return "".join(
        json.dumps({**ANNOTATED, "dataset": dataset, "table_idx": number}) + "\n"
        for dataset, number in places
    )


def test_rows_are_joined_with_the_input_at_their_number(written, read_file):
    phones = written("phones/test.json", json.dumps([{"weight": "90 g"}, {"weight": "80 g"}]))
    games = written("input_ice_games_test.json", json.dumps([{"score": [1, 2]}]))
    rows = written("rows.jsonl", lines(("phones", 1), ("ice_games", 0), ("phones", 0)))
    frames = read_file("quintd", rows, inputs=(phones, games))
    assert frames["examples"].select("item", "input_context").rows() == [
        ("phones/1", '{"weight": "80 g"}'),
        ("ice_games/0", '{"score": [1, 2]}'),
        ("phones/0", '{"weight": "90 g"}'),
    ]
    assert frames["examples"]["key"].n_unique() == 3
    assert frames["human_errors"]["annotator"].to_list() == ["h1", "model gpt-4"] * 3


def test_a_row_without_an_input_is_rejected_and_its_spans_stay(written, read_file):
    phones = written("phones.json", "[{}]")
    rows = written("rows.jsonl", lines(("phones", 1), ("games", 0), ("phones", -1), ("phones", 0)))
    frames = read_file("quintd", rows, inputs=(phones,))
    assert frames["rejected"].select("rule", "value").rows() == [
        ("no_input", "phones/1"),
        ("no_input", "games/0"),
        ("no_input", "phones/-1"),
    ]
    assert frames["examples"].height == 1
    assert frames["human_errors"].height == 8


@pytest.mark.parametrize("content", ['{"a": 1}', "[1", "3", "[" * 100_000, '[{"a": 1, "a": 2}]'])
def test_inputs_that_are_no_array_are_refused(written, read_file, content):
    rows = written("rows.jsonl", lines(("phones", 0)))
    with pytest.raises(InputError, match=r"phones\.json"):
        read_file("quintd", rows, inputs=(written("phones.json", content),))


def test_two_files_of_one_name_are_refused(written, read_file):
    rows = written("rows.jsonl", lines(("phones", 0)))
    twice = (written("phones/dev.json", "[{}]"), written("phones/test.json", "[{}]"))
    with pytest.raises(InputError, match="both are called phones"):
        read_file("quintd", rows, inputs=twice)
