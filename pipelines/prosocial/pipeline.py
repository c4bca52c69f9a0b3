"""The wiring of the ProsocialDialog pipeline; what the steps do is in ``stages``.

seed files, responses, annotations -> CoGroupByKey -> select (-> limit) -> join the crowd
    -> draft, assemble, filter -> shuffle of text hashes -> finish -> write and validate -> publish
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import apache_beam as beam

from pipelines.prosocial.configurations import (
    Authorship,
    DialogueCount,
    configurations,
    dialogue_counts,
    offsets_of,
    with_dialogue_ids,
)
from pipelines.prosocial.crowd_files import Unit
from pipelines.prosocial.duplicates import find_losers
from pipelines.prosocial.publication import PUBLICATION
from pipelines.prosocial.seeds.sources import SeedInput
from pipelines.prosocial.stages import (
    DraftAndAssemble,
    finish_partition,
    join_crowd,
    named,
    read_crowd,
    read_seeds,
    select_seeds,
)
from pipelines.prosocial.statistics import partition_statistics
from transforms.limit import smallest_keys
from transforms.llm.settings import EngineSettings
from transforms.llm.streaming import CallPartitions
from transforms.partitions import (
    Frames,
    Packed,
    Piece,
    ReadToPartitions,
    gather,
    gather_group,
    on_partition,
    pack,
    scatter,
    to_pieces,
    unpack,
)
from transforms.publishing.publication import Run
from transforms.publishing.stages import Publish, Publishable, WriteShards
from transforms.publishing.versions import Version

#: Frames of a finished partition that configurations are made of.
PUBLISHED_FRAMES = ("utterances", "votes", "rejected", "dead", "waiting")


@dataclass(frozen=True)
class Plan:
    """All that a run's graph is built from; picklable, without a key or another secret."""

    seeds: Sequence[SeedInput]
    responses: Sequence[str]
    annotations: Sequence[str]
    partitions: int
    split_salt: str
    limit: int | None
    engine: EngineSettings
    drafting: DraftAndAssemble
    authorship: Authorship
    version: Version
    run: Run


def build(pipeline: beam.Pipeline, plan: Plan) -> None:
    """Add the whole run to ``pipeline``: from ``plan``'s files to its published version."""
    selected = _read(pipeline, plan) | "Select seeds" >> beam.Map(
        on_partition(select_seeds, plan.split_salt)
    )
    joined = _within_limit(selected, plan.limit)
    assembled = (
        joined
        | "Number partitions" >> beam.Map(lambda element: (element[0], element))
        | "Draft dialogues" >> beam.ParDo(CallPartitions(plan.engine, plan.drafting))
    )
    finished = _without_duplicates(assembled, plan.partitions)
    counts = (
        finished
        | "Count dialogues" >> beam.FlatMapTuple(_count_dialogues)
        | "All counts" >> beam.combiners.ToList()
    )
    _ = (
        finished
        | "Write shards"
        >> beam.ParDo(
            WriteShards(
                PUBLICATION, plan.version, plan.partitions, PublishableRows(plan.authorship)
            ),
            beam.pvalue.AsSingleton(counts),
        )
        | "All partitions" >> beam.GroupByKey()
        | "Publish" >> beam.ParDo(Publish(PUBLICATION, plan.run, plan.version))
    )


def _read(pipeline: beam.Pipeline, plan: Plan) -> beam.PCollection:
    responses: list[tuple[str, Unit]] = [(path, "response") for path in plan.responses]
    annotations: list[tuple[str, Unit]] = [(path, "annotation") for path in plan.annotations]
    groups = {
        "seeds": (plan.seeds, read_seeds),
        "responses": (responses, read_crowd),
        "annotations": (annotations, read_crowd),
    }
    return (
        {
            name: pipeline
            | f"Files of {name}" >> beam.Create(list(inputs))
            | f"Read {name}" >> beam.ParDo(ReadToPartitions(read, plan.partitions))
            for name, (inputs, read) in groups.items()
        }
        | "By partition" >> beam.CoGroupByKey()
        | "Gather frames" >> beam.Map(gather_group)
    )


def _within_limit(selected: beam.PCollection, limit: int | None) -> beam.PCollection:
    """Join the crowd to the seeds; with a limit, to those with the smallest keys of all."""
    if limit is None:
        return selected | "Join crowd" >> beam.Map(on_partition(join_crowd, None))
    last_key = (
        selected
        | "Keys of seeds" >> beam.Map(lambda element: element[1]["seeds"].select("key"))
        | "All keys" >> beam.combiners.ToList()
        | "Last key within the limit" >> beam.Map(smallest_keys, limit)
    )
    return (
        selected
        | "Pack selected" >> beam.MapTuple(lambda number, frames: (number, pack(frames)))
        | "Join crowd within the limit"
        >> beam.Map(
            lambda element, last_key: (element[0], join_crowd(unpack(element[1]), last_key)),
            beam.pvalue.AsSingleton(last_key),
        )
    )


def _without_duplicates(assembled: beam.PCollection, partitions: int) -> beam.PCollection:
    """Shuffle text hashes to find exact duplicates across the set, and finish each partition."""
    losers = (
        assembled
        | "Texts by hash" >> beam.FlatMap(_texts_by_hash, partitions)
        | "By text" >> beam.GroupByKey()
        | "Find duplicates" >> beam.FlatMap(_losers_by_partition, partitions)
    )
    return (
        {"dialogues": assembled | "In pieces" >> beam.FlatMapTuple(_pieces), "losers": losers}
        | "Dialogues and duplicates" >> beam.CoGroupByKey()
        | "Gather dialogues" >> beam.Map(gather_group)
        | "Finish" >> beam.Map(on_partition(finish_partition))
        | "Pack finished" >> beam.MapTuple(lambda number, frames: (number, pack(frames)))
    )


def _texts_by_hash(element: tuple[int, Frames], partitions: int) -> Iterator[tuple[int, Piece]]:
    return scatter("hashes", element[1]["hashes"], partitions, column="hash")


def _losers_by_partition(
    element: tuple[int, Iterable[Piece]], partitions: int
) -> Iterator[tuple[int, Piece]]:
    return scatter("losers", find_losers(gather(element[1])["hashes"]), partitions)


def _pieces(number: int, frames: Frames) -> Iterator[tuple[int, Piece]]:
    return to_pieces(number, {name: frames[name] for name in frames if name != "hashes"})


def _count_dialogues(number: int, packed: Packed) -> list[DialogueCount]:
    return dialogue_counts(number, named(unpack(packed), "turns"))


@dataclass(frozen=True)
class PublishableRows:
    """Makes a finished partition's rows publishable: ids, hashed annotators, configurations."""

    authorship: Authorship

    def __call__(self, number: int, packed: Packed, counts: Sequence[DialogueCount]) -> Publishable:
        """Return the rows of each configuration of partition ``number``, counts and statistics.

        Args:
            number: the partition.
            packed: its finished frames.
            counts: the dialogues of every partition and split.
        """
        frames = unpack(packed)
        turns = with_dialogue_ids(named(frames, "turns"), offsets_of(number, counts))
        rows = configurations(
            turns, {name: named(frames, name) for name in PUBLISHED_FRAMES}, self.authorship
        )
        statistics = partition_statistics(turns, named(frames, "shown"), named(frames, "votes"))
        return Publishable(rows, named(frames, "counts"), statistics, named(frames, "funnel"))
