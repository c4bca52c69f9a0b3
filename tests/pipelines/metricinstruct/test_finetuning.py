from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.metricinstruct.errors.record import ErrorRecord
from pipelines.metricinstruct.errors.released import errors_text, parse_labelled
from pipelines.metricinstruct.finetuning import PROMPT_END, PROMPT_OUTPUT, PROMPT_START, fine_tuning

# The formatted example of the dataset's card, byte for byte.
CARD_EXAMPLE = """\
You are evaluating errors in a model-generated output for a given instruction.
Instruction: Translate the following text from German to English.
Der künftige EM-Cheforganisator Philipp Lahm soll laut Grindel im DFB-Präsidium mitarbeiten.

Model-generated Output:
According to Grindel, the future head of the European Championships, Philipp Lahm, is to \
participate in the DFB Presidency.

For each error you give in the response, please also elaborate the following information:
- error location (the words that are wrong in the output)
- error aspect it belongs to.
- explanation why it's an error, and the correction suggestions.
- severity of the error ("Major" or "Minor").
- reduction of score (between 0.5 and 5 given the severity of the error)

Your evaluation output:
"""


def _row(instruction: str, input_context: str, output: str, errors: str) -> pl.DataFrame:
    return pl.DataFrame(
        {
            "instruction": [instruction],
            "input_context": [input_context],
            "hypo_output": [output],
            "errors": [errors],
        }
    )


def _example() -> str:
    row = _row(
        "Translate the following text from German to English.",
        "Der künftige EM-Cheforganisator Philipp Lahm soll laut Grindel im DFB-Präsidium "
        "mitarbeiten.",
        "According to Grindel, the future head of the European Championships, Philipp Lahm, is to "
        "participate in the DFB Presidency.",
        "",
    )
    prompt: str = fine_tuning(row)["prompt"].item()
    return prompt


def test_prompt_is_the_example_of_the_card() -> None:
    assert _example().encode() == CARD_EXAMPLE.encode()


def test_example_stands_on_the_card(shared_data: Callable[[str], Path]) -> None:
    card = shared_data("../cards/metricinstruct_card.txt").read_text(encoding="utf-8")
    assert f"```txt\n{_example()}```" in card


_TEXT = st.text(st.characters(codec="utf-8"), max_size=12) | st.sampled_from(
    ["${input_context}", "{} {0}", "$", "\n", " x "]
)


@settings(max_examples=60, deadline=None)
@given(_TEXT, _TEXT, _TEXT)
def test_prompt_holds_the_row_verbatim(instruction: str, input_context: str, output: str) -> None:
    error = ErrorRecord("x", "Accuracy", "Why.", "Major", 4.0)
    formatted = fine_tuning(_row(instruction, input_context, output, errors_text([error])))
    prompt, completion = formatted.row(0)
    middle = prompt.removeprefix(PROMPT_START).removesuffix(PROMPT_END)
    assert middle == f"{instruction}\n{input_context}{PROMPT_OUTPUT}{output}"
    # What the card's code strips from both ends is never part of the row.
    assert (prompt.strip("\n ") + "\n") == prompt
    assert parse_labelled(completion).errors == (error,)
