"""Partitions: rows travel and come back whole, wherever and in whatever order they travel."""

from __future__ import annotations

import random

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from transforms.frames import MAX_FRAME_BYTES, split_frame
from transforms.keys import content_key, fraction_of, normalise_text, partition_of
from transforms.partitions import (
    FrameCoder,
    Frames,
    frame_pieces,
    frames_of,
    gather,
    on_partition,
    scatter,
    to_pieces,
)


def keyed(texts: list[str]) -> pl.DataFrame:
    return pl.DataFrame(
        {"key": [content_key(text) for text in texts], "text": texts},
        schema={"key": pl.String, "text": pl.String},
    )


@given(st.lists(st.text(st.characters(codec="utf-8"))), st.integers(1, 40))
def test_every_row_arrives_in_its_own_partition(texts: list[str], partitions: int) -> None:
    frame = keyed(texts)
    arrived = []
    for partition, piece in scatter("rows", frame, partitions):
        rows = gather([piece])["rows"]
        assert {partition_of(key, partitions) for key in rows["key"]} == {partition}
        arrived.append(rows)
    whole = pl.concat([frame.clear(), *arrived])
    assert sorted(whole.rows()) == sorted(frame.rows())


def test_rows_without_a_key_are_placed_by_their_line() -> None:
    frame = pl.DataFrame({"key": [None, None], "line": [3, 9]}, schema_overrides={"key": pl.String})
    assert sorted(number for number, _ in scatter("rows", frame, 8)) == [1, 3]


@given(st.lists(st.text(st.characters(codec="utf-8")), min_size=1), st.randoms())
def test_the_order_of_arrival_changes_nothing(texts: list[str], shuffler: random.Random) -> None:
    pieces = [
        piece
        for part in split_frame(keyed(texts), max_bytes=64)
        for _, piece in to_pieces(0, {"a": part, "b": part})
    ]
    shuffled = list(pieces)
    shuffler.shuffle(shuffled)
    first, second = gather(pieces), gather(shuffled)
    assert first.keys() == second.keys() == {"a", "b"}
    assert all(first[name].equals(second[name]) for name in first)


def test_a_large_frame_travels_in_pieces_of_at_most_eight_megabytes() -> None:
    frame = keyed([f"{number} " + "word " * 2000 for number in range(2500)])
    pieces = list(to_pieces(3, {"rows": frame}))
    assert len(pieces) > 2
    parts = [gather([piece])["rows"] for _, piece in pieces]
    assert all(part.estimated_size() <= MAX_FRAME_BYTES for part in parts)
    assert pl.concat(parts).equals(frame)


@given(st.lists(st.integers(0, 400), max_size=60), st.integers(1, 500))
def test_no_slice_is_larger_than_it_may_be(lengths: list[int], most: int) -> None:
    frame = pl.DataFrame({"text": ["x" * length for length in lengths]}, {"text": pl.String})
    parts = list(split_frame(frame, most))
    assert all(part.height == 1 or part.estimated_size() <= most for part in parts)
    assert pl.concat([frame.clear(), *parts]).equals(frame)


@given(st.lists(st.integers(), max_size=9), st.randoms())
def test_frames_come_out_of_their_pieces_as_they_went_in(
    column: list[int], shuffler: random.Random
) -> None:
    frames = {
        "a": pl.DataFrame({"x": [n % 7 for n in column]}, {"x": pl.Int64}),
        "b": keyed(["c"]),
        "none": keyed([]),
    }
    pieces = list(frame_pieces(frames))
    shuffler.shuffle(pieces)
    found = frames_of(pieces)
    assert found.keys() == frames.keys()
    assert all(found[name].equals(frame) for name, frame in frames.items())


@given(st.lists(st.text(st.characters(codec="utf-8"))))
def test_frames_travel_between_steps_as_they_are(texts: list[str]) -> None:
    frame = keyed(texts)
    coder = FrameCoder()
    arrived = coder.decode(coder.encode(frame))
    assert arrived.equals(frame)
    assert arrived.schema == frame.schema


def test_a_stage_works_on_a_partition() -> None:
    def shortened(frames: Frames, rows: int) -> Frames:
        return {name: frame.head(rows) for name, frame in frames.items()}

    frames = {"rows": keyed(["b", "a", "c"])}
    number, short = on_partition(shortened)((7, frames), 2)
    assert (number, short["rows"]["text"].to_list()) == (7, ["b", "a"])


@given(st.text(st.characters(codec="utf-8")))
def test_keys_see_through_case_and_white_space(text: str) -> None:
    assert content_key(text) == content_key(f"  {normalise_text(text)}\n")
    assert normalise_text(normalise_text(text)) == normalise_text(text)


@given(st.text(st.characters(codec="utf-8")), st.sampled_from(["split", "turns"]))
def test_a_fraction_depends_on_key_and_purpose_alone(text: str, salt: str) -> None:
    key = content_key(text)
    assert 0 <= fraction_of(key, salt) < 1
    assert fraction_of(key, salt) == fraction_of(key, salt)
    assert fraction_of(key, salt) != fraction_of(key, salt + "x")
