"""A judge for ``FakeEndpoint``: analyses whose locations are words of the output in the prompt.

What it answers depends on the texts in the question alone, not on a prompt's wording. A part of its
analyses is faulty in the ways that real ones are (a location that is not in the output, an
explanation that mentions the reference, a reduction that does not fit the severity), so that
filters have something to find.
"""

from __future__ import annotations

import hashlib
import json
import random
import re
from collections.abc import Mapping, Sequence
from typing import Any

from tests.fake_endpoint import Reply, completion

_TAGGED = r"^<{tag}>\n(.*?)\n</{tag}>$"
_WORD = re.compile(r"\S+")
_REASONS = (
    "The source says something else at this place, so the meaning changes.",
    "This detail stands nowhere in the input and should be left out of the text.",
    "The wording is clumsy here; a fluent writer would put it in simpler terms.",
    "An important step is missing at this point, which makes the result hard to follow.",
)


def judge(index: int, body: Mapping[str, Any]) -> Reply | None:
    """Return the answer to any prompt of MetricInstruct, drawn from the texts it shows."""
    del index
    schema = body["response_format"]["json_schema"]["schema"]
    asked = schema["required"]
    question = body["messages"][-1]["content"]
    texts = [
        asked,
        *re.findall(_TAGGED.format(tag="(?:input|output|reference)"), question, re.S | re.M),
    ]
    source = random.Random(hashlib.sha256(json.dumps(texts).encode()).digest())
    if "labelled" in asked:
        output, errors = _damaged(_tagged(question, "reference"), _asked(question), source)
        answer: dict[str, Any] = {"labelled": _labelled(output, errors)}
    elif "errors" in asked and "output" in asked:
        output, errors = _damaged(_tagged(question, "reference"), _asked(question), source)
        answer = {"output": output, "errors": errors}
    elif "errors" in asked:
        aspects = schema["properties"]["errors"]["items"]["properties"]["aspect"]["enum"]
        answer = {"errors": _errors(_tagged(question, "output"), aspects, source)}
    elif "output" in asked:
        answer = {"output": "In other words, " + _tagged(question, "reference")}
    elif "analysis" in asked:
        answer = {"analysis": "I read the output twice and noted what is wrong with it."}
    else:
        return None
    return Reply(body=completion(json.dumps(answer)))


def _tagged(question: str, tag: str) -> str:
    found = re.search(_TAGGED.format(tag=tag), question, re.S | re.M)
    assert found is not None, f"no <{tag}> in the question"
    return found[1]


def _asked(question: str) -> list[str]:
    return question.rpartition("Errors asked for: ")[2].strip().split(", ")


def _error(
    location: str, aspect: str, source: random.Random, integers: bool = False
) -> dict[str, Any]:
    severity = source.choices(["Major", "Minor"], [65, 35])[0]
    points = [2, 3, 4, 5] if severity == "Major" else ([1, 2] if integers else [0.5, 1, 1.5])
    return {
        "location": location,
        "context": "",
        "suggestion": f"better {source.randint(1, 99)}",
        "explanation": source.choice(_REASONS),
        "aspect": aspect,
        "severity": severity,
        "score_reduction": source.choice(points),
    }


def _errors(output: str, aspects: Sequence[str], source: random.Random) -> list[dict[str, Any]]:
    words = [found.span() for found in _WORD.finditer(output)]
    number = min(source.choices([0, 1, 2, 3, 4], [20, 25, 30, 15, 10])[0], len(words) // 3)
    places = sorted(source.sample(range(len(words)), number))
    errors = [
        _error(output[slice(*words[place])], source.choice(aspects), source) for place in places
    ]
    fault = source.random()
    if errors and fault < 0.05:
        errors[0]["location"] = "words that the output lacks"
    elif errors and fault < 0.1:
        errors[0]["explanation"] = "The reference has another word at this place of the text."
    elif errors and fault < 0.15:
        errors[0].update(severity="Major", score_reduction=0.5)
    return errors


def _damaged(
    reference: str, aspects: Sequence[str], source: random.Random
) -> tuple[str, list[dict[str, Any]]]:
    words = reference.split(" ")
    errors = []
    for number, aspect in enumerate(aspects):
        wrong = f"wrong{number}x{source.randint(100, 999)}"
        words.insert(source.randint(0, len(words)), wrong)
        errors.append(_error(wrong, aspect, source, integers=True))
    return " ".join(words), errors


def _labelled(output: str, errors: Sequence[Mapping[str, Any]]) -> str:
    total = sum(error["score_reduction"] for error in errors)
    lines = [
        f"Incorrect output: {output}",
        f"The model-generated output contains {len(errors)} errors, "
        f"with a total score reduction of {total}.",
    ]
    for number, error in enumerate(errors, 1):
        lines += [
            f"Error location {number}: {error['location']}",
            f"Error aspect {number}: {error['aspect']}",
            f"Explanation {number}: {error['explanation']}",
            f"Severity {number}: {error['severity']}",
            f"Score reduction {number}: {error['score_reduction']}",
        ]
    return "\n".join(lines)
