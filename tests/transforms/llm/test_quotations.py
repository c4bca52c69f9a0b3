"""What answers copy from their questions is found by the examples, and copied anew."""

from __future__ import annotations

import json
from typing import Any

from transforms.llm.prompts import Prompt, Sampling
from transforms.llm.quotations import Quotations, blocks

ERROR = {
    "type": "object",
    "properties": {
        "location": {"type": "string"},
        "reason": {"type": "string"},
        "severity": {"enum": ["Major", "Minor"]},
    },
}
LIST = {"type": "array", "items": ERROR}
OUTPUT = "The train was twelve minutes late because of a tree."
REFERENCE = "The train was twenty minutes late because of a tree."


def tagged(**texts: str) -> str:
    return "\n".join(f"<{tag}>\n{text}\n</{tag}>" for tag, text in texts.items())


def a_prompt(question: str, answer: dict[str, Any], **properties: Any) -> Prompt:
    prefix = (
        {"role": "system", "content": "Judge."},
        {"role": "user", "content": question},
        {"role": "assistant", "content": json.dumps(answer)},
    )
    schema = {"type": "object", "properties": properties}
    return Prompt("judge.v1", "0" * 64, schema, Sampling(), prefix, "{{ output }}")


def error(location: str) -> dict[str, str]:
    return {"location": location, "reason": "It is wrong.", "severity": "Major"}


def test_words_of_the_question_are_taken_from_the_question_at_hand() -> None:
    notes = 'Major: "twelve" is wrong, and so is "a tree". It was twenty minutes.' * 2
    question = tagged(output=OUTPUT, notes=notes)
    answer = {"errors": [error("twelve"), error("a tree.")]}
    quotations = Quotations(a_prompt(question, answer, errors=LIST))
    # The severity stands in the notes as well, but nobody is free to choose it.
    assert quotations.copied == {("errors", "location"): "output"}
    assert quotations.edited == {}
    other = "One two three four five six seven"
    for drawn in (0.0, 0.3, 0.999):
        found = quotations.moved(answer, tagged(output=other, notes="x"), drawn)
        first, second = found["errors"]
        assert (len(first["location"].split()), len(second["location"].split())) == (1, 2)
        assert first["location"] in other
        assert second["location"] in other
        assert (first["reason"], first["severity"]) == ("It is wrong.", "Major")
    short = quotations.moved(answer, tagged(output="One"), 0.5)
    assert [each["location"] for each in short["errors"]] == ["One", "One"]


def test_a_text_with_changes_is_the_one_at_hand_with_the_same_changes() -> None:
    answer = {"output": OUTPUT, "errors": [error("twelve")]}
    text = {"type": "string"}
    prompt = a_prompt(tagged(reference=REFERENCE), answer, output=text, errors=LIST)
    quotations = Quotations(prompt)
    assert quotations.edited == {("output",): "reference"}
    reference = "Bees make honey and wax."
    found = quotations.moved(answer, tagged(reference=reference), 0.2)
    assert found["errors"] == answer["errors"]
    words = found["output"].split(" ")
    words.remove("twelve")
    assert " ".join(words) == reference


def test_what_is_not_shown_stays() -> None:
    answer = {"errors": [error("twelve")]}
    quotations = Quotations(a_prompt(tagged(output=OUTPUT), answer, errors=LIST))
    assert quotations.moved(answer, "nothing between tags", 0.5) == answer
    free = Quotations(a_prompt("Say something.", answer, errors=LIST))
    assert free.moved(answer, tagged(output=OUTPUT), 0.5) == answer
    assert blocks("<a>\nx\ny\n</a>\n<b>z</b>") == {"a": "x\ny"}
