"""Answers fit the schema, are the same for the same request, and are counted in tokens."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from transforms.llm.fake_endpoint.answers import answered, count_tokens
from transforms.llm.fake_endpoint.replies import Completion
from transforms.llm.json_schema import validator
from transforms.llm.prompts import load_prompts

PROMPTS = load_prompts(Path(__file__).resolve().parents[4] / "pipelines/prosocial/prompts")


def asked(schema: Mapping[str, Any], question: str, **more: Any) -> Completion:
    body = {
        "model": "m",
        "messages": [{"role": "user", "content": question}],
        "response_format": {"json_schema": {"schema": schema}},
        **more,
    }
    return answered(body, hashlib.sha256(json.dumps(body).encode()).digest())


@pytest.mark.parametrize("name", sorted(PROMPTS))
def test_answers_fit_the_schema_of_the_prompt(name: str) -> None:
    schema = PROMPTS[name].schema
    for number in range(200):
        found = asked(schema, f"question {number}")
        content = found.choices[0].content or ""
        assert validator(schema)(json.loads(content)) is None
        assert asked(schema, f"question {number}") == found
        assert found.completion_tokens == count_tokens(content)


def test_each_choice_is_drawn_for_itself() -> None:
    found = asked(PROMPTS["utterance"].schema, "x", n=3)
    assert len({choice.content for choice in found.choices}) == 3
    assert found.model == "m"


def test_a_schema_in_the_system_message_is_met_too() -> None:
    schema = {"type": "object", "properties": {"kind": {"enum": ["a"]}}, "required": ["kind"]}
    messages = [{"role": "system", "content": f"Answer.\nJSON schema: {json.dumps(schema)}"}]
    found = answered({"messages": messages}, b"0" * 32)
    assert found.choices[0].content == '{"kind":"a"}'


def test_errors_lie_in_the_output_that_is_shown() -> None:
    aspect = {"enum": ["Fluency"]}
    error = {"type": "object", "properties": {"aspect": aspect}}
    schema = {"properties": {"errors": {"items": error}}, "required": ["errors"]}
    output = "The red door stood open all night and nobody in the house heard the wind"
    found = []
    for number in range(200):
        question = f"<input>\nnumber {number}\n</input>\n<output>\n{output}\n</output>"
        found += json.loads(asked(schema, question).choices[0].content or "")["errors"]
    inside = [each for each in found if each["location"] in output]
    assert {each["aspect"] for each in found} == {"Fluency"}
    assert 0.9 * len(found) < len(inside) < len(found)  # a few are faulty on purpose


@pytest.mark.parametrize(
    ("text", "tokens"),
    [("", 0), ("A small secret.", 4), ("internationalisation", 3), ("in 2024, 12345", 6)],
)
def test_tokens_are_words_pieces_and_signs(text: str, tokens: int) -> None:
    assert count_tokens(text) == tokens
