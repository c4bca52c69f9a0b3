"""The stages of a partition, one after the other: plain functions on named frames.

Names of frames on the way: ``seed_rows`` and the crowd's ``responses`` and ``annotations`` as read;
``seeds``, once selected; ``turns``, ``utterances`` and ``votes``, once assembled; and throughout
``rejected``, ``dead``, ``waiting`` (what ended on the way), ``counts`` (for the ledger), ``funnel``
(what the filters saw), ``crowd`` (the crowd's rows that stand, by turn) and ``shown`` (the
rules-of-thumb that workers could choose from).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import polars as pl

from pipelines.prosocial import schema
from pipelines.prosocial.assembly import UTTERANCES, VOTES, assemble
from pipelines.prosocial.crowd import resolve
from pipelines.prosocial.crowd_files import Unit, read_crowd_file
from pipelines.prosocial.dialogue import CrowdSoFar, DialogueDraft, DraftSettings, Seed
from pipelines.prosocial.drafting import DraftDialogues
from pipelines.prosocial.duplicates import HASHES, LOSERS, drop_duplicates, hash_turns
from pipelines.prosocial.filter_settings import FilterSettings
from pipelines.prosocial.filters import filter_turns
from pipelines.prosocial.seeds.limit import apply_limit
from pipelines.prosocial.seeds.selection import select
from pipelines.prosocial.seeds.sources import SeedInput, read_seed_rows
from transforms.filters import FUNNEL
from transforms.frames import NamedFrames, Schema, polars_schema
from transforms.ledger import COUNTS, count_in, count_out
from transforms.llm.calls import Caller
from transforms.llm.prompts import Prompt
from transforms.llm.spending import calls_frame
from transforms.partitions import Frames

#: The crowd's rows that stand, counted by turn; ``unit`` is response or annotation.
CROWD: Schema = {"key": pl.String, "turn": pl.Int32, "unit": pl.String, "n": pl.Int64}
#: Where a turn stands.
PLACES: Schema = {"key": pl.String, "turn": pl.Int32, "split": pl.String}
#: The candidates that a dialogue's workers could choose from.
SHOWN: Schema = {"key": pl.String, "candidates": pl.List(pl.String)}

SCHEMAS: Mapping[str, Schema] = {
    "seed_rows": schema.SEED_ROWS,
    "seeds": schema.SEEDS,
    "responses": schema.RESPONSES,
    "annotations": schema.ANNOTATIONS,
    "turns": schema.TURNS,
    "utterances": UTTERANCES,
    "votes": VOTES,
    "rejected": polars_schema(schema.REJECTED),
    "dead": polars_schema(schema.DEAD),
    "waiting": polars_schema(schema.WAITING),
    "counts": COUNTS,
    "funnel": FUNNEL,
    "crowd": CROWD,
    "shown": SHOWN,
    "places": PLACES,
    "hashes": HASHES,
    "losers": LOSERS,
}

_FRAMES = NamedFrames(SCHEMAS)
named = _FRAMES.named
_together = _FRAMES.together


def read_seeds(one: SeedInput) -> Iterator[tuple[str, pl.DataFrame]]:
    """Yield the frames of a seed file, chunk by chunk."""
    # A file without rows must still get a run to its end, and be told of there.
    yield "counts", count_in("input_rows", 0)
    for chunk in read_seed_rows(one):
        yield "seed_rows", chunk.seed_rows
        yield "rejected", chunk.rejected
        yield "counts", count_in("input_rows", chunk.rows)


def read_crowd(one: tuple[str, Unit]) -> Iterator[tuple[str, pl.DataFrame]]:
    """Yield the frames of a crowd file, ``(path, unit)``, chunk by chunk."""
    path, unit = one
    for chunk in read_crowd_file(path, unit):
        yield f"{unit}s", chunk.frame
        yield "rejected", chunk.rejected
        yield "counts", count_in(f"{unit}s", chunk.rows)
        yield "counts", chunk.counts


def read_input(one: SeedInput | tuple[str, Unit]) -> Iterator[tuple[str, pl.DataFrame]]:
    """Yield the frames of an input file, whichever it is."""
    return read_seeds(one) if isinstance(one, SeedInput) else read_crowd(one)


def select_seeds(frames: Frames, salt: str) -> Frames:
    """Make seeds of seed rows."""
    selection = select(named(frames, "seed_rows"), salt=salt)
    return {
        "seeds": selection.seeds,
        "responses": named(frames, "responses"),
        "annotations": named(frames, "annotations"),
        "rejected": _together("rejected", named(frames, "rejected"), selection.rejected),
        "counts": _together("counts", named(frames, "counts"), selection.counts),
    }


def join_crowd(frames: Frames, last_key: str | None) -> Frames:
    """Leave the seeds beyond ``last_key`` waiting, and join the crowd's rows to the others."""
    seeds, waiting = apply_limit(named(frames, "seeds"), last_key)
    rejected = named(frames, "rejected")
    joined = resolve(
        seeds,
        named(frames, "responses"),
        named(frames, "annotations"),
        not_selected=rejected.filter(pl.col("unit") == "seed")["key"],
        beyond_limit=waiting["key"],
    )
    return {
        "seeds": seeds,
        "responses": _with_candidates(joined.responses, seeds),
        "annotations": joined.annotations,
        "rejected": _together("rejected", rejected, joined.rejected),
        "waiting": waiting,
        "counts": _together(
            "counts",
            named(frames, "counts"),
            joined.counts,
            # Counted here, where drafting begins; its out side is counted when all is written.
            count_in("dialogues", seeds.height),
        ),
    }


def _with_candidates(responses: pl.DataFrame, seeds: pl.DataFrame) -> pl.DataFrame:
    """Fill in the seed's own rules-of-thumb where a crowd file does not say what it showed."""
    own = seeds.select("key", pl.col("rots").alias("own_rots"))
    said = pl.when(pl.col("candidates").list.len() > 0).then("candidates")
    return (
        responses.join(own, on="key", how="left", maintain_order="left")
        .with_columns(pl.coalesce(said, "own_rots").alias("candidates"))
        .select(list(schema.RESPONSES))
    )


@dataclass(frozen=True)
class DraftAndAssemble:
    """Drafts a partition's dialogues by model calls, then assembles and filters them.

    The work of the streaming DoFn of ``transforms.llm``: ``finish`` yields
    ``(partition, frames)``.
    """

    prompts: Mapping[str, Prompt]
    settings: DraftSettings
    filters: FilterSettings

    def items(self, partition: tuple[int, Frames]) -> Sequence[tuple[Seed, CrowdSoFar]]:
        """Return each seed with what the crowd files hold for it."""
        return self._drafting.items(partition[1])

    def key(self, item: tuple[Seed, CrowdSoFar]) -> str:
        """Return the seed's key."""
        return self._drafting.key(item)

    async def work(self, item: tuple[Seed, CrowdSoFar], call: Caller) -> DialogueDraft:
        """Draft one dialogue."""
        return await self._drafting.work(item, call)

    def finish(
        self,
        partition: tuple[int, Frames],
        results: list[DialogueDraft],
        counts: Mapping[str, int],
    ) -> Iterator[tuple[int, Frames]]:
        """Yield the partition with its dialogues assembled and filtered."""
        number, frames = partition
        drafted = self._drafting.finish(frames, results)
        frames = {**frames, "counts": _together("counts", frames["counts"], calls_frame(counts))}
        yield number, assemble_and_filter(frames, drafted, self.filters)

    @cached_property
    def _drafting(self) -> DraftDialogues:
        return DraftDialogues(self.prompts, self.settings)


def assemble_and_filter(frames: Frames, drafted: Frames, filters: FilterSettings) -> Frames:
    """Assemble the dialogues from drafts and the crowd's work, and apply the local filters."""
    responses = _together("responses", frames["responses"], drafted["responses"])
    annotations = _together("annotations", frames["annotations"], drafted["annotations"])
    assembly = assemble(
        frames["seeds"], drafted["drafts"], responses, annotations, drafted["unfinished"]
    )
    filtered = filter_turns(assembly.turns, filters)
    return {
        "turns": filtered.turns,
        "utterances": assembly.utterances,
        "votes": assembly.votes,
        "rejected": _together("rejected", frames["rejected"], assembly.rejected, filtered.rejected),
        "dead": assembly.dead,
        "waiting": _together("waiting", frames["waiting"], assembly.waiting),
        "counts": _together(
            "counts",
            frames["counts"],
            assembly.counts,
            filtered.counts,
            count_in("turns", assembly.turns.height),
        ),
        "funnel": filtered.funnel,
        "crowd": _crowd_rows(responses, annotations, assembly.rejected),
        "shown": responses.filter(pl.col("candidates").list.len() > 0)
        .sort("key", "turn")
        .select("key", "candidates")
        .unique("key", keep="last", maintain_order=True),
    }


def places(frames: Frames) -> pl.DataFrame:
    """Return where each assembled turn stands: key, turn and split."""
    return named(frames, "turns").select(list(PLACES))


def hashes(frames: Frames) -> pl.DataFrame:
    """Return the hashes by which assembled turns are compared across partitions."""
    return hash_turns(named(frames, "turns"))


def _crowd_rows(
    responses: pl.DataFrame, annotations: pl.DataFrame, rejected: pl.DataFrame
) -> pl.DataFrame:
    parts = []
    for unit, rows in (("response", responses), ("annotation", annotations)):
        dropped = rejected.filter(pl.col("unit") == unit).select("file", "line")
        parts.append(
            rows.filter(pl.col("author") == "crowd")
            .join(dropped, on=["file", "line"], how="anti")
            .group_by("key", "turn")
            .agg(pl.lit(unit).alias("unit"), pl.len().cast(pl.Int64).alias("n"))
        )
    return _together("crowd", *parts).sort("key", "turn", "unit")


def finish_partition(frames: Frames) -> Frames:
    """Take out what is an exact duplicate elsewhere, and count how everything ended."""
    dropped = drop_duplicates(named(frames, "turns"), named(frames, "losers"))
    turns = dropped.turns
    rejected = _together("rejected", named(frames, "rejected"), dropped.rejected)
    ended = {name: named(frames, name) for name in ("dead", "waiting")}
    return {
        **{
            name: named(frames, name).join(turns, on=["key", "turn"], how="semi")
            for name in ("utterances", "votes")
        },
        "turns": turns,
        "rejected": rejected,
        **ended,
        "counts": _together(
            "counts",
            named(frames, "counts"),
            dropped.counts,
            _outcomes(turns, rejected, ended["dead"], ended["waiting"]),
            _crowd_outcomes(named(frames, "crowd"), turns, rejected),
        ),
        "funnel": named(frames, "funnel"),
        "shown": named(frames, "shown").join(turns, on="key", how="semi"),
    }


def _outcomes(
    turns: pl.DataFrame, rejected: pl.DataFrame, dead: pl.DataFrame, waiting: pl.DataFrame
) -> pl.DataFrame:
    """Count how rows of seed files, dialogues and turns ended, from what is written."""
    first = turns.filter(pl.col("turn") == 0)
    ended = dead.filter("ends_dialogue")
    held = waiting.filter(pl.col("waits_for") != "limit")
    lost = rejected.filter(pl.col("unit") == "dialogue")
    cut = rejected.filter(pl.col("unit") == "turn")
    of_seed_files = rejected.filter(pl.col("input_rows") > 0)
    rows = pl.col("input_rows").sum().cast(pl.Int64).alias("n")
    number = pl.len().cast(pl.Int64).alias("n")
    rule, error, step = pl.col("rule"), pl.col("error_class"), pl.col("waits_for")
    return _together(
        "counts",
        count_out("input_rows", "published", pl.lit(""), first, rows),
        count_out("input_rows", pl.col("outcome"), rule, of_seed_files, rows),
        count_out("input_rows", "dead", error, ended, rows),
        count_out("input_rows", "waiting", step, waiting, rows),
        count_out("dialogues", "published", pl.lit(""), first, number),
        count_out("dialogues", pl.col("outcome"), rule, lost, number),
        count_out("dialogues", "dead", error, ended, number),
        count_out("dialogues", "waiting", step, held, number),
        count_out("turns", "published", pl.lit(""), turns, number),
        count_out("turns", pl.col("outcome"), rule, cut, number),
    )


def _crowd_outcomes(
    crowd: pl.DataFrame, turns: pl.DataFrame, rejected: pl.DataFrame
) -> pl.DataFrame:
    """Count how the crowd's rows ended: published, kept for later, or rejected."""
    parts = []
    for unit in ("response", "annotation"):
        stage = f"{unit}s"
        own = crowd.filter(pl.col("unit") == unit)
        published = own.join(turns, on=["key", "turn"], how="semi")
        kept = own.join(turns, on=["key", "turn"], how="anti")
        refused = rejected.filter(pl.col("unit") == unit)
        total = pl.col("n").sum().alias("n")
        parts += [
            count_out(stage, "published", pl.lit(""), published, total),
            count_out(stage, "not_published", pl.lit(""), kept, total),
            count_out(
                stage,
                pl.col("outcome"),
                pl.col("rule"),
                refused,
                pl.len().cast(pl.Int64).alias("n"),
            ),
        ]
    return _together("counts", *parts)
