from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from pipelines.prosocial import schema
from pipelines.prosocial.configurations import dialogue_counts, offsets_of, with_dialogue_ids
from pipelines.prosocial.filter_settings import load_filters
from pipelines.prosocial.filters import filter_turns
from pipelines.prosocial.released import RELEASED, read_released, revalidate, turns_of
from transforms.errors import InputError
from transforms.publishing.shards import parquet_bytes, read_table, to_table

Find = Callable[[str], Path]
EXAMPLES = ("original_examples.json", "converted_examples.json")


def a_row(turn: int, last: int, **changes: Any) -> dict[str, Any]:
    row = {
        "context": f"I will do it again, number {turn}.",
        "response": f"Please think about it, number {turn}.",
        "rots": ["It's good to think first."],
        "safety_label": "__possibly_needs_caution__",
        "safety_annotations": ["casual", "needs caution", "casual"],
        "safety_annotation_reasons": ["a", "b", "c"],
        "source": "ethics_amt",
        "etc": None,
        "dialogue_id": 0,
        "response_id": turn,
        "episode_done": turn == last,
    }
    return {**row, **changes}


ROWS = [
    a_row(0, 1, rots=[""]),
    a_row(1, 1, safety_label="__casual__", safety_annotations=["casual"] * 3, rots=None),
    *(a_row(turn, 2, dialogue_id=1, etc="") for turn in range(3)),
]


def test_all_forms_give_the_same_rows(tmp_path: Path) -> None:
    (tmp_path / "lines.json").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    columns = {name: [row[name] for row in ROWS] for name in ROWS[0]}
    (tmp_path / "columns.json").write_text(json.dumps(columns))
    (tmp_path / "array.json.gz").write_bytes(gzip.compress(json.dumps(ROWS).encode()))
    ids = ("context", "response", "dialogue_id", "response_id")
    nested = [
        [
            {"text": row["context"], "labels": [row["response"]]}
            | {name: value for name, value in row.items() if name not in ids}
            for row in ROWS
            if row["dialogue_id"] == dialogue
        ]
        for dialogue in (0, 1)
    ]
    (tmp_path / "nested.json").write_text(json.dumps(nested))
    frames = [
        read_released(tmp_path / name, "test")
        for name in ("lines.json", "columns.json", "array.json.gz", "nested.json")
    ]
    assert frames[0].columns == [*schema.RELEASED.names, "split"]
    assert frames[0]["context"].to_list() == [row["context"] for row in ROWS]
    assert frames[0]["rots"].to_list()[:3] == [None, None, ["It's good to think first."]]
    assert frames[0]["etc"].to_list()[1:3] == [None, ""]
    for frame in frames[1:]:
        assert frame.equals(frames[0])


def test_lines_end_with_line_feeds_alone(tmp_path: Path) -> None:
    row = {**ROWS[0], "context": "before\u2028and\x85after"}
    (tmp_path / "lines.json").write_text(
        json.dumps(row, ensure_ascii=False) + "\n\n" + json.dumps(ROWS[1])
    )
    read = read_released(tmp_path / "lines.json", "test")
    assert read["context"].to_list() == [row["context"], ROWS[1]["context"]]


@pytest.mark.parametrize(
    "text", ["", "[1, 2]", '{"context": ["x"]}', "not json", '{"a": {"b": 1}}', "[" * 100_000]
)
def test_another_file_is_refused_by_name(tmp_path: Path, text: str) -> None:
    path = tmp_path / "other.json"
    path.write_text(text)
    with pytest.raises(InputError, match=r"other\.json: not released ProsocialDialog"):
        read_released(path, "train")


def frame_of(*rows: dict[str, Any]) -> pl.DataFrame:
    return pl.DataFrame(list(rows), schema=dict(RELEASED)).with_columns(split=pl.lit("train"))


@pytest.mark.parametrize(
    ("changes", "rules"),
    [
        ({}, set()),
        ({"safety_label": "__casual__"}, {"label"}),
        ({"safety_annotations": ["casual", "unsafe", "casual"]}, {"label", "votes"}),
        ({"safety_annotation_reasons": ["a"]}, {"votes"}),
        ({"rots": None}, {"rots"}),
        ({"source": "elsewhere"}, {"source"}),
        ({"response_id": 5}, {"response_id"}),
        ({"episode_done": False}, {"episode_done"}),
    ],
)
def test_what_contradicts_the_facts_is_found(changes: dict[str, Any], rules: set[str]) -> None:
    found = revalidate(frame_of(a_row(0, 1), a_row(1, 1, **changes)))
    assert set(found["rule"]) == rules


def test_dialogues_of_two_splits_may_share_an_id() -> None:
    one = frame_of(a_row(0, 1), a_row(1, 1))
    both = pl.concat([one, one.with_columns(split=pl.lit("test"))])
    assert revalidate(both).is_empty()
    assert turns_of(both)["key"].n_unique() == 2


def test_a_lone_row_is_no_dialogue() -> None:
    assert "response_id" in set(revalidate(frame_of(a_row(0, 0)))["rule"])


@pytest.mark.parametrize("name", EXAMPLES)
def test_real_rows_keep_to_the_facts_and_pass_every_filter(shared_data: Find, name: str) -> None:
    released = read_released(shared_data(f"prosocial_dialog_samples/{name}"), "train")
    assert released.height == {"original_examples.json": 5, "converted_examples.json": 12}[name]
    assert revalidate(released).is_empty()
    turns = turns_of(released)
    assert dict(turns.schema) == dict(pl.DataFrame(schema=schema.TURNS).schema)
    filtered = filter_turns(turns, load_filters())
    assert filtered.rejected.is_empty()
    assert filtered.turns.equals(turns)
    assert filtered.turns["context"].to_list() == released["context"].to_list()


@pytest.mark.parametrize("name", EXAMPLES)
def test_real_rows_go_through_our_writer_cell_by_cell(shared_data: Find, name: str) -> None:
    released = read_released(shared_data(f"prosocial_dialog_samples/{name}"), "train")
    turns = turns_of(released)
    placed = with_dialogue_ids(turns, offsets_of(0, dialogue_counts(0, turns)))
    rows = placed.with_columns(pl.col("turn").cast(pl.Int64).alias("response_id"))
    data = parquet_bytes(to_table(rows.select(schema.RELEASED.names), schema.RELEASED))
    back = read_table(data)
    assert back.schema.equals(schema.RELEASED)
    again = pl.from_arrow(back)
    assert isinstance(again, pl.DataFrame)
    assert again.rows() == released.select(schema.RELEASED.names).rows()
