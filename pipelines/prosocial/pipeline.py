"""The wiring of the ProsocialDialog pipeline; what the steps do is in ``stages``.

seed files, responses, annotations -> CoGroupByKey -> select (-> limit) -> join the crowd
    -> draft, assemble, filter -> (shuffle of text hashes -> duplicates, counts: a side input)
    -> finish, write and validate -> publish
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

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
from pipelines.prosocial.duplicates import find_losers, standing
from pipelines.prosocial.publication import PUBLICATION
from pipelines.prosocial.seeds.sources import SeedInput
from pipelines.prosocial.stages import (
    DraftAndAssemble,
    finish_partition,
    hashes,
    join_crowd,
    named,
    places,
    read_input,
    select_seeds,
)
from pipelines.prosocial.statistics import partition_statistics
from transforms.background import MapAhead
from transforms.limit import smallest_keys
from transforms.llm.lane_streaming import MakeCalls
from transforms.llm.rehearsal import RehearsePartitions
from transforms.llm.settings import EngineSettings
from transforms.partitions import (
    PARTITION,
    Frames,
    InPieces,
    Piece,
    ReadToPartitions,
    gather,
    gather_group,
    register_frame_coder,
    scatter,
    to_pieces,
)
from transforms.publishing.publication import Run
from transforms.publishing.stages import Publish, Publishable, WriteShards
from transforms.publishing.versions import Version

#: Frames of a finished partition that configurations are made of.
PUBLISHED_FRAMES = ("utterances", "votes", "rejected", "dead", "waiting")


@dataclass(frozen=True)
class DraftPlan:
    """All that the drafting of dialogues is built from; picklable, without a key."""

    seeds: Sequence[SeedInput]
    responses: Sequence[str]
    annotations: Sequence[str]
    partitions: int
    split_salt: str
    limit: int | None
    engine: EngineSettings
    drafting: DraftAndAssemble


@dataclass(frozen=True)
class Plan:
    """All that a run's graph is built from; picklable, without a key or another secret."""

    draft: DraftPlan
    authorship: Authorship
    version: Version
    run: Run


def build(pipeline: beam.Pipeline, plan: Plan) -> None:
    """Add the whole run to ``pipeline``: from ``plan``'s files to its published version."""
    calls = MakeCalls(plan.draft.engine, plan.draft.drafting)
    assembled = _partitions(pipeline, plan.draft) | "Draft dialogues" >> calls
    partitions = plan.draft.partitions
    losers = _losers(assembled, partitions)
    counts = _dialogue_counts(assembled, losers) | "All counts" >> beam.combiners.ToList()
    _ = (
        assembled
        | "Assembled in pieces" >> InPieces(losers)
        | "Write shards"
        >> beam.ParDo(
            WriteShards(PUBLICATION, plan.version, partitions, PublishableRows(plan.authorship)),
            beam.pvalue.AsSingleton(counts),
        )
        | "All partitions" >> beam.GroupByKey()
        | "Publish" >> beam.ParDo(Publish(PUBLICATION, plan.run, plan.version))
    )


def rehearse(pipeline: beam.Pipeline, plan: DraftPlan) -> None:
    """Add to ``pipeline`` the rehearsal of the run's calls, which writes nothing."""
    rehearsal = RehearsePartitions(plan.engine, plan.drafting)
    _ = _partitions(pipeline, plan) | "Rehearse dialogues" >> beam.ParDo(rehearsal)


def _partitions(pipeline: beam.Pipeline, plan: DraftPlan) -> beam.PCollection:
    """Return the partitions that are to be drafted."""
    register_frame_coder()
    return _joined(_read(pipeline, plan), plan)


def _read(pipeline: beam.Pipeline, plan: DraftPlan) -> beam.PCollection:
    inputs: list[SeedInput | tuple[str, Unit]] = [*plan.seeds]
    inputs += [(path, "response") for path in plan.responses]
    inputs += [(path, "annotation") for path in plan.annotations]
    return (
        pipeline
        | "Files" >> beam.Create(inputs)
        | "Read" >> beam.ParDo(ReadToPartitions(read_input, plan.partitions))
        | "By partition" >> beam.GroupByKey()
    )


def _joined(grouped: beam.PCollection, plan: DraftPlan) -> beam.PCollection:
    """Join the crowd to the seeds; with a limit, to those with the smallest keys of all."""
    if plan.limit is None:
        prepare = beam.ParDo(MapAhead(partial(_prepare, plan.split_salt)))
        return grouped | "Select and join" >> prepare.with_output_types(PARTITION)
    select = beam.ParDo(MapAhead(partial(_select, plan.split_salt)))
    selected = grouped | "Select seeds" >> select.with_output_types(PARTITION)
    last_key = (
        selected
        | "Keys of seeds" >> beam.Map(lambda element: element[1]["seeds"].select("key"))
        | "All keys" >> beam.combiners.ToList()
        | "Last key within the limit" >> beam.Map(smallest_keys, plan.limit)
    )
    join = beam.Map(_join_within, beam.pvalue.AsSingleton(last_key))
    pieces = "Selected in pieces" >> InPieces()
    return selected | pieces | "Join crowd within the limit" >> join.with_output_types(PARTITION)


def _select(salt: str, element: tuple[int, Iterable[Piece]]) -> tuple[int, Frames]:
    number, pieces = element
    return number, select_seeds(gather(pieces), salt)


def _prepare(salt: str, element: tuple[int, Iterable[Piece]]) -> tuple[int, Frames]:
    return _join_within(_select(salt, element), None)


def _join_within(element: tuple[int, Frames], last_key: str | None) -> tuple[int, Frames]:
    number, frames = element
    return number, join_crowd(frames, last_key)


def _losers(assembled: beam.PCollection, partitions: int) -> beam.PCollection:
    """Return what is a duplicate in each partition, as pieces; schema ``LOSERS``.

    Only hashes of texts are shuffled; the dialogues themselves stay where they are.
    """
    return (
        assembled
        | "Texts by hash" >> beam.FlatMap(_texts_by_hash, partitions)
        | "By text" >> beam.GroupByKey()
        | "Find duplicates" >> beam.FlatMap(_losers_by_partition, partitions)
    )


def _dialogue_counts(assembled: beam.PCollection, losers: beam.PCollection) -> beam.PCollection:
    """Return how many dialogues each partition has left, by split."""
    return (
        {"places": assembled | "Places" >> beam.FlatMapTuple(_places), "losers": losers}
        | "Places and duplicates" >> beam.CoGroupByKey()
        | "Count dialogues" >> beam.FlatMapTuple(_counts)
    )


def _texts_by_hash(element: tuple[int, Frames], partitions: int) -> Iterator[tuple[int, Piece]]:
    return scatter("hashes", hashes(element[1]), partitions, column="hash")


def _losers_by_partition(
    element: tuple[int, Iterable[Piece]], partitions: int
) -> Iterator[tuple[int, Piece]]:
    return scatter("losers", find_losers(gather(element[1])["hashes"]), partitions)


def _places(number: int, frames: Frames) -> Iterator[tuple[int, Piece]]:
    return to_pieces(number, {"places": places(frames)})


def _counts(number: int, groups: Mapping[str, Iterable[Piece]]) -> Iterator[DialogueCount]:
    _, frames = gather_group((number, groups))
    left = standing(named(frames, "places"), named(frames, "losers"))
    yield from dialogue_counts(number, left)


@dataclass(frozen=True)
class PublishableRows:
    """Finishes a partition and makes its rows publishable: ids, hashed annotators, shards' rows."""

    authorship: Authorship

    def __call__(
        self, number: int, frames: Frames, standings: Sequence[DialogueCount]
    ) -> Publishable:
        """Return the rows of each configuration of partition ``number``, counts and statistics.

        Args:
            number: the partition.
            frames: its assembled frames, and its duplicates.
            standings: the dialogues that every partition has left.
        """
        finished = finish_partition(frames)
        turns = with_dialogue_ids(finished["turns"], offsets_of(number, standings))
        rows = configurations(
            turns, {name: finished[name] for name in PUBLISHED_FRAMES}, self.authorship
        )
        statistics = partition_statistics(turns, finished["shown"], finished["votes"])
        return Publishable(rows, finished["counts"], statistics, finished["funnel"])
