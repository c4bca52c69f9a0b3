"""What a published MetricInstruct is: configurations, suites, statistics, and its card."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pipelines.metricinstruct import schema
from pipelines.metricinstruct.card import describe
from pipelines.metricinstruct.sources.beside import STAGE
from pipelines.metricinstruct.statistics import summarise
from transforms.publishing.publication import Publication

DATASET = "metricinstruct"
#: Stages of the ledger, in the order of the work.
STAGES = ("input_rows", STAGE, "examples", "analyses", "errors", "human_annotations")
METADATA: Mapping[str, Any] = {
    "pretty_name": "MetricInstruct, minted by remint",
    "language": ["en", "zh", "de", "ru", "cs", "fr"],
    # Whoever mints a version decides under which licence it may be passed on; see the card's text.
    "license": "other",
    "task_categories": ["text-generation"],
    "tags": ["evaluation", "error analysis", "metric", "explainable metric", "TIGERScore"],
}

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
