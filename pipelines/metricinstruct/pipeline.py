"""The wiring of the MetricInstruct pipeline; what the steps do is in ``stages``.

source files -> GroupByKey -> choose (-> sample, limit) -> draft -> [profiles] -> filter
    -> [error-free rows] -> finish, write and validate -> publish

In brackets stand the small sums over all partitions. All outputs of an input, its references and
its human annotations share a key and so a partition; ids are of the key, too, so no row has the id
of a row of another partition. (Its texts it can have: those of two inputs that differ only where
both are cut, and got the same output.)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial

import apache_beam as beam
import polars as pl

from pipelines.metricinstruct.balance import count_error_free, kept_fraction, sum_error_free
from pipelines.metricinstruct.choice import ChoiceSettings
from pipelines.metricinstruct.configurations import Authorship, configurations, released
from pipelines.metricinstruct.filter_settings import ErrorFreeShare, FilterSettings
from pipelines.metricinstruct.inputs import SourceInput
from pipelines.metricinstruct.profiles import count_profiles, sum_profiles
from pipelines.metricinstruct.publication import PUBLICATION
from pipelines.metricinstruct.selection import SelectionSettings, candidates, selection
from pipelines.metricinstruct.stage_frames import SUMS, named
from pipelines.metricinstruct.stages import (
    AnalyseExamples,
    choose_examples,
    filter_analyses,
    finish_partition,
    read_source,
    select_examples,
)
from pipelines.metricinstruct.statistics import partition_statistics
from transforms.background import MapAhead
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
    on_partition,
    register_frame_coder,
)
from transforms.publishing.publication import Run
from transforms.publishing.stages import Publish, Publishable, WriteShards
from transforms.publishing.versions import Version


@dataclass(frozen=True)
class DraftPlan:
    """All that the drafting of analyses is built from; picklable, without a key."""

    inputs: Sequence[SourceInput]
    partitions: int
    excluded: Sequence[str]
    selection: SelectionSettings
    engine: EngineSettings
    drafting: AnalyseExamples


@dataclass(frozen=True)
class Plan:
    """All that a run's graph is built from; picklable, without a key or another secret."""

    draft: DraftPlan
    filters: FilterSettings
    authorship: Authorship
    version: Version
    run: Run


def build(pipeline: beam.Pipeline, plan: Plan) -> None:
    """Add the whole run to ``pipeline``: from ``plan``'s files to its published version."""
    calls = MakeCalls(plan.draft.engine, plan.draft.drafting)
    drafted = _partitions(pipeline, plan.draft) | "Draft analyses" >> calls
    filtered = (
        drafted
        | "Drafted in pieces" >> InPieces()
        | "Filter"
        >> beam.Map(
            on_partition(filter_analyses),
            beam.pvalue.AsSingleton(_profiles(drafted)),
            plan.filters,
        ).with_output_types(PARTITION)
    )
    _ = (
        filtered
        | "Filtered in pieces" >> InPieces()
        | "Write shards"
        >> beam.ParDo(
            WriteShards(
                PUBLICATION, plan.version, plan.draft.partitions, PublishableRows(plan.authorship)
            ),
            beam.pvalue.AsList(_kept_fraction(filtered, plan.filters.error_free_share)),
        )
        | "All partitions" >> beam.GroupByKey()
        | "Publish" >> beam.ParDo(Publish(PUBLICATION, plan.run, plan.version))
    )


def rehearse(pipeline: beam.Pipeline, plan: DraftPlan) -> None:
    """Add to ``pipeline`` the rehearsal of the run's calls, which writes nothing."""
    rehearsal = RehearsePartitions(plan.engine, plan.drafting)
    _ = _partitions(pipeline, plan) | "Rehearse analyses" >> beam.ParDo(rehearsal)


def _partitions(pipeline: beam.Pipeline, plan: DraftPlan) -> beam.PCollection:
    """Return the partitions that are to be drafted."""
    register_frame_coder()
    choose = partial(_choose, plan.selection.choice, plan.excluded)
    chosen = (
        pipeline
        | "Files" >> beam.Create(list(plan.inputs))
        | "Read sources" >> beam.ParDo(ReadToPartitions(read_source, plan.partitions))
        | "By partition" >> beam.GroupByKey()
        | "Choose" >> beam.ParDo(MapAhead(choose)).with_output_types(PARTITION)
    )
    return _selected(chosen, plan.selection)


def _choose(
    settings: ChoiceSettings, excluded: Sequence[str], element: tuple[int, Iterable[Piece]]
) -> tuple[int, Frames]:
    number, pieces = element
    return number, choose_examples(gather(pieces), settings, excluded)


def _selected(chosen: beam.PCollection, settings: SelectionSettings) -> beam.PCollection:
    """Leave out what is not sampled, and waiting what is beyond the limit."""
    selected = (
        chosen
        | "Candidates"
        >> beam.MapTuple(lambda _, frames: candidates(named(frames, "chosen"), settings))
        | "All candidates" >> beam.combiners.ToList()
        | "Selection" >> beam.Map(selection, settings)
    )
    select = beam.Map(on_partition(select_examples), beam.pvalue.AsSingleton(selected), settings)
    pieces = "Chosen in pieces" >> InPieces()
    return chosen | pieces | "Select" >> select.with_output_types(PARTITION)


def _profiles(drafted: beam.PCollection) -> beam.PCollection:
    return (
        drafted
        | "Count profiles"
        >> beam.MapTuple(lambda _, frames: count_profiles(named(frames, "analyses")))
        | "All profiles" >> beam.combiners.ToList()
        | "Sum profiles" >> beam.Map(sum_profiles)
    )


def _kept_fraction(filtered: beam.PCollection, rule: ErrorFreeShare) -> beam.PCollection:
    def fraction(frames: Iterable[pl.DataFrame]) -> float:
        return kept_fraction(sum_error_free(frames), rule)

    return (
        filtered
        | "Count error-free"
        >> beam.MapTuple(lambda _, frames: count_error_free(named(frames, "analyses")))
        | "All numbers" >> beam.combiners.ToList()
        | "Kept fraction" >> beam.Map(fraction)
    )


@dataclass(frozen=True)
class PublishableRows:
    """Finishes a partition and makes its rows publishable."""

    authorship: Authorship

    def __call__(self, number: int, frames: Frames, standings: Sequence[float]) -> Publishable:
        """Return the rows of each configuration of partition ``number``, counts and statistics.

        Args:
            number: the partition.
            frames: its filtered frames.
            standings: the one fraction of error-free analyses that stay, of the whole set.
        """
        (fraction,) = standings
        frames = finish_partition(frames, fraction)
        rows = released(named(frames, "rows"))
        names = ("verdicts", "removed", "human_errors", "rejected", "dead", "waiting")
        own = {name: named(frames, name) for name in names}
        sums = {name: named(frames, name) for name in SUMS}
        return Publishable(
            configurations(rows, own, self.authorship),
            named(frames, "counts"),
            partition_statistics(rows, own["verdicts"], sums),
            sums["funnel"],
        )
