"""A model by script for tests of the channels, and examples to work on."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import polars as pl

from pipelines.metricinstruct.examples import Item
from pipelines.metricinstruct.schema import CHOSEN, REAL, SYNTHETIC, TRANSLATION
from transforms.llm.calls import Answer, CallClass
from transforms.llm.prompts import Prompt

SOURCE = "Der Laden macht um neun Uhr auf und um sechs Uhr zu."
REFERENCE = "The shop opens at nine and closes at six."
OUTPUT = "The shop opens at ten and close at six."

ERROR: dict[str, Any] = {
    "location": "ten",
    "context": "opens at ten and",
    "suggestion": "nine",
    "explanation": "The source says nine o'clock and not ten.",
    "aspect": "Accuracy",
    "severity": "Major",
    "score_reduction": 4,
}
SECOND_ERROR = ERROR | {
    "location": "close",
    "context": "ten and close at six",
    "suggestion": "closes",
    "explanation": "The verb needs the ending of the third person.",
    "aspect": "Fluency",
    "severity": "Minor",
    "score_reduction": 1,
}
LABELLED_ANSWER = """Incorrect output: The shop opens at ten and close at six.
The model-generated output contains 1 errors, with a total score reduction of 4.
Error location 1: ten
Error aspect 1: Accuracy
Explanation 1: The source says nine o'clock and not ten.
Severity 1: Major
Score reduction 1: 4"""

ORDINARY: dict[str, dict[str, Any]] = {
    "review": {"analysis": ' "ten" is wrong: the source says nine. '},
    "itemise": {"errors": [ERROR]},
    "own_answer": {"answer": "The shop is open from nine to six."},
    "compare": {"errors": [ERROR]},
    "analyse": {"errors": [ERROR]},
    "corrupt": {"output": f" {OUTPUT}\n", "errors": [ERROR, SECOND_ERROR]},
    "corrupt_labelled": {"labelled": LABELLED_ANSWER},
    "corrupt_edits": {
        "edits": [
            {"correct": "nine", "wrong": "ten"}
            | {name: ERROR[name] for name in ("explanation", "aspect", "severity")}
            | {"score_reduction": 4}
        ]
    },
    "free_aspects": {"aspects": ["Tone", "Step  Order", "Units", "Length", "Tone"]},
    "free_form": {"output": OUTPUT, "errors": [ERROR | {"aspect": "step order"}]},
    "paraphrase": {"output": "From nine to six the shop is open."},
    "verify_fix": {"reason": "One of them has the right time.", "better": "A"},
    "verify_analysis": {"reason": "The error named is one.", "right": "yes"},
}

Script = Callable[[str, Mapping[str, Any]], "CallClass | Mapping[str, Any] | None"]


class ScriptedCaller:
    """Answers by the prompt's name; ``script`` may say otherwise, given name and variables.

    Attributes:
        calls: the prompts' ids and the texts of their last messages, in the order asked.
    """

    def __init__(self, script: Script | None = None) -> None:
        self.script = script
        self.calls: list[tuple[str, str]] = []

    async def __call__(
        self, prompt: Prompt, variables: Mapping[str, Any], *, sample: int = 0
    ) -> Answer:
        name = prompt.id.partition(".")[0].partition("-")[0]
        self.calls.append((prompt.id, prompt.messages(variables)[-1]["content"]))
        said = self.script(name, variables) if self.script else None
        request = f"{prompt.id}-{sample}"
        if isinstance(said, CallClass):
            return Answer(said, request, detail="scripted", attempts=2)
        data = json.loads(json.dumps(ORDINARY[name] if said is None else said))
        assert prompt.validate(data) is None, prompt.validate(data)
        return Answer(CallClass.OK, request, data)

    def names(self) -> list[str]:
        return [id_.partition(".")[0].partition("-")[0] for id_, _ in self.calls]


def an_item(channel: str = REAL, **changes: Any) -> Item:
    real = channel == REAL
    item = Item(
        id="0123456789abcdef",
        key="0" * 32,
        channel=channel,
        task=TRANSLATION,
        source="wmt_mqm",
        instruction="Translate the following text from German to English.",
        input_context=SOURCE,
        reference=REFERENCE,
        hypothesis=OUTPUT if real else None,
    )
    return item._replace(**changes)


def chosen_rows(*changes: Mapping[str, Any]) -> pl.DataFrame:
    """Return a frame of ``CHOSEN``: a system's output for each of ``changes``, so changed."""
    rows = []
    for number, change in enumerate(changes):
        row = {
            "key": f"{number:032x}",
            "channel": REAL,
            "task": TRANSLATION,
            "source": "wmt_mqm",
            "split": "train",
            "item": f"item {number}",
            "instruction": "Translate the following text from German to English.",
            "input_context": SOURCE,
            "references": [REFERENCE],
            "hypothesis": OUTPUT,
            "system": "alder",
            "file": "some.tsv",
            "line": number,
            "input_rows": 1,
            "id": f"{number:016x}",
        }
        if change.get("channel") == SYNTHETIC:
            row |= {"hypothesis": None, "system": None}
        rows.append(row | dict(change))
    return pl.DataFrame(rows, schema=dict(CHOSEN))
