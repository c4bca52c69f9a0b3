"""Request keys change with everything that shapes an answer, and with nothing else."""

from __future__ import annotations

import gc
import json
import pickle
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transforms.llm.prices import Price
from transforms.llm.prompts import Prompt, Sampling
from transforms.llm.request import RequestForm, RequestForms
from transforms.llm.settings import EngineSettings, StructuredMode, endpoint_identity

SETTINGS = EngineSettings("http://localhost/v1", "model", "cache")
SITUATION = {"situation": "late again"}


def key(
    settings: EngineSettings,
    prompt: Prompt,
    variables: dict[str, Any] = SITUATION,
    sample: int = 0,
    room: int = 1,
) -> str:
    form = RequestForm(settings, prompt, room)
    return form.key(form.question(variables), sample)


def body(settings: EngineSettings, prompt: Prompt, room: int = 1) -> dict[str, Any]:
    form = RequestForm(settings, prompt, room)
    parsed: dict[str, Any] = json.loads(form.body(form.question(SITUATION)))
    return parsed


def with_sampling(prompt: Prompt, **changes: Any) -> Prompt:
    return replace(prompt, sampling=replace(prompt.sampling, **changes))


CHANGES: dict[str, Callable[[Prompt], str]] = {
    "endpoint": lambda p: key(replace(SETTINGS, endpoint="embedded:abc"), p),
    "model": lambda p: key(replace(SETTINGS, model="other"), p),
    "structured": lambda p: key(replace(SETTINGS, structured=StructuredMode.JSON_OBJECT), p),
    "text only": lambda p: key(replace(SETTINGS, structured=StructuredMode.NONE), p),
    "extra body": lambda p: key(replace(SETTINGS, extra_body='{"seed":1}'), p),
    "system": lambda p: key(SETTINGS, replace(p, prefix=({"role": "system", "content": "x"},))),
    "template": lambda p: key(SETTINGS, replace(p, user="{{ situation }}")),
    "schema": lambda p: key(SETTINGS, replace(p, schema={**p.schema, "title": "x"})),
    "variables": lambda p: key(SETTINGS, p, {"situation": "late"}),
    "sample": lambda p: key(SETTINGS, p, sample=1),
    "room": lambda p: key(SETTINGS, p, room=2),
    "temperature": lambda p: key(SETTINGS, with_sampling(p, temperature=0.1)),
    "top_p": lambda p: key(SETTINGS, with_sampling(p, top_p=0.1)),
    "frequency": lambda p: key(SETTINGS, with_sampling(p, frequency_penalty=0.1)),
    "presence": lambda p: key(SETTINGS, with_sampling(p, presence_penalty=0.1)),
    "tokens": lambda p: key(SETTINGS, with_sampling(p, max_tokens=7)),
}


def test_every_ingredient_changes_the_key(prompt: Prompt) -> None:
    keys = {name: change(prompt) for name, change in CHANGES.items()}
    keys["none"] = key(SETTINGS, prompt)
    assert len(set(keys.values())) == len(keys)
    assert all(len(value) == 64 for value in keys.values())


def test_what_does_not_shape_the_answer_leaves_the_key_alone(prompt: Prompt) -> None:
    same = key(SETTINGS, prompt)
    other = replace(SETTINGS, cache="elsewhere", concurrency=1, timeout=5.0, retries=0)
    assert key(other, prompt) == same
    assert key(replace(SETTINGS, base_url="http://localhost:1/v1"), prompt) == same
    assert key(SETTINGS, replace(prompt, hash="1" * 64, about="x")) == same
    assert key(SETTINGS, with_sampling(prompt, origin="elsewhere")) == same


@given(st.text(max_size=8), st.text(max_size=8), st.integers(0, 300), st.integers(0, 300))
def test_keys_are_equal_exactly_when_question_and_sample_are(
    one: str, other: str, first: int, second: int
) -> None:
    prompt = Prompt(
        id="p.v1",
        hash="",
        schema={"type": "object"},
        sampling=Sampling(),
        prefix=({"role": "system", "content": "x"},),
        user="{{ situation }}",
    )
    form = RequestForm(SETTINGS, prompt)
    questions = [form.question({"situation": text}) for text in (one, other)]
    keys = [form.key(*pair) for pair in zip(questions, (first, second), strict=True)]
    same = (questions[0], first) == (questions[1], second)
    assert (keys[0] == keys[1]) == same


def test_the_body_is_what_the_prompt_says(prompt: Prompt) -> None:
    sent = body(SETTINGS, prompt)
    assert sent["messages"] == prompt.messages(SITUATION)
    assert sent["model"] == "model"
    assert sent["temperature"] == 0.9
    assert sent["max_tokens"] == 100
    assert body(SETTINGS, prompt, room=2)["max_tokens"] == 200
    assert sent["response_format"]["json_schema"] == {
        "name": "utterance_v1",
        "strict": True,
        "schema": prompt.schema,
    }


def test_where_no_schema_is_sent_it_stands_in_the_prompt(prompt: Prompt) -> None:
    for mode, format_ in ((StructuredMode.JSON_OBJECT, {"type": "json_object"}), ("none", None)):
        sent = body(replace(SETTINGS, structured=StructuredMode(mode)), prompt)
        assert sent.get("response_format") == format_
        assert '"maxLength":200' in sent["messages"][0]["content"]
    assert "maxLength" not in body(SETTINGS, prompt)["messages"][0]["content"]


def test_the_extra_body_adds_replaces_and_removes(prompt: Prompt) -> None:
    extra = '{"seed": 7, "max_tokens": null, "max_completion_tokens": 30}'
    sent = body(replace(SETTINGS, extra_body=extra), prompt, room=2)
    assert sent["seed"] == 7
    assert "max_tokens" not in sent
    assert sent["max_completion_tokens"] == 60
    with pytest.raises(ValueError, match="messages"):
        body(replace(SETTINGS, extra_body='{"messages": []}'), prompt)


@pytest.mark.parametrize(
    ("extra", "bound"),
    [
        ("{}", 100),
        ('{"max_completion_tokens": 30}', 100),
        ('{"max_completion_tokens": 130}', 130),
        ('{"max_tokens": 7}', 7),
        ('{"max_tokens": null, "max_completion_tokens": 30}', 30),
        ('{"max_tokens": null}', 4096),
    ],
)
def test_the_greatest_bound_on_an_answer_is_counted_with(
    prompt: Prompt, extra: str, bound: int
) -> None:
    assert RequestForm(replace(SETTINGS, extra_body=extra), prompt).completion_tokens == bound


@pytest.mark.parametrize("length", ['"512"', "0", "1.5", "true"])
def test_a_bound_on_an_answer_is_a_number_of_tokens(length: str) -> None:
    with pytest.raises(ValueError, match="max_tokens"):
        replace(SETTINGS, extra_body=f'{{"max_tokens": {length}}}')


def test_a_budget_needs_bounds_on_answers() -> None:
    price = Price(1, 1, 1)
    with pytest.raises(ValueError, match="length"):
        replace(SETTINGS, extra_body='{"max_tokens": null}', max_cost=1, price=price)
    with pytest.raises(ValueError, match="finite"):
        replace(SETTINGS, rpm=float("inf"))


def test_prompts_with_one_hash_and_other_sampling_have_forms_of_their_own(prompt: Prompt) -> None:
    forms = RequestForms(SETTINGS)
    cold = with_sampling(prompt, temperature=0.0)
    assert forms.get(prompt, 1) is forms.get(prompt, 1)
    assert forms.get(cold, 1) is not forms.get(prompt, 1)


def test_a_form_goes_with_its_prompt(prompt: Prompt) -> None:
    """A worker unpickles its work, and the prompts with it, for each bundle."""
    forms = RequestForms(SETTINGS)
    bodies = set()
    for _ in range(20):
        one = pickle.loads(pickle.dumps(prompt))
        form = forms.get(one, 1)
        bodies.add(form.body(form.question(SITUATION)))
        assert forms.get(one, 1) is form
        assert forms.get(one, 2) is not form
        del one, form
        gc.collect()
        assert not forms._forms
    assert len(bodies) == 1


def test_settings_are_checked() -> None:
    assert SETTINGS.endpoint == "http://localhost/v1"
    identity = endpoint_identity("HTTPS://user:secret@API.example.org:8443/V1/?key=secret")
    assert identity == "https://api.example.org:8443/V1"
    with pytest.raises(ValueError, match="JSON object"):
        replace(SETTINGS, extra_body="[]")
    with pytest.raises(ValueError, match="positive"):
        replace(SETTINGS, concurrency=0)
