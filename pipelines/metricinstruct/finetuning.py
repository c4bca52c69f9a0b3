"""The fine-tuning form of an analysis: TIGERScore's prompt, to the letter, and its completion.

The template is an interface: the models trained on MetricInstruct know no other. It stands on the
dataset's card.
"""

from __future__ import annotations

import polars as pl

PROMPT_START = (
    "You are evaluating errors in a model-generated output for a given instruction.\nInstruction: "
)
PROMPT_OUTPUT = "\n\nModel-generated Output:\n"
PROMPT_END = """

For each error you give in the response, please also elaborate the following information:
- error location (the words that are wrong in the output)
- error aspect it belongs to.
- explanation why it's an error, and the correction suggestions.
- severity of the error ("Major" or "Minor").
- reduction of score (between 0.5 and 5 given the severity of the error)

Your evaluation output:
"""


def fine_tuning(rows: pl.DataFrame) -> pl.DataFrame:
    """Return the prompt and the completion of each row.

    Args:
        rows: columns instruction, input_context, hypo_output and errors (the released text), all
            String and none null; the order is kept.

    Returns:
        Columns prompt and completion, both String. The completion is the released text.
    """
    return rows.select(
        pl.concat_str(
            pl.lit(PROMPT_START),
            "instruction",
            pl.lit("\n"),
            "input_context",
            pl.lit(PROMPT_OUTPUT),
            "hypo_output",
            pl.lit(PROMPT_END),
        ).alias("prompt"),
        pl.col("errors").alias("completion"),
    )
