"""The requests that all sides make: one prompt of remint's, filled with made-up situations."""

from __future__ import annotations

import json

from peers.work import Request
from transforms.llm.prompts import Prompt, Sampling
from transforms.llm.request import RequestForm
from transforms.llm.settings import EngineSettings

MODEL = "fake"

PROMPT = Prompt(
    id="benchmark.v1",
    hash="benchmark",
    schema={
        "type": "object",
        "properties": {
            "utterance": {"type": "string", "minLength": 1, "maxLength": 300},
            "tone": {"type": "string", "enum": ["calm", "tense"]},
        },
        "required": ["utterance", "tone"],
        "additionalProperties": False,
    },
    sampling=Sampling(temperature=0.9, max_tokens=200),
    prefix=({"role": "system", "content": "You put situations into the first person. " * 12},),
    user="Situation: {{ situation }}\nWrite what the person might say.",
)


def requests(number: int) -> list[Request]:
    """Return so many different requests, with the bodies that the engine sends."""
    form = RequestForm(EngineSettings("http://127.0.0.1/v1", MODEL, "unused"), PROMPT)
    made = []
    for each in range(number):
        situation = f"not telling my neighbour number {each} about the noise"
        body = json.loads(form.body(form.question({"situation": situation})))
        made.append(Request(each, situation, body))
    return made
