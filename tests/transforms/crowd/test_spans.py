from __future__ import annotations

from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from transforms.crowd.spans import (
    AGREEMENT,
    JUDGEMENTS,
    SPANS,
    Tallies,
    agreement,
    pool,
    sum_tallies,
    tally,
)

SEVERITIES = ("Major", "Minor")


def _judgements(*rows: tuple[str, str, float | None]) -> pl.DataFrame:
    return pl.DataFrame(list(rows), schema=dict(JUDGEMENTS), orient="row")


def _spans(*rows: tuple[str, str, int | None, int | None, str | None]) -> pl.DataFrame:
    return pl.DataFrame(list(rows), schema=dict(SPANS), orient="row")


def _both(*scores: tuple[float | None, float | None]) -> pl.DataFrame:
    return _judgements(
        *(
            (f"s{n}", name, score)
            for n, pair in enumerate(scores)
            for name, score in zip("ab", pair, strict=True)
        )
    )


def _figures(judgements: pl.DataFrame, spans: pl.DataFrame) -> dict[str, Any]:
    found = agreement(tally(judgements, spans, SEVERITIES))
    assert found.height == 1
    return found.row(0, named=True)


def test_characters_with_and_without_severity() -> None:
    spans = _spans(
        ("s0", "a", 0, 10, "Major"), ("s0", "b", 5, 15, "Minor"), ("s1", "a", 0, 5, "Major")
    )
    figures = _figures(_both((-5, -1), (-5, 0)), spans)
    # 5 characters of 15 and 10 are marked by both, all with another severity.
    assert figures["character_f1"] == pytest.approx(2 * 5 / 25)
    assert figures["character_f1_severity"] == pytest.approx(2 * 2.5 / 25)
    assert figures["any_error"] == 0.5


def test_worst_severity_of_a_character_counts_once() -> None:
    spans = _spans(
        ("s0", "a", 0, 4, "Minor"), ("s0", "a", 2, 6, "Major"), ("s0", "b", 0, 6, "Major")
    )
    tallies = tally(_both((-6, -5)), spans, SEVERITIES)
    counts = tallies.counts.row(0, named=True)
    assert (counts["characters_first"], counts["characters_both"]) == (6, 6)
    assert counts["characters_same"] == 4


def test_undefined_figures_are_null() -> None:
    figures = _figures(_both((0, 0), (0, 0)), _spans())
    assert figures == {
        "first": "a",
        "second": "b",
        "segments": 2,
        "character_f1": None,
        "character_f1_severity": None,
        "spearman": None,
        "kendall": None,
        "any_error": 1.0,
        "any_error_kappa": None,
    }
    assert _figures(_both((1, 2)), _spans())["spearman"] is None
    assert _figures(_both((1, None), (2, None)), _spans())["kendall"] is None
    assert agreement(tally(_judgements(), _spans(), SEVERITIES)).schema == pl.Schema(
        dict(AGREEMENT)
    )


def test_annotators_without_a_common_segment_are_no_pair() -> None:
    judgements = _judgements(("s0", "a", 1.0), ("s1", "b", 1.0))
    assert agreement(tally(judgements, _spans(("s0", "b", 0, 3, "Major")), SEVERITIES)).height == 0


def test_correlations_by_hand() -> None:
    # Ranks 1 2 3 4 against 1 2 4 3: one discordant pair of six.
    figures = _figures(_both((1, 10), (2, 20), (3, 40), (4, 30)), _spans())
    assert figures["spearman"] == pytest.approx(1 - 6 * 2 / (4 * 15))
    assert figures["kendall"] == pytest.approx((5 - 1) / 6)
    # A tie on one side: tau-b divides by the root of 3 times 2 untied pairs.
    tied = _figures(_both((1, 1), (1, 2), (2, 3)), _spans())
    assert tied["kendall"] == pytest.approx(2 / (2 * 3) ** 0.5)


def test_kappa_by_hand() -> None:
    spans = _spans(
        ("s0", "a", 0, 1, "Major"), ("s0", "b", 5, 6, "Minor"), ("s1", "a", 0, 1, "Major"),
        ("s2", "b", None, None, "Major"),
    )  # fmt: skip
    figures = _figures(_both((0, 0), (0, 0), (0, 0), (0, 0)), spans)
    assert figures["any_error"] == 0.5
    assert figures["any_error_kappa"] == 0.0
    assert figures["character_f1"] == 0.0


def test_three_annotators_give_three_pairs() -> None:
    judgements = _judgements(("s0", "c", 1.0), ("s0", "a", 1.0), ("s0", "b", 2.0), ("s1", "a", 2.0))
    found = agreement(tally(judgements, _spans(), SEVERITIES))
    assert found.select("first", "second", "segments").rows() == [
        ("a", "b", 1),
        ("a", "c", 1),
        ("b", "c", 1),
    ]


def test_a_segment_judged_twice_is_refused() -> None:
    with pytest.raises(ValueError, match="once"):
        tally(_judgements(("s0", "a", 1.0), ("s0", "a", 2.0)), _spans(), SEVERITIES)


_SEGMENTS = st.lists(
    st.dictionaries(
        st.sampled_from("abc"),
        st.tuples(
            st.none() | st.integers(-5, 0).map(float),
            st.lists(
                st.tuples(
                    st.integers(0, 12), st.integers(1, 6), st.sampled_from([*SEVERITIES, None])
                ),
                max_size=3,
            ),
        ),
    ),
    max_size=6,
)


def _frames(segments: list[Any], first: int = 0) -> tuple[pl.DataFrame, pl.DataFrame]:
    judged, spans = [], []
    for number, segment in enumerate(segments, first):
        for name, (score, marks) in segment.items():
            judged.append((f"s{number}", name, score))
            spans.extend(
                (f"s{number}", name, start, start + length, severity)
                for start, length, severity in marks
            )
    return _judgements(*judged), _spans(*spans)


@settings(max_examples=60, deadline=None)
@given(_SEGMENTS, st.integers(0, 6))
def test_partitions_add_up_and_f1_is_that_of_the_marked_sets(segments: list[Any], cut: int) -> None:
    whole = tally(*_frames(segments), SEVERITIES)
    parts: list[Tallies] = [
        tally(*_frames(segments[cut:], cut), SEVERITIES),
        tally(*_frames(segments[:cut]), SEVERITIES),
    ]
    summed = sum_tallies(parts)
    assert summed.counts.equals(whole.counts)
    assert summed.scores.equals(whole.scores)

    for row in agreement(whole).iter_rows(named=True):
        shared = [seg for seg in segments if row["first"] in seg and row["second"] in seg]
        sets = [
            {
                (n, at)
                for n, segment in enumerate(shared)
                for start, length, _ in segment[name][1]
                for at in range(start, start + length)
            }
            for name in (row["first"], row["second"])
        ]
        size = len(sets[0]) + len(sets[1])
        expected = 2 * len(sets[0] & sets[1]) / size if size else None
        assert row["segments"] == len(shared)
        assert row["character_f1"] == (None if expected is None else pytest.approx(expected))
        if expected is not None:
            assert expected / 2 - 1e-9 <= row["character_f1_severity"] <= expected + 1e-9


@settings(max_examples=60, deadline=None)
@given(_SEGMENTS)
def test_an_annotator_agrees_with_a_copy_of_itself(segments: list[Any]) -> None:
    doubled = [{"a": seg["a"], "b": seg["a"]} for seg in segments if "a" in seg]
    for row in agreement(tally(*_frames(doubled), SEVERITIES)).iter_rows(named=True):
        figures = [row[name] for name in AGREEMENT if name not in ("first", "second", "segments")]
        assert all(figure is None or figure == pytest.approx(1) for figure in figures)


def test_groups_are_the_sums_over_their_annotators() -> None:
    judgements = _judgements(
        ("s0", "z1", -1.0),
        ("s0", "m", -2.0),
        ("s1", "a2", -3.0),
        ("s1", "m", -5.0),
        ("s0", "a2", -4.0),
    )
    spans = _spans(
        ("s0", "z1", 0, 4, "Major"), ("s0", "m", 2, 6, "Minor"), ("s1", "a2", 0, 2, None)
    )
    people = pool(tally(judgements, spans, SEVERITIES), {"z1": "people", "a2": "people"})
    assert people.counts.select("first", "second", "segments").rows() == [
        ("m", "people", 3),
        ("people", "people", 1),
    ]
    # Whoever stands first by name, a side's figures stay its own.
    (row,) = people.counts.filter(pl.col("first") == "m").rows(named=True)
    assert (row["characters_first"], row["characters_second"], row["characters_both"]) == (8, 6, 2)
    assert (row["errors_first"], row["errors_second"], row["errors_both"]) == (2, 2, 1)
    scores = people.scores.filter(pl.col("first") == "m").select("score_first", "score_second", "n")
    assert sorted(scores.rows()) == [(-5.0, -3.0, 1), (-2.0, -4.0, 1), (-2.0, -1.0, 1)]


def test_without_groups_nothing_changes() -> None:
    tallies = tally(_both((-5, -1), (-5, 0)), _spans(("s0", "a", 0, 10, "Major")), SEVERITIES)
    assert pool(tallies, {}).counts.equals(tallies.counts)
    assert pool(tallies, {}).scores.equals(tallies.scores)
