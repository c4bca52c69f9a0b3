"""Answers fit the schema, are the same for the same request, and are counted in tokens."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from transforms.llm.fake_endpoint.answers import answered
from transforms.llm.fake_endpoint.replies import Completion
from transforms.llm.json_schema import validator
from transforms.llm.prompts import load_prompts
from transforms.llm.tokens import TOKENS_BEFORE_ANSWER, TOKENS_PER_MESSAGE, token_counter

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


@pytest.mark.parametrize("model", ["gpt-4o-mini", "some-model"])
def test_tokens_are_counted_as_a_dry_run_counts_them(model: str) -> None:
    prompt = PROMPTS["vote"]
    messages = prompt.messages({"history": [], "utterance": "I painted the garden bench red."})
    found = answered({"model": model, "messages": messages, "n": 2}, b"0" * 32)
    count = token_counter(model).count
    read = sum(count(message["content"]) + TOKENS_PER_MESSAGE for message in messages)
    assert found.prompt_tokens == read + TOKENS_BEFORE_ANSWER
    assert found.completion_tokens == sum(count(each.content or "") for each in found.choices)


@pytest.mark.parametrize("name", sorted(PROMPTS))
def test_answers_are_as_long_as_the_examples(name: str) -> None:
    prompt = PROMPTS[name]
    shown = [each["content"] for each in prompt.prefix if each["role"] == "assistant"]
    lengths = []
    for number in range(300):
        messages = [*prompt.prefix, {"role": "user", "content": f"question {number}"}]
        body = {
            "messages": messages,
            "response_format": {"json_schema": {"schema": prompt.schema}},
        }
        found = answered(body, hashlib.sha256(json.dumps(body).encode()).digest())
        content = found.choices[0].content or ""
        assert validator(prompt.schema)(json.loads(content)) is None
        lengths.append(len(content))
    mean = sum(map(len, shown)) / len(shown)
    assert sum(lengths) / len(lengths) == pytest.approx(mean, rel=0.15)


def test_there_are_as_many_errors_as_in_the_examples() -> None:
    error = {"type": "object", "properties": {"aspect": {"enum": ["Fluency"]}}}
    schema = {"properties": {"errors": {"items": error}}, "required": ["errors"]}
    output = "The red door stood open all night and nobody in the house heard the wind"
    numbers = []
    for number in range(600):
        messages = [
            {"role": "system", "content": "List the errors."},
            {"role": "user", "content": "a good one"},
            {"role": "assistant", "content": '{"errors":[]}'},
            {"role": "user", "content": "a bad one"},
            {"role": "assistant", "content": '{"errors":[{},{},{}]}'},
            {
                "role": "user",
                "content": f"<input>\n{number}\n</input>\n<output>\n{output}\n</output>",
            },
        ]
        found = answered(
            {"messages": messages, "response_format": {"json_schema": {"schema": schema}}},
            b"0" * 32,
        )
        numbers.append(len(json.loads(found.choices[0].content or "")["errors"]))
    assert sum(numbers) / len(numbers) == pytest.approx(1.5, abs=0.15)
    assert set(numbers) == {0, 1, 2, 3, 4}
