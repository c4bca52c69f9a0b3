"""Publishing as Beam steps: a partition's rows become shards, all partitions become a version."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import apache_beam as beam
import polars as pl

from expectations.runner import SuiteRunner, Verdict
from transforms.frames import from_ipc, to_ipc
from transforms.publishing.publication import Publication, Run
from transforms.publishing.publish import publish
from transforms.publishing.shards import ShardRecord, write_shard
from transforms.publishing.versions import Version


@dataclass(frozen=True)
class Publishable:
    """A partition ready to be written.

    Attributes:
        rows: the rows of each configuration, sorted; those with splits have a column ``split``.
        counts: for the ledger, see ``transforms.ledger.COUNTS``.
        statistics: the dataset's own, to be merged over partitions.
        funnel: what the filters saw, see ``transforms.filters.FUNNEL``.
    """

    rows: Mapping[str, pl.DataFrame]
    counts: pl.DataFrame
    statistics: pl.DataFrame
    funnel: pl.DataFrame


class MakePublishable(Protocol):
    """From a finished partition to its publishable rows; picklable."""

    def __call__(self, number: int, packed: Any, counts: Sequence[Any]) -> Publishable:
        """Return the rows of partition ``number``; ``counts`` are those of all partitions."""
        ...  # pragma: no cover - protocol


@dataclass(frozen=True)
class WrittenPartition:
    """What is known of a partition once its shards are written; frames as Arrow IPC."""

    number: int
    shards: tuple[ShardRecord, ...]
    verdicts: tuple[Verdict, ...]
    counts: bytes
    statistics: bytes
    funnel: bytes


class WriteShards(beam.DoFn):  # type: ignore[misc]
    """Writes each partition's shards and holds them against their expectation suites."""

    def __init__(
        self,
        publication: Publication,
        version: Version,
        partitions: int,
        make_publishable: MakePublishable,
    ) -> None:
        super().__init__()
        self.publication = publication
        self.version = version
        self.partitions = partitions
        self.make_publishable = make_publishable
        self._suites: SuiteRunner | None = None

    def process(
        self, element: tuple[int, Any], counts: Sequence[Any]
    ) -> Iterator[tuple[int, WrittenPartition]]:
        """Write one partition; yields ``(0, WrittenPartition)``, so that all meet under one key."""
        number, packed = element
        publishable = self.make_publishable(number, packed, counts)
        shards: list[ShardRecord] = []
        verdicts: list[Verdict] = []
        for configuration, schema in self.publication.configurations.items():
            for split, rows in self._by_split(configuration, publishable.rows[configuration]):
                shard = write_shard(
                    rows,
                    schema,
                    self.version.path,
                    configuration=configuration,
                    split=split,
                    partition=number,
                    partitions=self.partitions,
                )
                shards.append(shard)
                verdicts.append(
                    self._suite_runner().validate(
                        rows.select(schema.names),
                        self.publication.suites[configuration],
                        subject=shard.path,
                    )
                )
        yield (
            0,
            WrittenPartition(
                number,
                tuple(shards),
                tuple(verdicts),
                to_ipc(publishable.counts),
                to_ipc(publishable.statistics),
                to_ipc(publishable.funnel),
            ),
        )

    def _by_split(
        self, configuration: str, rows: pl.DataFrame
    ) -> Iterator[tuple[str, pl.DataFrame]]:
        """Yield the splits that have rows; an empty shard would give a suite nothing to fail."""
        splits = self.publication.splits_of(configuration)
        whole = configuration not in self.publication.split_configurations
        for split in splits:
            own = rows if whole else rows.filter(pl.col("split") == split)
            if own.height:
                yield split, own

    def _suite_runner(self) -> SuiteRunner:
        # One per DoFn instance, made where it is first used: its import takes seconds and its
        # context must not be shared by threads.
        if self._suites is None:
            self._suites = SuiteRunner()
        return self._suites


class Publish(beam.DoFn):  # type: ignore[misc]
    """Publishes the version from all of its written partitions, which meet in one element."""

    def __init__(self, publication: Publication, run: Run, version: Version) -> None:
        super().__init__()
        self.publication = publication
        self.run = run
        self.version = version

    def process(self, element: tuple[int, Iterable[WrittenPartition]]) -> None:
        """Publish; how it ended stands in the version's directory (``read_result``)."""
        written = sorted(element[1], key=lambda partition: partition.number)
        publish(
            self.version,
            self.publication,
            self.run,
            [shard for partition in written for shard in partition.shards],
            [verdict for partition in written for verdict in partition.verdicts],
            pl.concat([from_ipc(partition.counts) for partition in written]),
            pl.concat([from_ipc(partition.statistics) for partition in written]),
        )
