"""The card of a published MetricInstruct: its text, summed up from the version's statistics."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from pipelines.metricinstruct.human_agreement import TOGETHER, model_named
from pipelines.metricinstruct.sources.registry import OWN_LICENCE, SOURCES
from transforms.publishing.publication import Run, Tables
from transforms.publishing.summaries import markdown_table, parts, spoken

#: What the id of a prompt that is written for a task has beyond its name and version.
_TASK_OF_PROMPT = re.compile(r"-.*(?=\.v\d+$)")
#: Pairs of annotators that the card shows; ``statistics.json`` has all of them.
MAX_PAIRS = 30

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
| `human` | annotation that came with a published output: an error, or that there is none; \
an annotator `model ...` is a model, all others are people |
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
                ("source", "rows", "share", "licence of the data"),
                [
                    (f"`{row['value']}`", row["n"], row["share"], _licence(row["value"]))
                    for row in tables["sources"]
                ],
            ),
            markdown_table(
                ("task", "aspect", "errors", "share"),
                [
                    (row["task"], row["value"], row["n"], row["share"])
                    for row in tables["aspects"]
                    if row["task"] in {one["task"] for one in present}
                ],
            ),
            _answers(tables["answers"]),
            _filters(tables["filters"]),
            _agreement(tables, run.models),
            "`ledger.json` accounts for every input row, `statistics.json` has all counts, "
            "`validation/` what the expectation suites found.\n",
            _LICENCE,
        ]
    )


def _licence(source: str) -> str:
    return SOURCES[source].licence if source in SOURCES else OWN_LICENCE


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


def answer_lines(tables: Tables) -> list[str]:
    """Return what a run tells of its model's answers, a line for each channel."""
    return [
        f"answers, {row['channel']}: {row['answers']:,}; {_percent(row['parsed_share'])} parse, "
        f"{_percent(row['verbatim_share'])} of {row['errors']:,} locations verbatim, "
        f"{_percent(row['passed_share'])} pass the filters"
        for row in tables["answers"]
    ]


def _percent(share: float | None) -> str:
    return "none" if share is None else f"{share:.1%}"


def _answers(rows: Iterable[Mapping[str, Any]]) -> str:
    names = ("answers", "parsed_share", "errors", "verbatim_share", "passed_share")
    table = markdown_table(
        ("channel", "answers", "that parse", "errors", "locations verbatim", "answers that pass"),
        [(row["channel"], *(row[name] for name in names)) for row in rows],
    )
    return (
        "## How the model answered\n\nOf all answers, not of the published rows alone: shares of "
        "answers that parse and that no filter rejects, and of errors whose location stands in the "
        f"output just as it was quoted.\n\n{table}"
    )


def _filters(rows: Iterable[Mapping[str, Any]]) -> str:
    failed = [row for row in rows if row["analyses"]]
    table = markdown_table(
        ("filter", "level", "analyses that fail it", "of which no earlier one fails"),
        [(f"`{row['rule']}`", row["level"], row["analyses"], row["first"]) for row in failed],
    )
    return f"## Filters\n\n{table}" if failed else "## Filters\n\nNo analysis failed a filter.\n"


def _agreement(tables: Tables, models: Iterable[str]) -> str:
    names = set(map(model_named, models))
    groups, annotators = (
        sorted(
            tables[name],
            key=lambda row: (
                not any(names.issuperset(row[one].split(TOGETHER)) for one in ("first", "second")),
                -row["segments"],
                row["first"],
                row["second"],
            ),
        )
        for name in ("agreement_of_groups", "agreement")
    )
    if not annotators:
        return "## Agreement with human annotators\n\nNo analysed output has human annotations.\n"
    left = len(annotators) - MAX_PAIRS
    more = f"{left} more pairs stand in `statistics.json`.\n" if left > 0 else ""
    return (
        "## Agreement with human annotators\n\n"
        "Over the outputs whose analysis passed the filters, those among them that the balance "
        "of error-free rows left out. Judge the model against the figures between people, not "
        "against 1. Character F1 is of marked characters, without and with severity; correlations "
        f"are of the scores of each output.\n\nAll people who annotated a source together; a "
        "segment counts once for each pair of them:\n\n"
        f"{_agreement_table(groups)}\nEach annotator:\n\n"
        f"{_agreement_table(annotators[:MAX_PAIRS])}{more}"
    )


def _agreement_table(rows: Iterable[Mapping[str, Any]]) -> str:
    figures = (
        *("segments", "character_f1", "character_f1_severity", "spearman", "kendall"),
        *("any_error", "any_error_kappa"),
    )
    return markdown_table(
        ("annotator", "annotator", *map(spoken, figures)),
        [(row["first"], row["second"], *(row[figure] for figure in figures)) for row in rows],
    )
