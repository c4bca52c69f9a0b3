"""The stages of a partition, one after the other: plain functions on named frames.

Names of frames on the way: ``examples`` and ``human_errors`` as read; ``chosen``, once the outputs
of each input were chosen; ``analyses`` and ``verdicts``, once the model has answered; ``rows``, the
analyses that are published, with their examples' columns; and throughout ``rejected``, ``dead``,
``waiting`` (what ended on the way) and ``counts`` (for the ledger). ``funnel`` is what the filters
saw, ``pair_counts`` and ``pair_scores`` are the sums that the agreement with human annotators is
made of, ``removed`` the errors that made an analysis too long.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from pipelines.metricinstruct import schema
from pipelines.metricinstruct.analysis_filters import analysis_filters, rejects
from pipelines.metricinstruct.analysis_length import shorten
from pipelines.metricinstruct.analysis_tables import tables
from pipelines.metricinstruct.balance import near_duplicate_rows, surplus_rows
from pipelines.metricinstruct.choice import ChoiceSettings, choose
from pipelines.metricinstruct.drafting import (
    ANALYSED,
    UNFINISHED,
    VERDICTS,
    Draft,
    DraftAnalyses,
)
from pipelines.metricinstruct.examples import Item
from pipelines.metricinstruct.filter_settings import FilterSettings
from pipelines.metricinstruct.human_agreement import annotator_pairs
from pipelines.metricinstruct.inputs import SourceInput
from pipelines.metricinstruct.selection import Selection, SelectionSettings, select
from pipelines.metricinstruct.sources.reading import read_source_file
from transforms.crowd import spans
from transforms.filters import FUNNEL, apply, funnel
from transforms.frames import NamedFrames, Schema, polars_schema
from transforms.ledger import COUNTS, count_in, count_out
from transforms.llm.calls import CallClass, Caller
from transforms.llm.spending import calls_frame
from transforms.partitions import Frames

_AWAITED = [each.value for each in CallClass if each.awaited]

#: The errors that were taken from an analysis because it was too long.
REMOVED: Schema = {"id": pl.String, "number": pl.Int64}

SCHEMAS: Mapping[str, Schema] = {
    "examples": schema.EXAMPLES,
    "human_errors": schema.HUMAN_ERRORS,
    "chosen": schema.CHOSEN,
    "analyses": ANALYSED,
    "rows": {**ANALYSED, **schema.CHOSEN},
    "verdicts": VERDICTS,
    "unfinished": UNFINISHED,
    "removed": REMOVED,
    "rejected": polars_schema(schema.REJECTED),
    "dead": polars_schema(schema.DEAD),
    "waiting": polars_schema(schema.WAITING),
    "counts": COUNTS,
    "funnel": FUNNEL,
    "pair_counts": spans.COUNTS,
    "pair_scores": spans.SCORES,
}
_FRAMES = NamedFrames(SCHEMAS)
named = _FRAMES.named
_together = _FRAMES.together


def read_source(one: SourceInput) -> Iterator[tuple[str, pl.DataFrame]]:
    """Yield the frames of a source's file, chunk by chunk, and what of it enters the ledger."""
    stages = {"examples": "examples", "human_errors": "human_annotations"}
    for name, frame in read_source_file(one.file, one.source):
        yield name, frame
        if name in stages:
            yield "counts", count_in(stages[name], frame.height)


def choose_examples(frames: Frames, settings: ChoiceSettings, excluded: Sequence[str]) -> Frames:
    """Choose among the outputs of each input; an input's rows share one split from here on."""
    choice = choose(named(frames, "examples"), settings, excluded)
    return {
        "chosen": _one_split(choice.chosen),
        "human_errors": named(frames, "human_errors"),
        "rejected": _together("rejected", named(frames, "rejected"), choice.rejected),
        "counts": named(frames, "counts"),
    }


def _one_split(chosen: pl.DataFrame) -> pl.DataFrame:
    """Return the rows with the split of their input; what has none is for training."""
    names = list(schema.SPLIT_PRIORITY)
    rank = pl.col("split").replace_strict(names, range(len(names)), return_dtype=pl.Int32)
    first = rank.min().over("key").fill_null(len(names) - 1)
    return chosen.with_columns(
        first.replace_strict(range(len(names)), names, return_dtype=pl.String).alias("split")
    )


def select_examples(
    frames: Frames, selection: Selection | None, settings: SelectionSettings
) -> Frames:
    """Leave out what is not sampled, and waiting what is beyond the limit.

    Without a ``selection`` all chosen examples go on.
    """
    chosen, rejected, waiting = (named(frames, name) for name in ("chosen", "rejected", "waiting"))
    if selection is not None:
        selected = select(chosen, selection, settings)
        chosen, waiting = selected.chosen, selected.waiting
        rejected = _together("rejected", rejected, selected.rejected)
    return {
        "chosen": chosen,
        "human_errors": named(frames, "human_errors"),
        "rejected": rejected,
        "waiting": waiting,
        # Counted here, where the calls begin; the out side is counted when all is written.
        "counts": _together("counts", named(frames, "counts"), count_in("analyses", chosen.height)),
    }


@dataclass(frozen=True)
class AnalyseExamples:
    """Draws the analyses of a partition's examples from the model.

    The work of the streaming DoFn of ``transforms.llm``: ``finish`` yields
    ``(partition, frames)``.
    """

    drafting: DraftAnalyses

    def items(self, partition: tuple[int, Frames]) -> Sequence[Item]:
        """Return the partition's examples."""
        return self.drafting.items(partition[1])

    def key(self, item: Item) -> str:
        """Return the key of the example's input."""
        return self.drafting.key(item)

    async def work(self, item: Item, call: Caller) -> Draft:
        """Make the calls of one example."""
        return await self.drafting.work(item, call)

    def finish(
        self, partition: tuple[int, Frames], results: list[Draft], counts: Mapping[str, int]
    ) -> Iterator[tuple[int, Frames]]:
        """Yield the partition with its analyses, and what got none."""
        number, frames = partition
        frames = {**frames, "counts": _together("counts", frames["counts"], calls_frame(counts))}
        yield number, settle_drafts(frames, self.drafting.finish(frames, results))


def settle_drafts(frames: Frames, drafted: Frames) -> Frames:
    """Return a partition's frames with what its drafting gave."""
    unfinished = drafted["unfinished"].join(
        frames["chosen"].select("channel", "id", *_columns_beside(UNFINISHED)),
        on=["channel", "id"],
        how="left",
        maintain_order="left",
    )
    transient = pl.col("transient")
    analyses = drafted["analyses"]
    return {
        "chosen": frames["chosen"],
        "human_errors": frames["human_errors"],
        "analyses": analyses,
        "verdicts": drafted["verdicts"],
        "rejected": _together("rejected", frames["rejected"], drafted["rejected"]),
        "dead": _ended("dead", unfinished.filter(~transient)),
        "waiting": _together(
            "waiting", frames["waiting"], _ended("waiting", unfinished.filter(transient))
        ),
        "counts": _together(
            "counts",
            frames["counts"],
            count_in("errors", int(analyses["errors"].list.len().sum())),
        ),
    }


def _columns_beside(known: Schema) -> list[str]:
    """Return the columns of a chosen example that ``known`` lacks and that an end is told with."""
    wanted = dict.fromkeys([*schema.DEAD.names, *schema.WAITING.names])
    return [name for name in wanted if name in schema.CHOSEN and name not in known]


def _ended(name: str, unfinished: pl.DataFrame) -> pl.DataFrame:
    error = pl.col("error_class")
    awaited = pl.when(error.is_in(_AWAITED)).then(error).otherwise(pl.lit("call"))
    named_otherwise = {"request_hash": pl.col("request"), "waits_for": awaited}
    return unfinished.select(
        named_otherwise.get(column, pl.col(column)).cast(kind).alias(column)
        for column, kind in SCHEMAS[name].items()
    )


def filter_analyses(frames: Frames, profiles: pl.DataFrame, settings: FilterSettings) -> Frames:
    """Apply the filters, shorten what is too long, and measure agreement with human annotators.

    Args:
        frames: a partition's, with its analyses.
        profiles: the error profiles of all partitions, summed.
        settings: of the filters.
    """
    chosen = named(frames, "chosen")
    filters = analysis_filters(settings)
    verdicts = apply(filters, tables(named(frames, "analyses"), profiles))
    passed = _parted(named(frames, "analyses"), rejects(verdicts), chosen)
    short, removed = shorten(passed.kept, settings.analysis_length)
    kept = _parted(short, near_duplicate_rows(short, settings.near_duplicate), chosen)
    pairs = annotator_pairs(kept.kept, chosen, named(frames, "human_errors"))
    return {
        **{name: named(frames, name) for name in ("human_errors", "verdicts", "dead", "waiting")},
        "chosen": chosen,
        "analyses": kept.kept,
        "removed": removed.select(list(REMOVED)),
        "rejected": _together(
            "rejected", named(frames, "rejected"), passed.rejected, kept.rejected
        ),
        "counts": _together(
            "counts",
            named(frames, "counts"),
            passed.counts,
            kept.counts,
            count_out("errors", "removed", pl.lit("analysis_length"), removed, pl.len()),
        ),
        "funnel": funnel(filters, verdicts),
        "pair_counts": pairs.counts,
        "pair_scores": pairs.scores,
    }


def finish_partition(frames: Frames, kept_fraction: float) -> Frames:
    """Drop the surplus of error-free analyses, and count how everything ended."""
    chosen, human = named(frames, "chosen"), named(frames, "human_errors")
    passed = named(frames, "analyses")
    parted = _parted(passed, surplus_rows(passed, kept_fraction), chosen)
    rows = with_example(parted.kept, chosen)
    beside = rows.filter(pl.col("channel") == schema.REAL).select(id="example_id")
    rejected = _together("rejected", named(frames, "rejected"), parted.rejected)
    dead, waiting = named(frames, "dead"), named(frames, "waiting")
    return {
        "rows": rows,
        "verdicts": named(frames, "verdicts").join(rows, on="id", how="semi"),
        "removed": named(frames, "removed").join(rows, on="id", how="semi"),
        "human_errors": human.join(beside, on="id", how="semi"),
        "rejected": rejected,
        "dead": dead,
        "waiting": waiting,
        "counts": _together(
            "counts",
            named(frames, "counts"),
            parted.counts,
            *_outcomes(rows, rejected, dead, waiting),
            count_out("errors", "published", pl.lit(""), rows, pl.col("errors").list.len().sum()),
            *(
                count_out("human_annotations", outcome, pl.lit(""), part, pl.len())
                for outcome, part in (
                    ("published", human.join(beside, on="id", how="semi")),
                    ("not_published", human.join(beside, on="id", how="anti")),
                )
            ),
        ),
        **{name: named(frames, name) for name in ("funnel", "pair_counts", "pair_scores")},
    }


def with_example(analyses: pl.DataFrame, chosen: pl.DataFrame) -> pl.DataFrame:
    """Return the analyses with the columns of their example that they lack."""
    beside = [name for name in schema.CHOSEN if name not in analyses.columns]
    return analyses.join(
        chosen.select("channel", pl.col("id").alias("example_id"), *beside),
        on=["channel", "example_id"],
        how="left",
        maintain_order="left",
    )


@dataclass(frozen=True)
class _Parted:
    """Analyses that stay, rejects (``REJECTED``) of the others, and the counts of their errors."""

    kept: pl.DataFrame
    rejected: pl.DataFrame
    counts: pl.DataFrame


def _parted(analyses: pl.DataFrame, dropped: pl.DataFrame, chosen: pl.DataFrame) -> _Parted:
    """Part the analyses from those that are ``dropped`` (columns id, rule, value, field)."""
    rows = dropped.join(with_example(analyses, chosen), on="id", how="left", maintain_order="left")
    alike = pl.col("rule") == "near_duplicate"
    columns = {
        "unit": pl.lit("analysis"),
        "outcome": pl.when(alike).then(pl.lit("duplicate")).otherwise(pl.lit("rejected")),
        "text": pl.col("hypothesis"),
    }
    refused = rows.select(
        columns.get(name, pl.col(name)).cast(kind).alias(name)
        for name, kind in SCHEMAS["rejected"].items()
    )
    errors = pl.col("errors").list.len().sum()
    return _Parted(
        analyses.join(dropped, on="id", how="anti", maintain_order="left"),
        refused,
        count_out("errors", "rejected", pl.col("rule"), rows, errors),
    )


def _outcomes(
    rows: pl.DataFrame, rejected: pl.DataFrame, dead: pl.DataFrame, waiting: pl.DataFrame
) -> Iterator[pl.DataFrame]:
    """Yield how rows of files, examples and analyses ended, from what is written."""
    of_files, number = pl.col("input_rows").sum(), pl.len()
    outcome, rule, nothing = pl.col("outcome"), pl.col("rule"), pl.lit("")
    examples = rejected.filter(pl.col("unit") != "input_row")
    analyses = rejected.filter(pl.col("unit") == "analysis")
    held = waiting.filter(pl.col("waits_for") != "limit")
    for stage, refused, later, n in (
        ("input_rows", rejected, waiting, of_files),
        ("examples", examples, waiting, number),
        ("analyses", analyses, held, number),
    ):
        yield count_out(stage, "published", nothing, rows, n)
        yield count_out(stage, outcome, rule, refused, n)
        yield count_out(stage, "dead", pl.col("error_class"), dead, n)
        yield count_out(stage, "waiting", pl.col("waits_for"), later, n)
