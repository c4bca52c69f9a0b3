"""Sources of long-form question answering and mathematics: ASQA, FeTaQA, CosmosQA, ELI5, GSM8K."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from pipelines.metricinstruct.schema import CHANNELS, LONG_FORM_QA, MATH_QA, NO_ERROR
from pipelines.metricinstruct.sources.linearise import highlighted_rows
from pipelines.metricinstruct.sources.source import (
    Example,
    HumanError,
    Rejected,
    Row,
    Source,
    beside_input,
    marking_nothing,
    outputs_of,
    row_by_row,
)
from pipelines.metricinstruct.sources.values import (
    Unusable,
    as_comment,
    as_list,
    as_number,
    as_object,
    as_text,
    as_whole,
    distinct,
    shown,
)

#: Answers up to so many characters are too short to be long-form.
FETAQA_SHORT = 100
COSMOSQA_SHORT = 50
#: Outputs in a row of the fine-grained feedback; the first is the annotated one.
_PREDICTIONS = ("prediction 1", "prediction 2", "prediction 3", "prediction 4")
_ANNOTATED = _PREDICTIONS[0]


def _asqa_samples(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield the samples of ``ASQA.json``, splits of samples by their ids, with their rows.

    A line of JSON lines is one sample already.
    """
    given = as_object(value, "samples")
    if "ambiguous_question" in given or "question" in given:
        yield given, given
        return
    splits = {name: as_object(samples, "samples") for name, samples in given.items()}
    for name, samples in splits.items():
        split = "validation" if name == "dev" else name
        for item, sample in samples.items():
            is_object = isinstance(sample, Mapping)
            row = {**sample, "sample_id": item, "split": split} if is_object else sample
            yield sample, row


def _asqa(row: Row) -> Iterator[Example]:
    """Read a sample, or a row of the fine-grained feedback: four outputs, the first annotated."""
    if "ambiguous_question" in row:
        example = Example(
            row.text("ambiguous_question"),
            item=row.identifier("sample_id"),
            split=row.optional("split"),
        )
        with beside_input(example):
            annotations = row.objects("annotations")
            answers = [as_text(given.get("long_answer"), "long_answer") for given in annotations]
            yield replace(example, references=distinct(*answers))
        return
    example = Example(row.text("question"))
    with beside_input(example):
        references = (row.text("gold"),)
        outputs = {name: row.text(name) for name in _PREDICTIONS}
        errors = _feedback_errors(row, outputs[_ANNOTATED])
    for system, output in outputs.items():
        yield replace(
            example,
            references=references,
            hypothesis=output,
            system=system,
            errors=errors if system == _ANNOTATED else (),
        )


def _feedback_errors(row: Row, output: str) -> tuple[HumanError, ...]:
    feedback = as_object(row.fields.get("feedback"), "feedback")
    shift = row.blanks_before(_ANNOTATED)  # offsets count from the text as it stands there
    errors = []
    for value in as_list(feedback.get("errors"), "errors"):
        error = as_object(value, "errors")
        start, end = (
            min(max(as_whole(error.get(name), name) - shift, 0), len(output))
            for name in ("start", "end")
        )
        unplaced = HumanError(
            "asqa_feedback",
            as_text(error.get("error type"), "error type"),
            comment=as_comment(error.get("explanation")),
        )
        if (nothing := marking_nothing(unplaced)) is not None:
            errors.append(nothing)
            continue
        # Offsets in the wrong order tell no place.
        placed = replace(unplaced, side="output", start=start, end=end, text=output[start:end])
        errors.append(placed if start <= end else unplaced)
    return tuple(errors) or (HumanError("asqa_feedback", NO_ERROR, NO_ERROR),)


def _fetaqa(row: Row) -> Iterator[Example | Rejected]:
    cells = highlighted_rows(
        # The section's title is what stands above the table; a page without sections has its own.
        row.optional("table_section_title") or row.text("table_page_title"),
        [[str(cell) for cell in as_list(r, "table_array")] for r in row.values("table_array")],
        [as_list(place, "highlighted_cell_ids") for place in row.values("highlighted_cell_ids")],
    )
    request = Example(cells + row.text("question"), item=row.identifier("feta_id"))
    with beside_input(request):
        answer = row.text("answer")
    example = replace(request, references=(answer,))
    if len(answer) <= FETAQA_SHORT:
        yield Rejected("short_answer", "answer", str(len(answer)), example, left_out=True)
    else:
        yield example


def _cosmosqa(row: Row) -> Iterator[Example | Rejected]:
    text = f"Context: {row.text('context')}\nQuestion: {row.text('question')}"
    example = Example(text, item=row.optional("id"))
    label = row.number("label")
    if label is None or label not in (0, 1, 2, 3):
        value = shown(row.fields.get("label"))
        yield Rejected("no_answer", "label", value, example, left_out=True)
        return
    name = f"answer{int(label)}"
    with beside_input(example):
        answer = row.text(name)
    if "none of the above choices" in answer.lower():
        yield Rejected("none_of_the_above", name, answer, example, left_out=True)
    elif len(answer) <= COSMOSQA_SHORT:
        yield Rejected("short_answer", name, str(len(answer)), example, left_out=True)
    else:
        yield replace(example, references=(answer,))


def _eli5(row: Row) -> Iterator[Example | Rejected]:
    example = Example(row.text("title"), item=row.optional("q_id"))
    with beside_input(example):
        answers = as_object(row.fields.get("answers"), "answers")
        texts = [as_text(text, "answers") for text in as_list(answers.get("text"), "answers")]
        scores = [as_number(score) or 0.0 for score in as_list(answers.get("score"), "answers")]
    if not texts or len(texts) != len(scores):
        told = f"{len(texts)} with {len(scores)} scores"
        yield Rejected("no_answer", "answers", told, example, left_out=True)
        return
    # The best-scored answer first; of several, the one that stands first.
    order = sorted(range(len(texts)), key=lambda index: -scores[index])
    yield replace(example, references=distinct(*(texts[index] for index in order)))


def _gsm8k(row: Row) -> Iterator[Example | Rejected]:
    example = Example(row.text("question"))
    with beside_input(example):
        if "answer" in row:
            yield replace(example, references=(row.text("answer"),))
            return
        solutions = [(name, v) for name, v in row.fields.items() if isinstance(v, Mapping)]
        if not solutions:
            raise Unusable("no_output")
        references = (row.text("ground_truth"),)
    yield from outputs_of(
        replace(example, references=references),
        ((n, v.get("solution"), as_number(v.get("is_correct"))) for n, v in solutions),
    )


SOURCES = (
    Source(
        "asqa",
        LONG_FORM_QA,
        CHANNELS,
        "The question below can be read in more than one way. Answer it in a paragraph that gives "
        "the background one needs and says which answer belongs to which reading.",
        "Apache-2.0; passages CC BY-SA",
        "ASQA.json with outputs beside it, or dev_feedback.json and its like",
        row_by_row(_asqa),
        (("ambiguous_question", "annotations"), ("question", "gold", "prediction 1", "feedback")),
        unfold=_asqa_samples,
    ),
    Source(
        "fetaqa",
        LONG_FORM_QA,
        CHANNELS,
        "Below are a table's title and some rows of the table. Answer the question that follows "
        "them in full sentences, drawing on all that the rows say about it.",
        "CC BY-SA 4.0",
        "fetaQA-v1_*.jsonl; outputs beside it (*-predictions.txt, line i for row i)",
        row_by_row(_fetaqa),
        (("table_array", "highlighted_cell_ids", "question", "answer"),),
    ),
    Source(
        "cosmosqa",
        LONG_FORM_QA,
        CHANNELS,
        "Read the context and answer the question about it in one or two sentences.",
        "CC BY 4.0",
        "train.csv, valid.csv; outputs beside it",
        row_by_row(_cosmosqa),
        (("context", "question", "answer0", "answer3", "label"),),
    ),
    Source(
        "eli5",
        LONG_FORM_QA,
        CHANNELS,
        "Answer the question below in several sentences, one step after the other, so that anybody "
        "can follow.",
        "unknown; texts are Reddit's users'",
        "rows with q_id, title and answers (text, score); outputs beside it",
        row_by_row(_eli5),
        (("title", "answers"),),
    ),
    Source(
        "gsm8k",
        MATH_QA,
        CHANNELS,
        "Answer the following math word problem step-by-step.",
        "MIT",
        "example_model_solutions.jsonl, or train.jsonl with outputs beside it",
        row_by_row(_gsm8k),
        (("question", "ground_truth"), ("question", "answer")),
    ),
)
