"""Selection: from the seed rows of one partition to its seeds, every row accounted for.

Rows with one key (the same text, see transforms.keys) from one source and split are one *copy* of
a seed. A copy qualifies when one of its rows passes all rules of its source. Of several qualifying
copies one is kept, so that no text stands in two splits and all its rules-of-thumb stay together.
"""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from pipelines.prosocial.schema import REJECTED, SEEDS, SOURCES, SPLIT_PRIORITY
from pipelines.prosocial.seeds.rows import ROT_SEPARATOR
from pipelines.prosocial.seeds.sbic import COMPLEMENTARY_RULES
from pipelines.prosocial.seeds.splits import split_of_key
from transforms.frames import polars_schema
from transforms.ledger import COUNTS

MAX_CANDIDATES = 5
DUPLICATE_RULE = "duplicate_seed"

_COPY = ("key", "source", "split")
_REJECTED_SCHEMA = polars_schema(REJECTED)


@dataclass(frozen=True)
class Selection:
    """What becomes of the seed rows of a partition.

    ``seeds`` has the schema SEEDS and ``rejected`` the schema REJECTED (unit ``seed``, outcome
    rejected or duplicate), both sorted by key; the sums of their ``input_rows`` add up to
    ``rows``, the number of seed rows that came in.
    """

    seeds: pl.DataFrame
    rejected: pl.DataFrame
    rows: int

    @property
    def counts(self) -> pl.DataFrame:
        """Stage ``select`` in rows of seed files: in; out selected, rejected, duplicate."""
        taken = self.seeds.select(
            outcome=pl.lit("selected"), reason=pl.lit(""), n=pl.col("input_rows")
        )
        dropped = self.rejected.select("outcome", reason="rule", n="input_rows")
        ended = pl.concat([taken, dropped]).group_by("outcome", "reason").agg(pl.col("n").sum())
        entered = pl.DataFrame({"outcome": [""], "reason": [""], "n": [self.rows]})
        return pl.concat(
            [
                side.select(pl.lit("select").alias("stage"), pl.lit(name).alias("side"), pl.all())
                for name, side in (("in", entered), ("out", ended.sort("outcome", "reason")))
            ]
        ).select(list(COUNTS))


def select(
    seed_rows: pl.DataFrame, *, salt: str, max_candidates: int = MAX_CANDIDATES
) -> Selection:
    """Return the selection from one partition's seed rows, whatever their order.

    Args:
        seed_rows: schema SEED_ROWS; all rows of their keys.
        salt: names the draw of splits for seeds whose source has none.
        max_candidates: most rules-of-thumb a seed shows.
    """
    rows = seed_rows.sort(
        "key", "source", "split", "rank", "rule", "value", "situation", "etc", "file", "line",
        descending=[False, False, False, True, *[False] * 6],
    )  # fmt: skip
    copies = _copies(rows)
    qualifying = _with_split(copies.filter("qualifies"), salt)
    ranked = qualifying.sort("key", "split_rank", "source_rank", "source", "drawn")
    kept = ranked.unique("key", keep="first", maintain_order=True)
    seeds = _with_candidates(kept, rows, max_candidates)
    others = ranked.filter(~ranked.select(pl.col("key").is_first_distinct()).to_series())
    return Selection(
        seeds=seeds,
        rejected=_rejected(copies.filter(~pl.col("qualifies")), others, kept),
        rows=seed_rows.height,
    )


def _copies(rows: pl.DataFrame) -> pl.DataFrame:
    """Return one row per copy: its first row (the one that got furthest) and its verdict."""
    fails = [(pl.col("rule") == rule).fill_null(value=False).any() for rule in COMPLEMENTARY_RULES]
    return rows.group_by(_COPY, maintain_order=True).agg(
        pl.col("situation", "etc", "file", "line", "rule", "value").first(),
        pl.len().cast(pl.Int64).alias("input_rows"),
        qualifies=pl.col("rule").is_null().any() | pl.all_horizontal(fails),
    )


def _with_split(copies: pl.DataFrame, salt: str) -> pl.DataFrame:
    """Return ``copies`` with a split each, and what decides which copy of a key is kept."""
    keys = copies.filter(pl.col("split").is_null()).get_column("key").unique().to_list()
    drawn = pl.DataFrame(
        {"key": keys, "drawn_split": [split_of_key(key, salt) for key in keys]},
        schema={"key": pl.String, "drawn_split": pl.String},
    )
    split_ranks = {split: rank for rank, split in enumerate(SPLIT_PRIORITY)}
    source_ranks = {source: rank for rank, source in enumerate(SOURCES)}
    return (
        copies.join(drawn, on="key", how="left", maintain_order="left")
        .rename({"split": "own_split"})
        .with_columns(
            split=pl.coalesce("own_split", "drawn_split"),
            drawn=pl.col("own_split").is_null(),
            source_rank=pl.col("source").replace_strict(
                source_ranks, default=len(SOURCES), return_dtype=pl.Int64
            ),
        )
        .with_columns(split_rank=pl.col("split").replace_strict(split_ranks, return_dtype=pl.Int64))
    )


def _with_candidates(kept: pl.DataFrame, rows: pl.DataFrame, most: int) -> pl.DataFrame:
    """Return ``kept`` as seeds with their candidates.

    The rules-of-thumb of all rows of the kept copy; first those of the rows of highest rank (which
    qualified the seed, then with most agreement), then those that more rows give, then by text.
    Texts that differ in case or final stops alone are one.
    """
    candidates = (
        rows.filter(pl.col("rot").is_not_null())
        .select(
            "key", "source", "rank", own_split="split", rot=pl.col("rot").str.split(ROT_SEPARATOR)
        )
        .join(
            kept.select("key", "source", "own_split"),
            on=["key", "source", "own_split"],
            how="semi",
            nulls_equal=True,
        )
        .explode("rot")
        .with_columns(
            rot=pl.col("rot").str.strip_chars(),
            folded=pl.col("rot").str.to_lowercase().str.strip_chars(" .!"),
        )
        .filter(pl.col("folded") != "")
        .group_by("key", "folded")
        .agg(pl.col("rank").max(), pl.len().alias("given"), pl.col("rot").min())
        .sort("key", "rank", "given", "rot", descending=[False, True, True, False])
        .group_by("key", maintain_order=True)
        .agg(rots=pl.col("rot").head(most))
    )
    seeds = kept.join(candidates, on="key", how="left", maintain_order="left")
    no_candidates = pl.lit([], dtype=pl.List(pl.String))
    return (
        seeds.with_columns(pl.col("rots").fill_null(no_candidates))
        .select(list(SEEDS))
        .cast(dict(SEEDS))  # type: ignore[arg-type]
        .sort("key")
    )


def _rejected(failed: pl.DataFrame, others: pl.DataFrame, kept: pl.DataFrame) -> pl.DataFrame:
    """Return the copies that are no seeds: by their rule, or for the copy that is kept."""
    winner = kept.select("key", value=pl.format("{}/{}", "source", "split"))
    duplicates = (
        others.drop("value")
        .join(winner, on="key", how="left", maintain_order="left")
        .with_columns(rule=pl.lit(DUPLICATE_RULE), outcome=pl.lit("duplicate"))
    )
    parts = [
        part.select(
            unit=pl.lit("seed"),
            rule="rule",
            value="value",
            outcome="outcome",
            key="key",
            turn=pl.lit(None),
            field=pl.lit("situation"),
            source="source",
            split="split",
            file="file",
            line="line",
            text="situation",
            input_rows="input_rows",
        ).cast(dict(_REJECTED_SCHEMA))  # type: ignore[arg-type]
        for part in (failed.with_columns(outcome=pl.lit("rejected")), duplicates)
    ]
    return pl.concat(parts).sort("key", "outcome", "source", "split", "rule", "file", "line")
