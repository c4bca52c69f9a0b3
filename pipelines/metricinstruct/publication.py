"""What a published MetricInstruct is: configurations, suites, statistics, and the card's words."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from pipelines.metricinstruct import schema
from pipelines.metricinstruct.human_agreement import TOGETHER
from pipelines.metricinstruct.statistics import summarise
from transforms.publishing.publication import Publication, Run, Tables
from transforms.publishing.summaries import markdown_table, parts, spoken

DATASET = "metricinstruct"
#: Stages of the ledger, in the order of the work.
STAGES = ("input_rows", "examples", "analyses", "errors", "human_annotations")
#: What the id of a prompt that is written for a task has beyond its name and version.
_TASK_OF_PROMPT = re.compile(r"-.*(?=\.v\d+$)")
#: Pairs of annotators that the card shows; ``statistics.json`` has all of them.
MAX_PAIRS = 30

METADATA: Mapping[str, Any] = {
    "pretty_name": "MetricInstruct, minted by remint",
    "language": ["en", "zh", "de", "ru", "cs", "fr"],
    # Whoever mints a version decides under which licence it may be passed on; see the card's text.
    "license": "other",
    "task_categories": ["text-generation"],
    "tags": ["evaluation", "error analysis", "metric", "explainable metric", "TIGERScore"],
}

_HEAD = """# MetricInstruct, minted by remint

Outputs of text generation systems with error analyses: where each error stands, which aspect of
the task it is about, why it is one, how severe it is, and how many points it takes off. Models
are trained on such rows to judge outputs without a reference. The dataset has the form of
MetricInstruct (Jiang et al. 2023, TIGERScore) and is made anew by remint from system outputs and
references; it is not the authors' release.
"""

_CONFIGURATIONS = """## Configurations

| name | one row per |
|---|---|
| `default` | output with its analysis; the four columns of the release |
| `structured` | the same output: errors as records with offsets, task, source, system, channel |
| `sft` | the same output as TIGERScore's fine-tuning prompt with its completion |
| `provenance` | the same output: its origin, the choice, model, prompts, requests, verdicts |
| `human` | human annotation of a published output: an error, or that there is none |
| `rejected` | thing that was dropped, with the rule and the value that failed it |
| `dead` | example whose model call ended without a usable answer |
| `waiting` | example that a later run carries on with |

`structured`, `provenance` and `human` are joined by `id`; `default`, `structured`, `sft` and
`provenance` have their rows in the same order. `rejected`, `dead` and `waiting` have one split,
called like the configuration. A configuration of which this version has no rows is left out,
because `datasets` loads none without rows.
"""

_READING = """## Reading the rows

- `errors` of `default` is one text: a header with the number of errors and their total reduction,
  then five labelled lines an error. Every value stands on one line; the header equals the sum.
- In `structured` an error's `start` and `end` count characters of `hypo_output`, and
  `hypo_output[start:end]` is its `location`. `placement` says how the place was found where the
  model's words fit in several places; `candidates` are all of them.
- `channel` is `real` for a system's own output and `synthetic` for one that a model made by
  working errors into a reference. Both are model-made judgements, not people's.
- `references` were shown to the annotating model (real channel) or edited (synthetic channel).
- All rows of one input stand in one split.
"""

_LICENCE = """## Licence and use

Inputs, references and outputs keep the licences of their sources (remint's
`pipelines/metricinstruct/SOURCES.md` names what their publishers state); texts of a model come
under its provider's terms. Settle both before you pass this version on. An analysis is one
model's view: see the agreement above before you take it for the truth.
"""


def describe(tables: Tables, run: Run) -> str:
    """Return the card's text for a version summed up by ``tables`` (see ``statistics``)."""
    version = tables["version"][0]
    present = [row for row in tables["tasks"] if row["rows"]]
    return "\n".join(
        [
            _HEAD,
            _making(tables, run),
            "## Size\n",
            markdown_table(
                ("split", "rows"), [(row["split"], row["rows"]) for row in tables["splits"]]
            ),
            _CONFIGURATIONS,
            _READING,
            "## Statistics\n",
            markdown_table(
                ("statistic", "value"), [(spoken(name), version[name]) for name in version]
            ),
            markdown_table(
                ("task", "rows", "real", "synthetic", "errors per row", "Major"),
                [
                    (
                        *(row["task"], row["rows"], row["real"], row["synthetic"]),
                        *(row["errors_per_row"], row["major_share"]),
                    )
                    for row in present
                ],
            ),
            markdown_table(
                ("source", "rows", "share"),
                [(f"`{row['value']}`", row["n"], row["share"]) for row in tables["sources"]],
            ),
            markdown_table(
                ("task", "aspect", "errors", "share"),
                [
                    (row["task"], row["value"], row["n"], row["share"])
                    for row in tables["aspects"]
                    if row["task"] in {one["task"] for one in present}
                ],
            ),
            _filters(tables["filters"]),
            _agreement(tables["agreement"], run.models),
            "`ledger.json` accounts for every input row, `statistics.json` has all counts, "
            "`validation/` what the expectation suites found.\n",
            _LICENCE,
        ]
    )


def _making(tables: Tables, run: Run) -> str:
    models = ", ".join(f"`{model}`" for model in run.models) or "none was called"
    names = sorted({_TASK_OF_PROMPT.sub("", prompt) for prompt in run.prompts})
    prompts = ", ".join(f"`{name}`" for name in names) or "none"
    lines = [
        "## How it was made\n",
        "In the real channel systems' outputs, chosen so that good, middling and bad ones are "
        "there, are analysed by a model that is shown a reference and may not mention it. In the "
        "synthetic channel the model works errors of given aspects into a reference and lists "
        "them. Analyses are parsed, their locations looked up in the output, filtered and "
        "balanced.\n",
        f"- Model: {models}.",
        f"- Prompts: {prompts}; most are written for each task, the manifest lists all.",
        f"- Outputs by kind: {parts(tables['kinds'])}.",
        f"- Choice of outputs: {parts(tables['choices'])}.",
        f"- How locations were found: {parts(tables['placements'])}.",
    ]
    lines += [
        f"- Verification ({check}): {parts(own)}."
        for check in dict.fromkeys(row["check"] for row in tables["verdicts"])
        for own in [[row for row in tables["verdicts"] if row["check"] == check]]
    ]
    lines.append(
        f"- Made with remint {run.code_version}; `provenance` says for each row where it comes "
        "from and which requests made it.\n"
    )
    return "\n".join(lines)


def _filters(rows: Iterable[Mapping[str, Any]]) -> str:
    failed = [row for row in rows if row["analyses"]]
    table = markdown_table(
        ("filter", "level", "analyses that fail it", "of which no earlier one fails"),
        [(f"`{row['rule']}`", row["level"], row["analyses"], row["first"]) for row in failed],
    )
    return f"## Filters\n\n{table}" if failed else "## Filters\n\nNo analysis failed a filter.\n"


def _agreement(rows: Iterable[Mapping[str, Any]], models: Iterable[str]) -> str:
    names = set(models)

    def by_a_model(row: Mapping[str, Any]) -> bool:
        pair = (row["first"], row["second"])
        return any(names.issuperset(one.split(TOGETHER)) for one in pair)

    ordered = sorted(
        rows, key=lambda row: (not by_a_model(row), -row["segments"], row["first"], row["second"])
    )
    if not ordered:
        return "## Agreement with human annotators\n\nNo analysed output has human annotations.\n"
    figures = (
        *("segments", "character_f1", "character_f1_severity", "spearman", "kendall"),
        *("any_error", "any_error_kappa"),
    )
    table = markdown_table(
        ("annotator", "annotator", *map(spoken, figures)),
        [
            (row["first"], row["second"], *(row[figure] for figure in figures))
            for row in ordered[:MAX_PAIRS]
        ],
    )
    left = len(ordered) - MAX_PAIRS
    more = f"{left} more pairs stand in `statistics.json`.\n" if left > 0 else ""
    return (
        "## Agreement with human annotators\n\n"
        "Over the outputs whose analysis passed the filters, those among them that the balance "
        "of error-free rows left out. Judge the model against the figures between people, not "
        "against 1. Character F1 is of marked characters, without and with severity; correlations "
        f"are of the scores of each output.\n\n{table}{more}"
    )


PUBLICATION = Publication(
    dataset=DATASET,
    configurations=schema.CONFIGURATIONS,
    split_configurations=schema.SPLIT_CONFIGURATIONS,
    of_calls=("dead",),
    splits=schema.SPLITS,
    suites={name: f"metricinstruct_{name}" for name in schema.CONFIGURATIONS},
    version_suite="metricinstruct_version",
    release_suite="metricinstruct_release",
    release_rows=10_000,
    stages=STAGES,
    summarise=summarise,
    metadata=METADATA,
    describe=describe,
)
