"""Publishing as Beam steps: a partition's rows become shards, all partitions become a version."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Protocol

import apache_beam as beam
import polars as pl
from apache_beam.transforms.window import GlobalWindows

from expectations.runner import SuiteRunner, Verdict
from transforms.background import threads
from transforms.filters import sum_funnels
from transforms.frames import from_ipc, to_ipc
from transforms.publishing.jobs import forget_job
from transforms.publishing.publication import Publication, Run
from transforms.publishing.publish import publish
from transforms.publishing.shards import ShardRecord, write_shard
from transforms.publishing.versions import Version, dataset_of

#: Threads that make and write rows, and partitions that may be written before their suites run.
WRITING, WRITTEN_AHEAD = 2, 1


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
    """From an assembled partition to its publishable rows; picklable, and called in threads."""

    def __call__(self, number: int, frames: Any, standings: Sequence[Any]) -> Publishable:
        """Return the rows of partition ``number``; ``standings`` are those of all partitions."""
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


@dataclass(frozen=True)
class _Written:
    """A partition whose shards are written; ``shards`` with the rows that their suites look at."""

    number: int
    shards: tuple[tuple[ShardRecord, pl.DataFrame], ...]
    publishable: Publishable


class WriteShards(beam.DoFn):  # type: ignore[misc]
    """Writes each partition's shards and holds them against their expectation suites.

    Threads prepare and write some partitions ahead (Polars and Arrow do most of that work, which
    lets the interpreter go on); the suites run where Beam calls, one after the other.
    """

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
        self._threads: ThreadPoolExecutor | None = None
        self._writing: deque[Future[_Written]] = deque()

    def start_bundle(self) -> None:
        """Start with nothing in work."""
        self._writing.clear()

    def process(
        self, element: tuple[int, Any], standings: Sequence[Any]
    ) -> Iterator[tuple[int, WrittenPartition]]:
        """Write a partition; yields ``(0, WrittenPartition)``, so that all meet under one key."""
        if self._threads is None:
            self._threads = threads(WRITING, "write")
        self._writing.append(self._threads.submit(self._write, *element, standings))
        while len(self._writing) > WRITTEN_AHEAD:
            yield self._judge(self._writing.popleft().result())

    def finish_bundle(self) -> Iterator[Any]:
        """Yield the partitions that are left."""
        while self._writing:
            yield GlobalWindows.windowed_value(self._judge(self._writing.popleft().result()))

    def teardown(self) -> None:
        """End the threads."""
        if self._threads is not None:
            self._threads.shutdown()
            self._threads = None

    def _write(self, number: int, frames: Any, standings: Sequence[Any]) -> _Written:
        publishable = self.make_publishable(number, frames, standings)
        shards = []
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
                shards.append((shard, rows.select(schema.names)))
        return _Written(number, tuple(shards), publishable)

    def _judge(self, written: _Written) -> tuple[int, WrittenPartition]:
        verdicts = [
            self._suite_runner().validate(
                rows, self.publication.suites[shard.configuration], subject=shard.path
            )
            for shard, rows in written.shards
        ]
        return 0, WrittenPartition(
            written.number,
            tuple(shard for shard, _ in written.shards),
            tuple(verdicts),
            to_ipc(written.publishable.counts),
            to_ipc(written.publishable.statistics),
            to_ipc(written.publishable.funnel),
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
            sum_funnels([from_ipc(partition.funnel) for partition in written]),
        )
        forget_job(dataset_of(self.version), self.version.path)
