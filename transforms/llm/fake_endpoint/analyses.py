"""Error analyses whose locations are words of the output that the question shows.

What is answered depends on the texts in the question, not on a prompt's wording, and there are as
many errors and as long analyses as in the answers that the request shows as examples. A part of
the analyses is faulty in the ways that real ones are (a location that is not in the output, an
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

_TAGGED = re.compile(r"^<(input|output|reference)>\n(.*?)\n</\1>$", re.DOTALL | re.MULTILINE)
_WORD = re.compile(r"\S+")
#: Errors of an output: the most, and how many there are on an average where no example tells.
_MOST, _ERRORS = 4, 1.7
_REASONS = (
    "The source says something else at this place, so the meaning changes.",
    "This detail stands nowhere in the input and should be left out of the text.",
    "The wording is clumsy here; a fluent writer would put it in simpler terms.",
    "An important step is missing at this point, which makes the result hard to follow.",
)


def analysis(
    schema: Mapping[str, Any], question: str, examples: Sequence[Mapping[str, Any]] = ()
) -> dict[str, Any] | None:
    """Return an answer about the texts that ``question`` shows, or None where none are asked about.

    Args:
        schema: of the answer; by its properties the kind of answer is known.
        question: the last message, with texts between tags (``<output>``) on lines of their own.
        examples: answers to other questions.
    """
    asked = schema.get("required", [])
    if not {"labelled", "errors", "output", "analysis"}.intersection(asked):
        return None
    found = _TAGGED.findall(question)
    shown = dict(found)
    texts = [asked, *(text for _, text in found)]
    source = random.Random(hashlib.sha256(json.dumps(texts).encode()).digest())
    if "labelled" in asked and "reference" in shown:
        output, errors = _damaged(shown["reference"], _asked(question), source)
        return {"labelled": _labelled(output, errors)}
    if "errors" in asked and "output" in asked and "reference" in shown:
        output, errors = _damaged(shown["reference"], _asked(question), source)
        return {"output": output, "errors": errors}
    if "errors" in asked and "output" in shown:
        aspects = schema["properties"]["errors"]["items"]["properties"]["aspect"]["enum"]
        numbers = [len(each["errors"]) for each in examples if "errors" in each]
        mean = sum(numbers) / len(numbers) if numbers else _ERRORS
        return {"errors": _errors(shown["output"], aspects, mean, source)}
    if "output" in asked and "reference" in shown:
        return {"output": "In other words, " + shown["reference"]}
    if "analysis" in asked:
        lengths = [len(str(each["analysis"])) for each in examples if "analysis" in each]
        return {"analysis": _notes(source.choice(lengths) if lengths else 0, source)}
    return None


def _notes(length: int, source: random.Random) -> str:
    """Return what a reader might note, in about so many characters."""
    text = "I read the output twice and noted what is wrong with it."
    while len(text) + len(_REASONS[0]) / 2 < length:
        text += f" {source.choice(_REASONS)}"
    return text


def _asked(question: str) -> list[str]:
    return question.rpartition("Errors asked for: ")[2].strip().split(", ")


def _error(
    location: str, context: str, aspect: str, source: random.Random, integers: bool = False
) -> dict[str, Any]:
    severity = source.choices(["Major", "Minor"], [65, 35])[0]
    points = [2, 3, 4, 5] if severity == "Major" else ([1, 2] if integers else [0.5, 1, 1.5])
    return {
        "location": location,
        "context": context,
        "suggestion": f"better {source.randint(1, 99)}",
        "explanation": source.choice(_REASONS),
        "aspect": aspect,
        "severity": severity,
        "score_reduction": source.choice(points),
    }


def _errors(
    output: str, aspects: Sequence[str], mean: float, source: random.Random
) -> list[dict[str, Any]]:
    words = [found.span() for found in _WORD.finditer(output)]
    number = sum(source.random() < mean / _MOST for _ in range(_MOST))
    places = sorted(source.sample(range(len(words)), min(number, len(words) // 3)))
    errors = []
    for place in places:
        around = words[max(0, place - 2) : place + 3]
        location, context = output[slice(*words[place])], output[around[0][0] : around[-1][1]]
        errors.append(_error(location, context, source.choice(aspects), source))
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
        place = source.randint(0, len(words))
        words.insert(place, wrong)
        context = " ".join(words[max(0, place - 2) : place + 3])
        errors.append(_error(wrong, context, aspect, source, integers=True))
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
