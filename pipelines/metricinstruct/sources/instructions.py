"""Sources of instruction-following: MixInstruct, AlpacaFarm, OASST1, Guanaco, Dolly, LLMBar."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from pipelines.metricinstruct.schema import CHANNELS, INSTRUCTION_FOLLOWING, REAL, SYNTHETIC
from pipelines.metricinstruct.sources.source import (
    Example,
    Rejected,
    Row,
    RowReader,
    Source,
    beside_input,
    outputs_of,
    row_by_row,
)
from pipelines.metricinstruct.sources.values import (
    Unusable,
    as_comment,
    as_number,
    as_object,
    as_text,
    distinct,
    shown,
)

_TURN = re.compile(r"### (Human|Assistant):")


def _own_instruction(input_context: str, reference: str) -> RowReader:
    """Return the reader of rows with an instruction, an input that may be empty, and an answer."""

    def read(row: Row) -> Iterator[Example | Rejected]:
        example = Example(
            row.optional(input_context) or "",
            item=row.identifier("id"),
            instruction=row.text("instruction"),
        )
        with beside_input(example):
            yield replace(example, references=(row.text(reference),))

    return read


def _mixinstruct(row: Row) -> Iterator[Example | Rejected]:
    instruction, input_context = row.optional("instruction"), row.optional("input") or ""
    if not instruction:  # some rows have all of the request in their input
        instruction, input_context = row.text("input"), ""
    example = Example(input_context, item=row.optional("id"), instruction=instruction)
    with beside_input(example):
        reference = row.optional("output")
        candidates = row.objects("candidates")
        if not candidates:
            raise Unusable("no_output", "candidates")
    yield from outputs_of(
        replace(example, references=(reference,) if reference else ()),
        ((c.get("model"), c.get("text"), _bartscore(c.get("scores"))) for c in candidates),
    )


def _bartscore(scores: Any) -> float | None:
    return as_number(scores.get("bartscore")) if isinstance(scores, Mapping) else None


def _llmbar(row: Row) -> Iterator[Example]:
    label = row.number("label")
    example = Example("", instruction=row.text("input"), split="test")
    for number in (1, 2):
        with beside_input(example):
            yield replace(
                example,
                hypothesis=row.text(f"output_{number}"),
                system=f"output_{number}",
                quality=None if label is None else float(label == number),
            )


def _oasst_tree(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield a tree with its first message, which has its replies, of either export."""
    tree = as_object(value, "prompt")
    yield tree, tree["prompt"] if isinstance(tree.get("prompt"), Mapping) else tree


def _oasst(row: Row) -> Iterator[Example | Rejected]:
    """Read a tree's first request with its best-ranked reply: a single turn."""
    if "messages" in row:
        messages = row.objects("messages")
        if len(messages) != 2:
            yield Rejected("not_single_turn", "messages", str(len(messages)), left_out=True)
            return
        prompt, answer = (message.get("content") for message in messages)
        example = Example("", instruction=as_text(prompt, "content"))
        with beside_input(example):
            yield replace(example, references=(as_text(answer, "content"),))
        return
    if row.fields.get("deleted") and row.optional("text") is None:
        yield Rejected("deleted", "deleted", left_out=True)
        return
    request = Example("", item=row.optional("message_id"), instruction=row.text("text"))
    if row.fields.get("deleted"):
        yield Rejected("deleted", "deleted", None, request, left_out=True)
        return
    if row.fields.get("lang", "en") != "en":
        yield Rejected("language", "lang", shown(row.fields["lang"]), request, left_out=True)
        return
    with beside_input(request):
        replies = [reply for reply in row.objects("replies") if not reply.get("deleted")]
    if not replies:
        yield Rejected("no_answer", "replies", None, request, left_out=True)
        return
    ranked = sorted(replies, key=_rank)
    with beside_input(request):
        yield replace(
            request,
            references=distinct(*(as_text(reply.get("text"), "replies") for reply in ranked)),
            reference_system=as_comment(ranked[0].get("model_name")),
        )


def _rank(reply: Mapping[str, Any]) -> tuple[float, str]:
    """Return what replies are ordered by: rank 0 is best, those without a rank come last."""
    rank = as_number(reply.get("rank"))
    return float("inf") if rank is None else rank, str(reply.get("message_id"))


def _guanaco(row: Row) -> Iterator[Example | Rejected]:
    if "text" not in row:
        yield from _own_instruction("input", "output")(row)
        return
    _, *turns = _TURN.split(row.text("text"))
    if turns[::2] != ["Human", "Assistant"]:
        yield Rejected("not_single_turn", "text", str(len(turns) // 2), left_out=True)
        return
    example = Example("", instruction=as_text(turns[1], "text"))
    with beside_input(example):
        yield replace(example, references=(as_text(turns[3], "text"),))


SOURCES = (
    Source(
        "mixinstruct",
        INSTRUCTION_FOLLOWING,
        (REAL,),
        None,
        "MIT",
        "train/val/test_data_prepared.jsonl",
        row_by_row(_mixinstruct),
        (("instruction", "input", "candidates"),),
    ),
    Source(
        "llmbar",
        INSTRUCTION_FOLLOWING,
        (REAL,),
        None,
        "MIT",
        "dataset.json: an array of input, output_1, output_2, label",
        row_by_row(_llmbar),
        (("input", "output_1", "output_2", "label"),),
        choice="all",
    ),
    Source(
        "alpaca_farm",
        INSTRUCTION_FOLLOWING,
        (SYNTHETIC,),
        None,
        "CC BY-NC 4.0",
        "sft.json and its like: an array of instruction, input, output",
        row_by_row(_own_instruction("input", "output")),
        (("instruction", "input", "output"),),
    ),
    Source(
        "oasst1",
        INSTRUCTION_FOLLOWING,
        CHANNELS,
        None,
        "Apache-2.0",
        "*.trees.jsonl or *_message.jsonl (message trees) or rows of messages; outputs beside it",
        row_by_row(_oasst),
        (("text", "role", "replies"), ("messages",)),
        unfold=_oasst_tree,
    ),
    Source(
        "guanaco",
        INSTRUCTION_FOLLOWING,
        (SYNTHETIC,),
        None,
        "not verified: GPL-3.0 (GuanacoDataset), Apache-2.0 (openassistant-guanaco)",
        "arrays of instruction, input, output, or lines of text with ### Human: and ### Assistant:",
        row_by_row(_guanaco),
        (("instruction", "input", "output"), ("text",)),
    ),
    Source(
        "dolly",
        INSTRUCTION_FOLLOWING,
        (SYNTHETIC,),
        None,
        "CC BY-SA 3.0",
        "databricks-dolly-15k.jsonl",
        row_by_row(_own_instruction("context", "response")),
        (("instruction", "context", "response"),),
    ),
)
