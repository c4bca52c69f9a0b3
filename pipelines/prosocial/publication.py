"""What a published ProsocialDialog is: configurations, suites, statistics, and the card's words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pipelines.prosocial import schema
from pipelines.prosocial.statistics import summarise
from transforms.publishing.publication import Publication, Run, Tables
from transforms.publishing.summaries import markdown_table, parts, spoken

DATASET = "prosocial"
#: Stages of the ledger. The first five follow rows, dialogues and turns from end to end of a run:
#: they go in where files are read, dialogues begun and turns assembled, and come out where
#: everything is written. The others are single steps between.
STAGES = (
    "input_rows",
    "responses",
    "annotations",
    "dialogues",
    "turns",
    "read.responses",
    "read.annotations",
    "select",
    "crowd.responses",
    "crowd.annotations",
    "assembly",
    "filters.dialogues",
    "filters.turns",
    "duplicates.dialogues",
    "duplicates.turns",
)

METADATA: Mapping[str, Any] = {
    "pretty_name": "ProsocialDialog, minted by remint",
    "language": ["en"],
    # Whoever mints a version decides under which licence it may be passed on; see the card's text.
    "license": "other",
    "task_categories": ["text-generation", "text-classification"],
    "tags": ["dialogue", "dialogue safety", "social norms", "rules-of-thumb"],
}

_HEAD = """# ProsocialDialog, minted by remint

Dialogues in which one speaker says something problematic and the other answers constructively,
guided by rules-of-thumb: short statements of what people hold to be right or wrong. Each utterance
of the first speaker carries three safety votes with reasons and the label that follows from them.
The dataset has the form of ProsocialDialog (Kim et al., EMNLP 2022) and is made anew by
remint from seed texts; it is not the authors' release.

**Content warning.** By design, first speakers say things that are offensive, biased or unsafe. The
rows serve to study and to teach better answers; the contexts alone are no training material.
"""

_CONFIGURATIONS = """## Configurations

| name | one row per |
|---|---|
| `default` | utterance of the first speaker with its response; the eleven columns of the release |
| `provenance` | published utterance: its author, model, prompt, request, and the text as drafted |
| `annotations` | safety vote, with a hashed annotator |
| `rejected` | thing that was dropped, with the rule and the value that failed it |
| `dead` | model call without a usable answer that ended a dialogue or cut its last turn |
| `waiting` | dialogue that goes on when a response, a vote or a call arrives |

`rejected`, `dead` and `waiting` have one split, called like the configuration. A configuration of
which this version has no rows is left out, because `datasets` loads none without rows.
"""

_READING = """## Reading the rows

- `context` is the current utterance alone. The dialogue so far are the rows of the same split and
  `dialogue_id` with a lower `response_id`; `episode_done` is true on the last row.
- `safety_label` follows from the votes: any vote for intervention gives
  `__needs_intervention__`; otherwise none, one, two or three votes for caution give `__casual__`,
  `__possibly_needs_caution__`, `__probably_needs_caution__`, `__needs_caution__`. That is also the
  order of severity; the alphabetical order is another one.
- `rots` is null where no rule-of-thumb applies; casual rows may have some.
- `dialogue_id` counts from 0 in each split.
"""

_LICENCE = """## Licence and use

Seed texts keep the licences of their sources; texts of a model come under its provider's terms.
Settle both before you pass this version on. Labels reflect the judgement of the annotators named
in `annotations`, people or a model, and are no verdict on persons. Models trained on such rows can
become too ready to refuse: look at casual rows, too, when you evaluate them.
"""


def describe(tables: Tables, run: Run) -> str:
    """Return the card's text for a version summed up by ``tables`` (see ``statistics``)."""
    version = tables["version"][0]
    return "\n".join(
        [
            _HEAD,
            _making(tables, run),
            "## Size\n",
            markdown_table(
                ("split", "dialogues", "rows"),
                [(row["split"], row["dialogues"], row["rows"]) for row in tables["splits"]],
            ),
            _CONFIGURATIONS,
            _READING,
            "## Statistics\n",
            markdown_table(
                ("statistic", "value"), [(spoken(name), version[name]) for name in version]
            ),
            markdown_table(
                ("safety label", "rows", "share"),
                [(f"`{row['value']}`", row["n"], row["share"]) for row in tables["labels"]],
            ),
            markdown_table(
                ("source", "dialogues", "share"),
                [(row["value"], row["n"], row["share"]) for row in tables["sources"]],
            ),
            "Alpha is Krippendorff's, nominal, over the votes of each turn. `ledger.json` accounts "
            "for every input row, `statistics.json` has all counts, `validation/` what the "
            "expectation suites found.\n",
            _LICENCE,
        ]
    )


def _making(tables: Tables, run: Run) -> str:
    authors = {
        "Responses": parts(tables["response_authors"]),
        "Votes": parts(tables["vote_authors"]),
    }
    lines = [f"- {what} by author: {named}." for what, named in authors.items()]
    models = ", ".join(f"`{model}`" for model in run.models) or "none was called"
    prompts = ", ".join(f"`{prompt}`" for prompt in sorted(run.prompts)) or "none"
    return "\n".join(
        [
            "## How it was made\n",
            "A model turns each seed into a first utterance and drafts the next ones; workers "
            "respond by rules-of-thumb and may edit every draft; three annotators vote on each "
            "turn. Authors called `model` in a worker's or an annotator's place are a language "
            "model, not people.\n",
            f"- Model: {models}. Prompts: {prompts}.",
            *lines,
            f"- Made with remint {run.code_version}; `provenance` says for each utterance who "
            "wrote it.\n",
        ]
    )


PUBLICATION = Publication(
    dataset=DATASET,
    configurations=schema.CONFIGURATIONS,
    split_configurations=schema.SPLIT_CONFIGURATIONS,
    of_calls=("dead",),
    splits=schema.SPLITS,
    suites={name: f"prosocial_{name}" for name in schema.CONFIGURATIONS},
    version_suite="prosocial_version",
    release_suite="prosocial_release",
    release_rows=20_000,  # 10,000 dialogues have two rows at least
    stages=STAGES,
    summarise=summarise,
    metadata=METADATA,
    describe=describe,
)
