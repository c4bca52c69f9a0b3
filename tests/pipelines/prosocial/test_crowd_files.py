from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from pipelines.prosocial import schema
from pipelines.prosocial.crowd_files import CrowdRows, Unit, check_crowd_file, read_crowd_file
from transforms.errors import InputError
from transforms.frames import polars_schema
from transforms.ledger import build_ledger, sum_counts

KEY = "0123456789abcdef" * 2


def read(tmp_path: Path, unit: Unit, *rows: dict[str, Any] | str) -> CrowdRows:
    """Write rows (objects, or lines as they are) and return what the reader makes of them."""
    path = tmp_path / "crowd.jsonl"
    lines = [row if isinstance(row, str) else json.dumps(row, ensure_ascii=False) for row in rows]
    path.write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    chunks = list(read_crowd_file(str(path), unit))
    counts = sum_counts([chunk.counts for chunk in chunks])
    assert build_ledger(counts, [f"read.{unit}s"])["closes"]
    return CrowdRows(
        pl.concat([chunk.frame for chunk in chunks]),
        pl.concat([chunk.rejected for chunk in chunks]),
        sum(chunk.rows for chunk in chunks),
        counts,
    )


def a_response(**changes: Any) -> dict[str, Any]:
    return {"key": KEY, "turn": 1, "annotator": "w1", "response": "I see.", **changes}


def a_vote(**changes: Any) -> dict[str, Any]:
    return {"key": KEY, "turn": 0, "annotator": "w1", "vote": "casual", **changes}


def test_a_response_in_full(tmp_path: Path) -> None:
    row = a_response(
        context=" Edited. ",
        rots=["It's kind to ask."],
        candidates=["a", "b"],
        episode_done=True,
        ignored={"x": 1},
    )
    rows = read(tmp_path, "response", row)
    assert dict(rows.frame.schema) == dict(pl.DataFrame(schema=schema.RESPONSES).schema)
    assert rows.frame.row(0, named=True) == {
        "key": KEY,
        "turn": 1,
        "annotator": "w1",
        "context": "Edited.",
        "response": "I see.",
        "rots": ["It's kind to ask."],
        "candidates": ["a", "b"],
        "episode_done": True,
        "author": "crowd",
        "prompt": None,
        "request": None,
        "model": None,
        "file": str(tmp_path / "crowd.jsonl"),
        "line": 1,
    }
    assert rows.rejected.is_empty()


def test_ids_and_turns_as_numbers_or_strings_are_the_same(tmp_path: Path) -> None:
    ids = [12, "12", 12.0, " 12 ", "12.0"]
    rows = read(
        tmp_path, "annotation", *(a_vote(annotator=one, key=KEY.upper(), turn=1) for one in ids)
    )
    assert rows.frame["annotator"].to_list() == ["12"] * 5
    assert rows.frame["key"].to_list() == [KEY] * 5
    turns = read(tmp_path, "annotation", *(a_vote(turn=one) for one in (2, "2", 2.0, "2.0")))
    assert turns.frame["turn"].to_list() == [2] * 4
    assert read(tmp_path, "annotation", a_vote(annotator="007")).frame["annotator"].item() == "007"


@pytest.mark.parametrize("nothing", [None, [], [""], [None], "", " ; ", [" ", None]])
def test_rots_that_say_nothing_are_the_same(tmp_path: Path, nothing: Any) -> None:
    rows = read(tmp_path, "response", a_response(rots=nothing))
    assert rows.frame["rots"].to_list() == [[]]


def test_rots_are_read_as_they_were_written(tmp_path: Path) -> None:
    rows = read(
        tmp_path,
        "response",
        a_response(rots="It's rude to pry; ask first "),
        a_response(rots=["one; two", " three", "three", "\x1f"]),
    )
    assert rows.frame["rots"].to_list() == [
        ["It's rude to pry; ask first"],
        ["one; two", "three"],
    ]


@pytest.mark.parametrize(
    ("vote", "meant"),
    [
        ("casual", "casual"),
        ("needs caution", "needs caution"),
        ("__needs_caution__", "needs caution"),
        ("Needs-Intervention ", "needs intervention"),
        ("NEEDS  INTERVENTION", "needs intervention"),
    ],
)
def test_votes_are_read_whatever_their_spelling(tmp_path: Path, vote: str, meant: str) -> None:
    rows = read(tmp_path, "annotation", a_vote(vote=vote, reason=" why "), a_vote(vote=vote))
    assert rows.frame["vote"].to_list() == [meant, meant]
    assert rows.frame["reason"].to_list() == ["why", ""]


@pytest.mark.parametrize(
    ("unit", "row", "rule", "field", "value"),
    [
        ("response", a_response(key="xyz"), "malformed_key", "key", "xyz"),
        ("response", a_response(key=None), "malformed_key", "key", None),
        ("response", a_response(turn=3), "unknown_turn", "turn", "3"),
        ("response", a_response(turn="first"), "unknown_turn", "turn", "first"),
        ("annotation", a_vote(turn=None), "unknown_turn", "turn", None),
        ("annotation", a_vote(annotator=" "), "missing_annotator", "annotator", " "),
        ("response", a_response(annotator=None), "missing_annotator", "annotator", None),
        ("response", a_response(response=" "), "blank_response", "response", None),
        (
            "response",
            a_response(turn=0, episode_done=True),
            "malformed_episode_done",
            "episode_done",
            "true",
        ),
        ("annotation", a_vote(vote="unsafe"), "unknown_label", "vote", "unsafe"),
        ("annotation", a_vote(vote=None), "unknown_label", "vote", None),
    ],
)
def test_what_cant_be_used_is_a_reject_with_its_rule(
    tmp_path: Path, unit: Unit, row: dict[str, Any], rule: str, field: str, value: str | None
) -> None:
    good = a_response() if unit == "response" else a_vote()
    rows = read(tmp_path, unit, good, row)
    assert rows.frame.height == 1
    assert dict(rows.rejected.schema) == polars_schema(schema.REJECTED)
    rejected = rows.rejected.row(0, named=True)
    assert (rejected["unit"], rejected["line"]) == (unit, 2)
    assert (rejected["rule"], rejected["field"], rejected["value"]) == (rule, field, value)
    assert rejected["key"] == (None if rule == "malformed_key" else KEY)


def test_a_drafted_question_may_stand(tmp_path: Path) -> None:
    rows = read(tmp_path, "response", a_response(turn=0, response=None, context="Edited."))
    assert rows.frame.select("context", "response").rows() == [("Edited.", None)]


def test_lines_that_are_no_rows_are_rejects_too(tmp_path: Path) -> None:
    rows = read(tmp_path, "annotation", a_vote(), '{"key": ', "[1]", a_vote(annotator=True))
    assert rows.rows == 4
    assert rows.frame.height == 1
    assert rows.rejected["line"].to_list() == [2, 3, 4]
    assert rows.rejected["rule"].to_list()[2] == "wrong_type"


def test_a_file_of_the_other_kind_stops_the_run(tmp_path: Path) -> None:
    path = tmp_path / "votes.jsonl"
    path.write_text(json.dumps(a_vote()) + "\n", encoding="utf-8")
    check_crowd_file(str(path), "annotation")
    with pytest.raises(InputError, match=r"votes\.jsonl: no field response .*CROWD\.md"):
        check_crowd_file(str(path), "response")
    with pytest.raises(InputError, match="no such file"):
        check_crowd_file(str(tmp_path / "none.jsonl"), "response")
