"""What publishing has to know: of a dataset, once and for all, and of the run that publishes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import polars as pl
import pyarrow as pa

from transforms.llm.prices import Price
from transforms.publishing.shards import DEFAULT, ShardRecord

#: Tables that sum up a version, by name; each a list of rows.
Tables = Mapping[str, Sequence[Mapping[str, Any]]]


@dataclass(frozen=True)
class Publication:
    """What all versions of a dataset share; its functions are module-level, so that it pickles.

    Attributes:
        dataset: the dataset's name, which is its directory's.
        configurations: the published schema of each configuration; ``default`` is one of them.
        split_configurations: those that come in the dataset's splits; each of the others is one
            split that is called like itself.
        of_calls: those that tell how calls went, which two runs over the same data may differ in.
        splits: the dataset's splits in their usual order.
        suites: the expectation suite of each configuration's shards.
        version_suite: the suite of the tables that sum up a version. Beside those of ``summarise``
            it sees ``shards`` (one row per shard) and ``ledger`` (stage, outcome, n).
        release_suite: a suite like ``version_suite`` whose expectations only warn.
        release_rows: from how many rows of ``default`` on the ``release_suite`` is run.
        stages: the ledger's stages in the order of the work.
        summarise: from the statistics of all partitions to the tables that sum them up; the table
            ``version`` has one row.
        metadata: what the card's YAML says of the dataset, without configurations.
        describe: from those tables and the run to the card's text.
    """

    dataset: str
    configurations: Mapping[str, pa.Schema]
    split_configurations: Sequence[str]
    of_calls: Sequence[str]
    splits: Sequence[str]
    suites: Mapping[str, str]
    version_suite: str
    release_suite: str
    release_rows: int
    stages: Sequence[str]
    summarise: Callable[[pl.DataFrame], Tables]
    metadata: Mapping[str, Any]
    describe: Callable[[Tables, Run], str]

    def splits_of(self, configuration: str) -> tuple[str, ...]:
        """Return the splits that ``configuration`` may have."""
        return (
            tuple(self.splits) if configuration in self.split_configurations else (configuration,)
        )

    def rows_of(self, shards: Sequence[ShardRecord], configuration: str = DEFAULT) -> int:
        """Return how many rows ``shards`` hold of ``configuration``."""
        return sum(shard.rows for shard in shards if shard.configuration == configuration)


@dataclass(frozen=True)
class Run:
    """What the manifest says of the run that published; never a key or another secret.

    Attributes:
        run_id: names the run.
        created: when it began, ISO 8601 with time zone.
        code_version: remint's version.
        partitions: the dataset's number of partitions.
        inputs: one object per input file or dataset: ``path``, ``bytes``, ``sha256``.
        prompts: the hash of each prompt by its id.
        models: the models' names.
        options: the options that shape the data.
        prices: of the models, by their names, as far as they are known.
        collected: counts of the answers that the run had from offline batches, by prompt and model.
    """

    run_id: str
    created: str
    code_version: str
    partitions: int
    inputs: Sequence[Mapping[str, Any]] = ()
    prompts: Mapping[str, str] = field(default_factory=dict)
    models: Sequence[str] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    prices: Mapping[str, Price] = field(default_factory=dict)
    collected: Mapping[str, int] = field(default_factory=dict)
