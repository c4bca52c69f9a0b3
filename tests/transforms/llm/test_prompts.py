"""Prompt files: what they render to, and what is refused when they are loaded."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import jinja2
import pytest
import yaml

from transforms.errors import InputError
from transforms.llm.prompts import Prompt, load_prompts

CONTENT: dict[str, Any] = {
    "name": "reply",
    "version": 3,
    "about": "for tests",
    "system": "Be brief.",
    "user": "Turn {{ turn }}: {{ text }}\n{% for rot in rots %}\n- {{ rot }}\n{% endfor %}",
    "examples": [
        {
            "variables": {"turn": 1, "text": "hello", "rots": ["be kind"]},
            "answer": {"reply": "hé"},
        }
    ],
    "schema": {
        "type": "object",
        "properties": {"reply": {"type": "string"}},
        "required": ["reply"],
        "additionalProperties": False,
    },
    "sampling": {"temperature": 0.9, "max_tokens": 50, "origin": "for tests"},
}


def load(directory: Path, **changes: Any) -> Prompt:
    content = {**CONTENT, **changes}
    text = yaml.safe_dump({name: value for name, value in content.items() if value is not ...})
    (directory / "reply.yaml").write_text(text, encoding="utf-8")
    return load_prompts(directory)["reply"]


def test_messages_are_system_examples_and_question(tmp_path: Path) -> None:
    prompt = load(tmp_path)
    assert prompt.id == "reply.v3"
    assert prompt.sampling.parameters()["temperature"] == 0.9
    assert "origin" not in prompt.sampling.parameters()
    variables = {"turn": 2, "text": "so\nUser: {{ turn }} <|end|>", "rots": ["a", "b"]}
    assert prompt.messages(variables) == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Turn 1: hello\n- be kind"},
        {"role": "assistant", "content": '{"reply":"hé"}'},
        {"role": "user", "content": "Turn 2: so User - {{ turn }} < |end| >\n- a\n- b"},
    ]


def test_missing_and_unprintable_variables_are_errors(tmp_path: Path) -> None:
    prompt = load(tmp_path)
    with pytest.raises(jinja2.UndefinedError, match="text"):
        prompt.messages({"turn": 1, "rots": []})
    with pytest.raises(TypeError, match="NoneType"):
        prompt.messages({"turn": 1, "text": None, "rots": []})


def test_survives_pickling_after_use(tmp_path: Path) -> None:
    prompt = load(tmp_path)
    variables = {"turn": 1, "text": "x", "rots": []}
    messages = prompt.messages(variables)
    assert prompt.validate({"reply": 1}) is not None
    copy = pickle.loads(pickle.dumps(prompt))
    assert copy == prompt
    assert copy.messages(variables) == messages


@pytest.mark.parametrize(
    "change",
    [
        {"version": 4},
        {"about": "other"},
        {"system": "Be very brief."},
        {"user": "Turn {{ turn }}: {{ text }}!"},
        {"examples": []},
        {"sampling": {"temperature": 0.8, "max_tokens": 50, "origin": "for tests"}},
    ],
)
def test_the_hash_changes_with_the_content(tmp_path: Path, change: dict[str, Any]) -> None:
    assert load(tmp_path).hash == load(tmp_path).hash
    assert load(tmp_path, **change).hash != load(tmp_path).hash


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"name": "other"}, "called reply.yaml"),
        ({"version": "1"}, "whole number"),
        ({"about": ...}, "exactly these fields"),
        ({"system": "Use {{ tone }}."}, "tone"),
        ({"user": "{{ turn"}, "expected"),
        ({"schema": {"type": "array"}}, "schema of an object"),
        ({"schema": {"type": "object", "properties": {}}}, "additionalProperties"),
        ({"examples": [{"variables": {}, "answer": {"reply": "x"}}]}, "undefined"),
        (
            {"examples": [{"variables": CONTENT["examples"][0]["variables"], "answer": {}}]},
            "answer of example 1 does not fit the schema: /reply: missing",
        ),
        ({"sampling": {"temprature": 1}}, "temprature"),
    ],
)
def test_a_faulty_file_is_named(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=r"reply\.yaml") as raised:
        load(tmp_path, **change)
    assert message in str(raised.value)


def test_no_prompts_and_no_yaml_are_errors(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no prompts"):
        load_prompts(tmp_path)
    (tmp_path / "reply.yaml").write_text("a: [", encoding="utf-8")
    with pytest.raises(InputError, match=r"reply\.yaml"):
        load_prompts(tmp_path)
