"""The wiring of the MetricInstruct pipeline; what the steps do is in ``stages``.

source files -> GroupByKey -> choose (-> sample, limit) -> draft -> [profiles] -> filter
    -> [error-free rows] -> finish -> write and validate -> publish

In brackets stand the small sums over all partitions. All outputs of an input, its references and
its human annotations share a key and so a partition, and no row can equal one of another partition.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import apache_beam as beam
import polars as pl

from pipelines.metricinstruct.balance import count_error_free, kept_fraction, sum_error_free
from pipelines.metricinstruct.configurations import Authorship, configurations, released
from pipelines.metricinstruct.filter_settings import ErrorFreeShare, FilterSettings
from pipelines.metricinstruct.inputs import SourceInput
from pipelines.metricinstruct.profiles import count_profiles, sum_profiles
from pipelines.metricinstruct.publication import PUBLICATION
from pipelines.metricinstruct.selection import SelectionSettings, candidates, selection
from pipelines.metricinstruct.stages import (
    AnalyseExamples,
    choose_examples,
    filter_analyses,
    finish_partition,
    named,
    read_source,
    select_examples,
)
from pipelines.metricinstruct.statistics import partition_statistics
from transforms.llm.settings import EngineSettings
from transforms.llm.streaming import CallPartitions
from transforms.partitions import (
    Packed,
    ReadToPartitions,
    gather,
    on_packed,
    on_partition,
    pack_element,
    unpack,
)
from transforms.publishing.publication import Run
from transforms.publishing.stages import Publish, Publishable, WriteShards
from transforms.publishing.versions import Version


@dataclass(frozen=True)
class Plan:
    """All that a run's graph is built from; picklable, without a key or another secret."""

    inputs: Sequence[SourceInput]
    partitions: int
    excluded: Sequence[str]
    selection: SelectionSettings
    engine: EngineSettings
    drafting: AnalyseExamples
    filters: FilterSettings
    authorship: Authorship
    version: Version
    run: Run


def build(pipeline: beam.Pipeline, plan: Plan) -> None:
    """Add the whole run to ``pipeline``: from ``plan``'s files to its published version."""
    chosen = (
        pipeline
        | "Files" >> beam.Create(list(plan.inputs))
        | "Read sources" >> beam.ParDo(ReadToPartitions(read_source, plan.partitions))
        | "By partition" >> beam.GroupByKey()
        | "Gather frames" >> beam.MapTuple(lambda number, pieces: (number, gather(pieces)))
        | "Choose" >> beam.Map(on_partition(choose_examples, plan.selection.choice, plan.excluded))
        | "Pack chosen" >> beam.MapTuple(pack_element)
    )
    drafted = (
        _selected(chosen, plan.selection)
        | "Number partitions" >> beam.Map(lambda element: (element[0], element))
        | "Draft analyses" >> beam.ParDo(CallPartitions(plan.engine, plan.drafting))
        | "Pack drafted" >> beam.MapTuple(pack_element)
    )
    filtered = (
        drafted
        | "Filter"
        >> beam.Map(
            on_packed(filter_analyses),
            beam.pvalue.AsSingleton(_profiles(drafted)),
            plan.filters,
            plan.authorship.model,
        )
        | "Pack filtered" >> beam.MapTuple(pack_element)
    )
    finished = (
        filtered
        | "Finish"
        >> beam.Map(
            on_packed(finish_partition),
            beam.pvalue.AsSingleton(_kept_fraction(filtered, plan.filters.error_free_share)),
        )
        | "Pack finished" >> beam.MapTuple(pack_element)
    )
    _ = (
        finished
        | "Write shards"
        >> beam.ParDo(
            WriteShards(
                PUBLICATION, plan.version, plan.partitions, PublishableRows(plan.authorship)
            ),
            [],
        )
        | "All partitions" >> beam.GroupByKey()
        | "Publish" >> beam.ParDo(Publish(PUBLICATION, plan.run, plan.version))
    )


def _selected(chosen: beam.PCollection, settings: SelectionSettings) -> beam.PCollection:
    """Leave out what is not sampled, and waiting what is beyond the limit."""
    selected = (
        chosen
        | "Candidates"
        >> beam.MapTuple(lambda _, packed: candidates(named(unpack(packed), "chosen"), settings))
        | "All candidates" >> beam.combiners.ToList()
        | "Selection" >> beam.Map(selection, settings)
    )
    return chosen | "Select" >> beam.Map(
        on_packed(select_examples), beam.pvalue.AsSingleton(selected), settings
    )


def _profiles(drafted: beam.PCollection) -> beam.PCollection:
    return (
        drafted
        | "Count profiles"
        >> beam.MapTuple(lambda _, packed: count_profiles(named(unpack(packed), "analyses")))
        | "All profiles" >> beam.combiners.ToList()
        | "Sum profiles" >> beam.Map(sum_profiles)
    )


def _kept_fraction(filtered: beam.PCollection, rule: ErrorFreeShare) -> beam.PCollection:
    def fraction(frames: Iterable[pl.DataFrame]) -> float:
        return kept_fraction(sum_error_free(frames), rule)

    return (
        filtered
        | "Count error-free"
        >> beam.MapTuple(lambda _, packed: count_error_free(named(unpack(packed), "analyses")))
        | "All numbers" >> beam.combiners.ToList()
        | "Kept fraction" >> beam.Map(fraction)
    )


@dataclass(frozen=True)
class PublishableRows:
    """Makes a finished partition's rows publishable."""

    authorship: Authorship

    def __call__(self, number: int, packed: Packed, counts: Sequence[Any]) -> Publishable:
        """Return the rows of each configuration of partition ``number``, counts and statistics."""
        frames = unpack(packed)
        rows = released(named(frames, "rows"))
        names = ("verdicts", "removed", "human_errors", "rejected", "dead", "waiting")
        own = {name: named(frames, name) for name in names}
        funnel = named(frames, "funnel")
        statistics = partition_statistics(
            rows,
            own["verdicts"],
            funnel,
            named(frames, "pair_counts"),
            named(frames, "pair_scores"),
        )
        return Publishable(
            configurations(rows, own, self.authorship), named(frames, "counts"), statistics, funnel
        )
