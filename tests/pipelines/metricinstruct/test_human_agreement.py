from __future__ import annotations

from typing import Any

import polars as pl
import pytest

from pipelines.metricinstruct.errors.places import place
from pipelines.metricinstruct.errors.record import ErrorRecord, to_column
from pipelines.metricinstruct.human_agreement import (
    annotator_pairs,
    groups_of,
    human_annotations,
    model_annotations,
)
from pipelines.metricinstruct.schema import HUMAN_ERRORS, NO_ERROR, SEVERITIES
from tests.pipelines.metricinstruct.scripted_caller import chosen_rows
from transforms.crowd.spans import agreement, tally

OUTPUT = "The red door stands open."


def _human(system: str, annotator: str, category: str, **changes: Any) -> dict[str, Any]:
    row = dict.fromkeys(HUMAN_ERRORS)
    return {
        **row,
        "source": "wmt_mqm",
        "item": "1",
        "system": system,
        "annotator": annotator,
        "category": category,
        **changes,
    }


def _marked(start: int, end: int, severity: str, weight: float | None) -> dict[str, Any]:
    return {"side": "output", "start": start, "end": end, "severity": severity, "weight": weight}


def _analyses(*errors: list[ErrorRecord]) -> pl.DataFrame:
    placed = [[place(error, OUTPUT) for error in row] for row in errors]
    systems = [f"S{number}" for number in range(len(errors))]
    frame = pl.DataFrame({"source": "wmt_mqm", "item": "1", "system": systems})
    return frame.with_columns(to_column(placed))


def test_model_and_human_in_one_form() -> None:
    human = pl.DataFrame(
        [
            _human("S0", "rater1", "Accuracy", **_marked(4, 12, "Major", 5.0)),
            _human("S0", "rater1", "Fluency", **_marked(13, 19, "Minor", 1.0)),
            _human(
                "S0", "rater1", "Accuracy/Omission", side="source", severity="Major", weight=5.0
            ),
            _human("S1", "rater1", NO_ERROR, weight=0.0),
        ],
        schema=dict(HUMAN_ERRORS),
    )
    judged, spans = human_annotations(human, NO_ERROR)
    assert judged.sort("segment")["score"].to_list() == [-11.0, 0.0]
    assert spans.select("start", "end").rows() == [(4, 12), (13, 19), (None, None)]

    found = ErrorRecord("red door", "Accuracy", "Why.", "Major", 4.0)
    ours, our_spans = model_annotations(
        _analyses([found], []).with_columns(annotator=pl.lit("a model"))
    )
    assert ours["score"].to_list() == [-4.0, 0.0]
    assert our_spans.row(0) == ("wmt_mqm\t1\tS0", "a model", 4, 12, "Major")

    figures = agreement(
        tally(pl.concat([judged, ours]), pl.concat([spans, our_spans]), SEVERITIES)
    ).row(0, named=True)
    assert figures["segments"] == 2
    assert figures["character_f1"] == pytest.approx(2 * 8 / (8 + 14))
    assert figures["any_error"] == 1.0
    assert figures["spearman"] == pytest.approx(1.0)


def test_what_the_model_was_not_shown_is_no_error_of_the_output() -> None:
    of_the_output = {"id": "0" * 16, "key": "0" * 32}
    human = pl.DataFrame(
        [
            _human("S0", "ada", "Accuracy", **_marked(4, 19, "Major", 5.0), **of_the_output),
            _human("S0", "bob", "Accuracy", **_marked(13, 19, "Major", 5.0), **of_the_output),
        ],
        schema=dict(HUMAN_ERRORS),
    )
    analyses = _analyses([ErrorRecord("red door", "Accuracy", "Why.", "Major", 4.0)]).with_columns(
        channel=pl.lit("real"),
        models=pl.lit(["a model"], dtype=pl.List(pl.String)),
        example_id=pl.lit("0" * 16),
        input_context=pl.lit("Die rote Tür steht offen."),
        hypothesis=pl.lit(OUTPUT[:12]),
    )
    pairs = annotator_pairs(analyses, chosen_rows({}), human)
    figures = {(row["first"], row["second"]): row for row in agreement(pairs).iter_rows(named=True)}
    assert figures["a model", "wmt_mqm: ada"]["character_f1"] == 1.0
    assert figures["a model", "wmt_mqm: bob"]["character_f1"] == 0.0
    assert figures["a model", "wmt_mqm: bob"]["any_error"] == 0.0
    scores = pairs.scores.select("second", "score_first", "score_second").rows()
    assert ("wmt_mqm: ada", -4.0, -5.0) in scores
    assert ("wmt_mqm: bob", -4.0, 0.0) in scores


@pytest.mark.parametrize("model", ["a model", "wmt_mqm: 7b", "wmt_mqm:  7b", "org: 7b:"])
def test_a_model_is_no_person_whatever_its_name(model: str) -> None:
    human = pl.DataFrame(
        [
            _human("S0", "ada", NO_ERROR, id="0" * 16),
            _human("S0", "model x", NO_ERROR, id="0" * 16),
        ],
        schema=dict(HUMAN_ERRORS),
    )
    analyses = _analyses([]).with_columns(
        channel=pl.lit("real"),
        models=pl.lit([model, "other"], dtype=pl.List(pl.String)),
        example_id=pl.lit("0" * 16),
        input_context=pl.lit(""),
        hypothesis=pl.lit(OUTPUT),
    )
    counts = annotator_pairs(analyses, chosen_rows({}), human).counts
    names = {*counts["first"], *counts["second"]}
    assert len(names) == 3
    assert groups_of(names) == {"wmt_mqm: ada": "wmt_mqm: people"}


def test_errors_without_weights_are_counted() -> None:
    human = pl.DataFrame(
        [
            _human("S0", "h1", "incorrect", **_marked(4, 7, "Major", None)),
            _human("S0", "h1", "misleading", **_marked(8, 12, "Major", None)),
        ],
        schema=dict(HUMAN_ERRORS),
    )
    assert human_annotations(human, NO_ERROR)[0]["score"].to_list() == [-2.0]
