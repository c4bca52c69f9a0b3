from __future__ import annotations

import gzip
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.metricinstruct.errors import record
from pipelines.metricinstruct.errors.places import find, place, quoted_passages, strip_marks
from pipelines.metricinstruct.errors.record import ErrorRecord

_MARKED = re.compile(r"(.*?)<v>(.*?)</v>((?:(?!<v>).)*)")

OUTPUT = "The red door and the blue door lead to “Harbour  Lane”. The 𝔡oor is shut."


def _placed(
    location: str,
    output: str = OUTPUT,
    explanation: str = "It is wrong.",
    context: str | None = None,
) -> ErrorRecord:
    error = ErrorRecord(location, "Accuracy", explanation, "Major", 4.0, context=context)
    return place(error, output)


def test_exact_location_counts_code_points() -> None:
    placed = _placed("is shut")
    assert (placed.placement, placed.quoted, placed.occurrence) == (record.EXACT, None, 1)
    assert OUTPUT[placed.start : placed.end] == "is shut"
    assert placed.start == OUTPUT.index("is shut")
    assert placed.candidates == (placed.start,)


@pytest.mark.parametrize(
    ("quoted", "found"),
    [
        ('"blue door"', "blue door"),
        ("`blue door`", "blue door"),
        ("...blue door lead…", "blue door lead"),
        ('"... blue door"', "blue door"),
        ('"Harbour Lane"', "Harbour  Lane"),
        ('to "Harbour Lane".', "to “Harbour  Lane”."),
        ("THE BLUE DOOR", "the blue door"),
        ("blue\ndoor", "blue door"),
        ("blue\u00a0door", "blue door"),
    ],
)
def test_normalised_location_is_verbatim_afterwards(quoted: str, found: str) -> None:
    placed = _placed(quoted)
    assert placed.placement == record.NORMALISED
    assert placed.location == found == OUTPUT[placed.start : placed.end]
    assert placed.quoted == quoted


@pytest.mark.parametrize("quoted", ["", "  ", '""', "green door", "red blue", "dooor", "…"])
def test_absent_location_has_no_place(quoted: str) -> None:
    placed = _placed(quoted)
    assert placed.placement == record.ABSENT
    assert (placed.location, placed.start, placed.end, placed.candidates) == (
        quoted,
        None,
        None,
        (),
    )


def test_ambiguous_location_takes_the_first_place_and_says_so() -> None:
    placed = _placed("door")
    assert placed.placement == record.FIRST_OF_SEVERAL
    assert placed.candidates == (8, 26)
    assert (placed.start, placed.occurrence) == (8, 1)


@pytest.mark.parametrize(
    ("explanation", "context"),
    [
        ("It is wrong.", "the blue door lead"),
        ('In "and the Blue door" it is the wrong word.', None),
        ("In ‘blue door’ it is the wrong word.", None),
    ],
)
def test_ambiguous_location_takes_the_place_nearest_to_the_context(
    explanation: str, context: str | None
) -> None:
    placed = _placed("door", explanation=explanation, context=context)
    assert placed.placement == record.NEAREST_TO_CONTEXT
    assert (placed.start, placed.occurrence, placed.candidates) == (26, 2, (8, 26))


def test_context_that_is_ambiguous_itself_decides_nothing() -> None:
    placed = _placed("door", output="a door, a door", context="a door")
    assert placed.placement == record.FIRST_OF_SEVERAL


def test_place_inside_the_context_wins_over_one_that_touches_it() -> None:
    placed = _placed("ha", output="haha ha!", context=" ha!")
    assert placed.start == 5


def test_overlapping_places_count_each() -> None:
    placed = _placed("aa", output="aaaa")
    assert placed.candidates == (0, 1, 2)


def test_place_never_splits_an_expanded_character() -> None:
    assert find("S", "ß")[0] == []
    assert find("STRASSE", "Die Straße")[0] == [(4, 10)]


def test_placing_again_changes_nothing() -> None:
    once = _placed('"BLUE door"')
    assert place(once, OUTPUT) == once


def test_placing_in_another_output_forgets_the_first() -> None:
    moved = place(_placed('"blue door"'), "No such thing.")
    assert (moved.location, moved.quoted, moved.start) == ('"blue door"', None, None)


_WORDS = st.text(st.sampled_from("aB ßé“”\"'’\n\u00a0𝔡"), max_size=8)


@settings(max_examples=60, deadline=None)
@given(_WORDS, _WORDS, _WORDS)
def test_text_cut_from_the_output_is_found_where_it_stands(
    before: str, words: str, after: str
) -> None:
    output = before + words + after
    placed = _placed(words, output=output)
    if words.strip():
        assert len(before) in placed.candidates
        assert placed.location == words
        assert output[placed.start : placed.end] == words
    else:
        assert placed.placement == record.ABSENT


@settings(max_examples=60, deadline=None)
@given(_WORDS, _WORDS)
def test_whatever_is_found_is_verbatim_and_counted(words: str, output: str) -> None:
    placed = _placed(words, output=output)
    if placed.start is not None:
        assert output[placed.start : placed.end] == placed.location != ""
        starts = [
            start for start in range(len(output)) if output.startswith(placed.location, start)
        ]
        assert placed.occurrence == starts.index(placed.start) + 1
        assert placed.start in placed.candidates
        assert list(placed.candidates) == sorted(set(placed.candidates))


def test_marks_of_two_passages_are_not_stripped() -> None:
    assert strip_marks('"red" and "blue"') == '"red" and "blue"'
    assert strip_marks(" “red” ") == "red"
    assert strip_marks("dogs' and cats'") == "dogs' and cats'"


def test_quoted_passages_leave_apostrophes_alone() -> None:
    text = "The town's name is 'New Haven', not \"Old Haven\" or “Haven”; it's wrong."
    assert quoted_passages(text) == ["New Haven", "Old Haven", "Haven"]


def test_spans_of_experts_are_found_where_they_marked_them(
    shared_data: Callable[[str], Path],
) -> None:
    data = gzip.decompress(shared_data("wmt_mqm/mqm_ted_ende.tsv.gz").read_bytes()).decode()
    found: Counter[tuple[str, bool]] = Counter()
    with_context: Counter[tuple[str, bool]] = Counter()
    for line in data.split("\n")[1:-1]:
        marked = _MARKED.fullmatch(line.split("\t")[6])
        if marked is None:
            continue
        before, words, after = marked.groups()
        output, start = before + words + after, len(before)
        placed = _placed(words, output=output)
        assert start in placed.candidates
        found[placed.placement, placed.start == start] += 1
        around = output[max(0, start - 15) : start + len(words) + 15]
        again = _placed(words, output=output, context=around)
        with_context[again.placement, again.start == start] += 1
    # One span in eleven stands several times in its output; a quoted context tells which is meant.
    assert found == {
        (record.EXACT, True): 3664,
        (record.FIRST_OF_SEVERAL, True): 167,
        (record.FIRST_OF_SEVERAL, False): 185,
    }
    assert with_context == {
        (record.EXACT, True): 3664,
        (record.NEAREST_TO_CONTEXT, True): 349,
        (record.NEAREST_TO_CONTEXT, False): 3,
    }
