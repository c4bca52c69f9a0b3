"""Options of the MetricInstruct pipeline."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, field_validator, model_validator

from pipelines.option_parsing import OptionParser, new_parser
from pipelines.option_values import one_as_many, pairs_of
from pipelines.options import RunOptions

#: How many rows of each source and language pair the original sampled where it sampled.
DEFAULT_SAMPLE = 2000

AnalysisWay = Literal["two_step", "own_answer_first", "one_step"]
AnswerForm = Literal["structured", "labelled", "edits"]


class MetricInstructOptions(RunOptions):
    """Everything a run of the MetricInstruct pipeline needs to know.

    ``sources``, ``synthetic``, ``outputs``, ``inputs``, ``annotations``, ``choice`` and
    ``instruction`` hold ``NAME=VALUE`` and ``field_map`` holds ``NAME:FIELD=COLUMN,...`` as given.
    ``analysis`` and ``answer_form`` None stand for what suits the model.
    """

    sources: tuple[str, ...] = ()
    synthetic: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()
    inputs: tuple[str, ...] = ()
    annotations: tuple[str, ...] = ()
    field_map: tuple[str, ...] = ()
    instruction: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    metric: str = "chrf"
    choice: tuple[str, ...] = ()
    sample: int | None = Field(default=None, ge=1)
    analysis: AnalysisWay | None = None
    answer_form: AnswerForm | None = None
    free_form_share: float = Field(default=0.0, ge=0, le=1)
    verify: Literal["off", "record", "drop"] = "off"
    filters: str | None = None

    @field_validator(
        *("sources", "synthetic", "outputs", "inputs", "annotations", "choice", "instruction"),
        mode="before",
    )
    @classmethod
    def _pairs_from_mapping(cls, value: Any) -> Any:
        return pairs_of(value)

    @field_validator("field_map", "exclude", mode="before")
    @classmethod
    def _one_as_many(cls, value: Any) -> Any:
        return one_as_many(value)

    @field_validator("verify", mode="before")
    @classmethod
    def _yaml_reads_off_as_false(cls, value: Any) -> Any:
        return "off" if value is False else value

    @model_validator(mode="after")
    def _has_a_source(self) -> MetricInstructOptions:
        if not (self.sources or self.synthetic):
            raise ValueError("give --sources (system outputs), --synthetic (references), or both")
        return self


def metricinstruct_parser() -> OptionParser:
    """Return the command's parser."""
    parser = new_parser(
        "remint metricinstruct",
        "Regenerate MetricInstruct from system outputs and references.",
        "so many outputs and references, chosen by key: the same ones each time",
    )
    data = parser.add_argument_group("sources")
    data.add_argument(
        "--sources",
        nargs="+",
        action="extend",
        metavar="NAME=PATTERN",
        help="files with system outputs, or hub:owner/name:configuration:split; "
        "pipelines/metricinstruct/SOURCES.md has the names, any other one needs a --field-map",
    )
    data.add_argument(
        "--synthetic",
        nargs="+",
        action="extend",
        metavar="NAME=PATTERN",
        help="files with references, which the model damages",
    )
    data.add_argument(
        "--outputs",
        nargs="+",
        action="extend",
        metavar="NAME=PATTERN",
        help="system outputs for a source of --sources whose own file has none",
    )
    data.add_argument(
        "--inputs",
        nargs="+",
        action="extend",
        metavar="NAME=PATTERN",
        help="the inputs of a source whose rows only number them (quintd)",
    )
    data.add_argument(
        "--annotations",
        nargs="+",
        action="extend",
        metavar="NAME=PATTERN",
        help="what people marked in the outputs of a source: JSON lines of id, system, annotator "
        "and errors; the model's agreement with them stands in the card",
    )
    data.add_argument(
        "--field-map",
        nargs="+",
        action="extend",
        metavar="NAME:FIELD=COLUMN,...",
        help="a source of your own: task= and the columns input_context=, reference=, hypothesis=, "
        "system=, id=, split=, quality=, instruction=",
    )
    data.add_argument(
        "--instruction",
        nargs="+",
        action="extend",
        metavar="NAME=TEXT",
        help="the instruction of all rows of a source of your own",
    )
    choice = parser.add_argument_group("choice")
    choice.add_argument(
        "--exclude",
        nargs="+",
        action="extend",
        metavar="[NAME=]FILE",
        help="evaluation inputs to leave out: a file of keys, one a line, or NAME=FILE, a file of "
        "that source (NAME=FILE#IDS: those of its inputs whose ids the file IDS lists)",
    )
    choice.add_argument(
        "--metric",
        metavar="METRIC",
        help="what ranks an input's outputs where the data doesn't: chrf (default), bleu or rouge",
    )
    choice.add_argument(
        "--choice",
        nargs="+",
        action="extend",
        metavar="NAME=CHOICE",
        help="which outputs of an input a source keeps: thirds, mostly_worst, best_middle_worst, "
        "sample or all",
    )
    choice.add_argument(
        "--sample",
        metavar="N",
        help="at most so many rows of each source and language pair, all outputs of an input or "
        f"none, and of one input at least (default: {DEFAULT_SAMPLE} of those whose choice is "
        "sample, all of the others)",
    )
    work = parser.add_argument_group("analyses")
    work.add_argument(
        "--analysis",
        metavar="WAY",
        help="two_step (default with an endpoint): free text, then its errors; one_step; or "
        "own_answer_first (default with the embedded model)",
    )
    work.add_argument(
        "--answer-form",
        metavar="FORM",
        help="how damaged references are answered: structured (default with an endpoint), "
        "labelled, or edits (default with the embedded model)",
    )
    work.add_argument(
        "--free-form-share",
        metavar="SHARE",
        help="share of synthetic instruction rows whose aspects the model names itself (default 0)",
    )
    work.add_argument(
        "--verify",
        metavar="MODE",
        help="check each error and analysis by further calls: off (default), record, or drop",
    )
    work.add_argument(
        "--filters",
        metavar="FILE",
        help="YAML of the filters' levels and thresholds that differ from filters.yaml",
    )
    return parser
