"""The facts of MetricInstruct in one place: tasks, aspects, severities, weights, and every schema.

Tasks, aspects and the score bands stand in the dataset card and the TIGERScore paper (Jiang et al.
2023); the MQM weights are those of Freitag et al. (2021).
"""

from __future__ import annotations

from typing import Final

import polars as pl
import pyarrow as pa

from pipelines.metricinstruct.errors.record import ERRORS
from transforms.frames import Schema

SUMMARIZATION = "summarization"
TRANSLATION = "translation"
DATA_TO_TEXT = "data2text"
LONG_FORM_QA = "long-form QA"
MATH_QA = "mathQA"
INSTRUCTION_FOLLOWING = "instruction-following"
TASKS = (SUMMARIZATION, TRANSLATION, DATA_TO_TEXT, LONG_FORM_QA, MATH_QA, INSTRUCTION_FOLLOWING)

#: Closed list of aspects for each task; every error has exactly one of its task's aspects.
ASPECTS: dict[str, tuple[str, ...]] = {
    SUMMARIZATION: ("Relevance", "Fact Consistency", "Coherence", "Fluency"),
    TRANSLATION: ("Accuracy", "Fluency", "Terminology", "Style Matching"),
    DATA_TO_TEXT: ("Accuracy", "Logical Coherence", "Fluency"),
    LONG_FORM_QA: ("Accuracy", "Completeness", "Informativeness", "Clarity"),
    MATH_QA: (
        "Problem Understanding",
        "Problem Formulation",
        "Computing Accuracy",
        "Solution Interpretation",
    ),
    INSTRUCTION_FOLLOWING: ("Comprehension", "Accuracy", "Informativeness", "Coherence"),
}

MAJOR = "Major"
MINOR = "Minor"
SEVERITIES = (MAJOR, MINOR)

#: What a system wrote for a real input, and what the model writes by damaging a reference.
REAL = "real"
SYNTHETIC = "synthetic"
CHANNELS = (REAL, SYNTHETIC)

SPLITS = ("train", "validation", "test")
#: Which split an input's rows go to where its sources disagree: evaluation sets stay whole.
SPLIT_PRIORITY = ("test", "validation", "train")

#: The mark of an annotator who found nothing; such a row of ``HUMAN_ERRORS`` is not an error.
NO_ERROR = "No-error"
#: What the name of an annotator begins with who is a model, in annotations that came with the data.
MODEL_ANNOTATOR = "model "

MQM_MAJOR: Final = 5.0
MQM_MINOR: Final = 1.0
MQM_MINOR_PUNCTUATION: Final = 0.1
MQM_NON_TRANSLATION: Final = 25.0

# --- frames between the stages -----------------------------------------------------------------

#: One row per (input, output); in the synthetic channel one row per input, without an output.
EXAMPLES: Schema = {
    "key": pl.String,  # of the source input: see ``source_key``
    "channel": pl.String,
    "task": pl.String,
    "source": pl.String,  # name of the source, e.g. wmt_mqm
    "stratum": pl.String,  # what is sampled apart within the source, e.g. en-de; null: all of it
    "split": pl.String,  # null where the source has none
    "item": pl.String,  # the input's id in the source; with source and system it is unique
    "instruction": pl.String,
    "input_context": pl.String,
    "references": pl.List(pl.String),  # the first is the one that is shown or edited
    "reference_system": pl.String,  # who wrote the first reference, where the data says
    "hypothesis": pl.String,
    "system": pl.String,
    "quality": pl.Float64,  # given in the data, higher is better, comparable within one input only
    "file": pl.String,
    "line": pl.Int64,  # of the input; the row's number in parquet and JSON arrays
    "input_rows": pl.Int64,  # rows of the source's files that end in this row
}

#: One row per error that a human annotator marked, or per annotation without an error.
HUMAN_ERRORS: Schema = {
    "key": pl.String,
    "source": pl.String,
    "system": pl.String,
    "item": pl.String,
    "id": pl.String,  # of the output, as in ``CHOSEN``: outputs that are identical share it
    "annotator": pl.String,
    "side": pl.String,  # output | source | null: nothing is marked
    "start": pl.Int64,  # in characters of the output (or the source), null where nothing is marked
    "end": pl.Int64,
    "text": pl.String,
    "category": pl.String,  # as the annotators' scheme names it; No-error: nothing was found
    "severity": pl.String,
    "weight": pl.Float64,  # MQM weight, null where the scheme has none
    "comment": pl.String,
    "file": pl.String,
    "line": pl.Int64,
}

#: What rows of files beside a source are.
ANNOTATION, OUTPUT = "annotation", "output"

#: One row per row of a file beside a source (--outputs, --annotations), as one file of the source
#: tells of it.
BESIDE: Schema = {
    "unit": pl.String,  # annotation | output
    "file": pl.String,
    "line": pl.Int64,  # of a sampling report: the number of the prompt
    "source": pl.String,
    "task": pl.String,
    "item": pl.String,
    "system": pl.String,
    "text": pl.String,
    "used": pl.Boolean,  # whether the source's file has what the row names
}

#: One row per example that goes on to the model: an example, and how it was chosen.
CHOSEN: Schema = {
    **EXAMPLES,
    "id": pl.String,  # of key, input and output: see ``output_id``
    "systems": pl.List(pl.String),  # all systems that gave this very output
    "metric": pl.String,  # given | chrf | bleu | rouge, null where nothing was ranked
    "rank": pl.Int64,  # 1 is best, null where nothing was ranked
    "outputs": pl.Int64,  # distinct outputs of this input
    "choice": pl.String,  # best | middle | worst | sampled | all
}

# --- what a version publishes ------------------------------------------------------------------

#: The released schema: four columns, in this order.
RELEASED = pa.schema(
    [
        pa.field("instruction", pa.string()),
        pa.field("input_context", pa.string()),
        pa.field("hypo_output", pa.string()),
        pa.field("errors", pa.string()),
    ]
)

#: The same rows with everything a program wants to read of them; ``id`` names a row everywhere.
STRUCTURED = pa.schema(
    [
        pa.field("id", pa.string()),  # of key, input and output: see ``output_id``
        pa.field("key", pa.string()),  # of the input: all outputs for it share it
        pa.field("task", pa.string()),
        pa.field("channel", pa.string()),
        pa.field("source", pa.string()),
        pa.field("stratum", pa.string()),  # the language pair, null elsewhere
        pa.field("system", pa.string()),  # null in the synthetic channel
        pa.field("kind", pa.string()),  # real | corrupted | reference | paraphrase | free_form
        pa.field("instruction", pa.string()),
        pa.field("input_context", pa.string()),
        pa.field("hypo_output", pa.string()),
        pa.field("references", pa.list_(pa.string())),  # the first one was shown or edited
        pa.field("errors", ERRORS),
        pa.field("error_count", pa.int32()),
        pa.field("score_reduction", pa.float64()),  # the sum over the errors
    ]
)

#: TIGERScore's fine-tuning prompt and the released text as its completion.
FINE_TUNING = pa.schema([pa.field("prompt", pa.string()), pa.field("completion", pa.string())])

#: What a check of the verification said.
VERDICT = pa.struct(
    [
        pa.field("check", pa.string()),  # fix | analysis
        pa.field("error", pa.int32()),  # the error's number, from 1; null: the analysis as a whole
        pa.field("outcome", pa.string()),
        pa.field("swapped", pa.bool_()),  # the two outputs were shown in the other order
        pa.field("reason", pa.string()),
        pa.field("prompt_id", pa.string()),
        pa.field("request_hash", pa.string()),
        pa.field("model", pa.string()),
    ]
)

#: One row per published row: where it comes from, how it was chosen, and how it was made.
PROVENANCE = pa.schema(
    [
        pa.field("id", pa.string()),
        pa.field("key", pa.string()),
        pa.field("channel", pa.string()),
        pa.field("source", pa.string()),
        pa.field("item", pa.string()),  # the input's id in the source
        pa.field("systems", pa.list_(pa.string())),  # all systems that gave this very output
        pa.field("file", pa.string()),
        pa.field("line", pa.int64()),
        pa.field("quality", pa.float64()),  # given in the data
        pa.field("metric", pa.string()),  # by which the input's outputs were ranked
        pa.field("rank", pa.int64()),
        pa.field("outputs", pa.int64()),
        pa.field("choice", pa.string()),
        pa.field("kind", pa.string()),
        pa.field("form", pa.string()),  # of the answer: structured | labelled
        pa.field("aspects_asked", pa.list_(pa.string())),
        pa.field("aspects_missing", pa.list_(pa.string())),  # asked and not among the errors
        pa.field("aspects_unasked", pa.list_(pa.string())),
        pa.field("truncated", pa.list_(pa.string())),  # texts that were cut before they were shown
        pa.field("analysis_text", pa.string()),  # the free-text analysis of the first step
        pa.field("own_answer", pa.string()),
        pa.field("errors_removed", pa.int32()),  # the smallest ones of an analysis too long
        pa.field("models", pa.list_(pa.string())),  # one per call, as the other lists
        pa.field("prompt_ids", pa.list_(pa.string())),
        pa.field("prompt_hashes", pa.list_(pa.string())),
        pa.field("request_hashes", pa.list_(pa.string())),
        pa.field("sampling", pa.list_(pa.string())),  # JSON
        pa.field("verdicts", pa.list_(VERDICT)),
    ]
)

#: One row per human annotation of a published output: an error, or that there is none.
HUMAN = pa.schema(
    [
        pa.field("id", pa.string()),  # of the published row
        pa.field("key", pa.string()),
        pa.field("source", pa.string()),
        pa.field("system", pa.string()),
        pa.field("item", pa.string()),
        pa.field("annotator", pa.string()),  # as the source names them
        # output | source | null: nothing is marked; beyond output | beyond source: the mark stands
        # beyond the end of the text, which was cut
        pa.field("side", pa.string()),
        pa.field("start", pa.int64()),
        pa.field("end", pa.int64()),
        pa.field("text", pa.string()),
        pa.field("category", pa.string()),
        pa.field("severity", pa.string()),
        pa.field("weight", pa.float64()),
        pa.field("comment", pa.string()),
        pa.field("file", pa.string()),
        pa.field("line", pa.int64()),
    ]
)

#: One row per example whose call ended without a usable answer and would so again.
DEAD = pa.schema(
    [
        pa.field("id", pa.string()),
        pa.field("key", pa.string()),
        pa.field("channel", pa.string()),
        pa.field("task", pa.string()),
        pa.field("source", pa.string()),
        pa.field("split", pa.string()),
        pa.field("item", pa.string()),
        pa.field("system", pa.string()),
        pa.field("step", pa.string()),  # the prompt's id
        pa.field("error_class", pa.string()),
        pa.field("detail", pa.string()),
        pa.field("request_hash", pa.string()),
        pa.field("attempts", pa.int32()),
        pa.field("instruction", pa.string()),
        pa.field("input_context", pa.string()),
        pa.field("hypothesis", pa.string()),
        pa.field("input_rows", pa.int64()),
    ]
)

#: One row per example that another run may carry on with.
WAITING = pa.schema(
    [
        pa.field("id", pa.string()),
        pa.field("key", pa.string()),
        pa.field("waits_for", pa.string()),  # call | batch | budget | limit
        pa.field("channel", pa.string()),
        pa.field("task", pa.string()),
        pa.field("source", pa.string()),
        pa.field("split", pa.string()),
        pa.field("item", pa.string()),
        pa.field("system", pa.string()),
        pa.field("step", pa.string()),  # the prompt's id where a call failed
        pa.field("error_class", pa.string()),
        pa.field("input_rows", pa.int64()),
    ]
)

#: One row per thing that was dropped, by the rule that dropped it.
REJECTED = pa.schema(
    [
        pa.field("unit", pa.string()),  # input_row | annotation | output | example | analysis
        pa.field("rule", pa.string()),
        pa.field("value", pa.string()),  # what failed the rule
        pa.field("outcome", pa.string()),  # rejected | duplicate
        pa.field("key", pa.string()),
        pa.field("channel", pa.string()),
        pa.field("task", pa.string()),
        pa.field("source", pa.string()),
        pa.field("split", pa.string()),
        pa.field("item", pa.string()),
        pa.field("system", pa.string()),
        pa.field("field", pa.string()),
        pa.field("file", pa.string()),
        pa.field("line", pa.int64()),
        pa.field("text", pa.string()),  # the text it is about, so that a user can judge the rule
        pa.field("input_rows", pa.int64()),  # rows of source files that end here
    ]
)

#: Configurations of a version by name; the first is the default one.
CONFIGURATIONS: dict[str, pa.Schema] = {
    "default": RELEASED,
    "structured": STRUCTURED,
    "sft": FINE_TUNING,
    "provenance": PROVENANCE,
    "human": HUMAN,
    "rejected": REJECTED,
    "dead": DEAD,
    "waiting": WAITING,
}
#: Configurations that come in the dataset's splits; the others are one split of their own name.
SPLIT_CONFIGURATIONS = ("default", "structured", "sft", "provenance", "human")
