"""The stages of a partition, one after the other: plain functions on named frames.

``stage_frames`` says what the frames are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from pipelines.metricinstruct import schema
from pipelines.metricinstruct.analysis_filters import analysis_filters, rejects
from pipelines.metricinstruct.analysis_length import shorten
from pipelines.metricinstruct.analysis_tables import tables
from pipelines.metricinstruct.answer_shares import count_answers
from pipelines.metricinstruct.balance import (
    near_duplicate_funnel,
    near_duplicate_rows,
    surplus_rows,
)
from pipelines.metricinstruct.choice import ChoiceSettings, choose
from pipelines.metricinstruct.drafting import DraftAnalyses
from pipelines.metricinstruct.drafts import UNFINISHED, Draft
from pipelines.metricinstruct.endings import (
    columns_beside,
    ended,
    outcomes,
    parted_analyses,
    with_example,
)
from pipelines.metricinstruct.examples import Item
from pipelines.metricinstruct.filter_settings import FilterSettings
from pipelines.metricinstruct.human_agreement import annotator_pairs
from pipelines.metricinstruct.inputs import SourceInput
from pipelines.metricinstruct.selection import Selection, SelectionSettings, select
from pipelines.metricinstruct.sources.beside import unjoined
from pipelines.metricinstruct.sources.reading import read_source_file
from pipelines.metricinstruct.stage_frames import REMOVED, SUMS, named, together
from transforms.filters import apply, funnel
from transforms.ledger import count_in, count_out
from transforms.llm.calls import Caller
from transforms.llm.spending import calls_frame
from transforms.partitions import Frames


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
    left, joined = unjoined(named(frames, "beside"))
    return {
        "chosen": _one_split(choice.chosen),
        "human_errors": named(frames, "human_errors"),
        "rejected": together("rejected", named(frames, "rejected"), choice.rejected, left),
        "counts": together("counts", named(frames, "counts"), joined),
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
        rejected = together("rejected", rejected, selected.rejected)
    return {
        "chosen": chosen,
        "human_errors": named(frames, "human_errors"),
        "rejected": rejected,
        "waiting": waiting,
        # Counted here, where the calls begin; the out side is counted when all is written.
        "counts": together("counts", named(frames, "counts"), count_in("analyses", chosen.height)),
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
        frames = {**frames, "counts": together("counts", frames["counts"], calls_frame(counts))}
        yield number, settle_drafts(frames, self.drafting.finish(frames, results))


def settle_drafts(frames: Frames, drafted: Frames) -> Frames:
    """Return a partition's frames with what its drafting gave."""
    unfinished = drafted["unfinished"].join(
        frames["chosen"].select("channel", "id", *columns_beside(UNFINISHED)),
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
        "rejected": together("rejected", frames["rejected"], drafted["rejected"]),
        "dead": ended("dead", unfinished.filter(~transient)),
        "waiting": together(
            "waiting", frames["waiting"], ended("waiting", unfinished.filter(transient))
        ),
        "counts": together(
            "counts",
            frames["counts"],
            count_in("errors", int(analyses["errors"].list.len().sum())),
        ),
    }


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
    passed = parted_analyses(named(frames, "analyses"), rejects(verdicts), chosen)
    short, removed = shorten(passed.kept, settings.analysis_length)
    alike = near_duplicate_rows(short, settings.near_duplicate)
    drops = settings.near_duplicate.level == "error"
    kept = parted_analyses(short, alike if drops else alike.clear(), chosen)
    pairs = annotator_pairs(kept.kept, chosen, named(frames, "human_errors"))
    return {
        **{name: named(frames, name) for name in ("human_errors", "verdicts", "dead", "waiting")},
        "chosen": chosen,
        "analyses": kept.kept,
        "removed": removed.select(list(REMOVED)),
        "rejected": together("rejected", named(frames, "rejected"), passed.rejected, kept.rejected),
        "counts": together(
            "counts",
            named(frames, "counts"),
            passed.counts,
            kept.counts,
            count_out("errors", "removed", pl.lit("analysis_length"), removed, pl.len()),
        ),
        "funnel": pl.concat(
            [
                funnel(filters, verdicts),
                near_duplicate_funnel(alike, verdicts, settings.near_duplicate),
            ]
        ),
        "answers": count_answers(
            named(frames, "analyses"),
            passed.kept,
            named(frames, "rejected"),
            named(frames, "dead"),
            settings.format,
        ),
        "pair_counts": pairs.counts,
        "pair_scores": pairs.scores,
    }


def finish_partition(frames: Frames, kept_fraction: float) -> Frames:
    """Drop the surplus of error-free analyses, and count how everything ended."""
    chosen, human = named(frames, "chosen"), named(frames, "human_errors")
    passed = named(frames, "analyses")
    parted = parted_analyses(passed, surplus_rows(passed, kept_fraction), chosen)
    rows = with_example(parted.kept, chosen)
    beside = rows.filter(pl.col("channel") == schema.REAL).select(id="example_id")
    rejected = together("rejected", named(frames, "rejected"), parted.rejected)
    dead, waiting = named(frames, "dead"), named(frames, "waiting")
    return {
        "rows": rows,
        "verdicts": named(frames, "verdicts").join(rows, on="id", how="semi"),
        "removed": named(frames, "removed").join(rows, on="id", how="semi"),
        "human_errors": human.join(beside, on="id", how="semi"),
        "rejected": rejected,
        "dead": dead,
        "waiting": waiting,
        "counts": together(
            "counts",
            named(frames, "counts"),
            parted.counts,
            *outcomes(rows, rejected, dead, waiting),
            count_out("errors", "published", pl.lit(""), rows, pl.col("errors").list.len().sum()),
            *(
                count_out("human_annotations", outcome, pl.lit(""), part, pl.len())
                for outcome, part in (
                    ("published", human.join(beside, on="id", how="semi")),
                    ("not_published", human.join(beside, on="id", how="anti")),
                )
            ),
        ),
        **{name: named(frames, name) for name in SUMS},
    }
