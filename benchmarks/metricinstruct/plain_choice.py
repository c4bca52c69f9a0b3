"""The plain Polars script's choice of outputs: identical ones merged, ranked, one in three kept."""

from __future__ import annotations

import polars as pl
from sacrebleu.metrics.chrf import CHRF

from pipelines.metricinstruct import schema
from pipelines.metricinstruct.choice import SHARES
from pipelines.metricinstruct.options import DEFAULT_SAMPLE
from pipelines.metricinstruct.sources.registry import DEFAULT_CHOICES
from pipelines.metricinstruct.sources.source import output_id
from transforms.keys import fraction_of, normalise_text

INPUT = ["key", "channel", "source", "instruction"]


def choose(examples: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the chosen examples, columns of ``CHOSEN``, and the rejects of the others."""
    references = pl.col("references").list.join("\n")
    rows = examples.sort(*INPUT, "system", "item", "file", "line", references, nulls_last=True)
    same = [*INPUT, "hypothesis"]
    merged = rows.group_by(same, maintain_order=True).agg(
        pl.col("system").drop_nulls().unique().sort().alias("systems"),
        pl.col("quality").sort().mean(),
        pl.col("system").first().alias("kept"),
        pl.col("references").explode().drop_nulls().unique(maintain_order=True),
    )
    rows = rows.drop("quality", "references").join(
        merged, on=same, nulls_equal=True, maintain_order="left"
    )
    first = pl.struct(same).is_first_distinct()
    identical = rows.filter(~first).with_columns(
        pl.lit("identical_example").alias("rule"), pl.col("kept").alias("value")
    )
    rows = rows.filter(first)
    output = pl.coalesce("hypothesis", pl.col("references").list.first())
    texts = rows.select("key", "input_context", output.alias("output"))
    rows = rows.with_columns(
        pl.Series("id", [output_id(*row) for row in texts.iter_rows()]),
        pl.Series("plain", [normalise_text(text) for text in texts["output"].to_list()]),
    )
    alike = ["key", "channel", "plain"]
    first = pl.struct(alike).is_first_distinct()
    rows = rows.with_columns(pl.col("id").first().over(alike).alias("value"))
    duplicates = rows.filter(~first).with_columns(pl.lit("duplicate_text").alias("rule"))
    rows = _placed(rows.filter(first))
    is_chosen = pl.col("choice").is_not_null()
    others = rows.filter(~is_chosen).with_columns(
        pl.lit("not_chosen").alias("rule"), pl.format("{} of {}", "place", "outputs").alias("value")
    )
    refused = [
        _rejects(identical, "duplicate"),
        _rejects(duplicates, "duplicate"),
        _rejects(others, "rejected"),
    ]
    chosen = rows.filter(is_chosen).with_columns(pl.col("split").fill_null("train"))
    return _sampled(chosen), pl.concat(refused)


def _placed(rows: pl.DataFrame) -> pl.DataFrame:
    """Return the rows with outputs, metric, rank, place, and choice where they are chosen."""
    by_rank = [name for name, choice in DEFAULT_CHOICES.items() if choice in SHARES]
    real = (pl.col("channel") == schema.REAL) & pl.col("source").is_in(by_rank)
    several = (real & (pl.len() > 1)).over(INPUT)
    given = pl.col("quality").is_not_null().all().over(INPUT)
    rows = rows.with_columns(
        pl.len().over(INPUT).cast(pl.Int64).alias("outputs"),
        pl.when(several & given)
        .then(pl.lit("given"))
        .when(several)
        .then(pl.lit("chrf"))
        .alias("metric"),
    )
    measured = rows.filter(pl.col("metric") == "chrf").select(
        *INPUT, "id", "hypothesis", "references"
    )
    score = CHRF().sentence_score
    scores = measured.select(*INPUT, "id").with_columns(
        pl.Series(
            "score",
            [score(*row).score for row in measured.select("hypothesis", "references").iter_rows()],
        )
    )
    rows = (
        rows.join(scores, on=[*INPUT, "id"], how="left", maintain_order="left")
        .with_columns(
            pl.when(pl.col("metric") == "given").then("quality").otherwise("score").alias("by")
        )
        .sort([*INPUT, "by", "id"], descending=[False] * 4 + [True, False], nulls_last=True)
        .with_columns((pl.int_range(pl.len()).over(INPUT) + 1).alias("place"))
        .with_columns(pl.when(pl.col("metric").is_not_null()).then("place").alias("rank"))
    )
    inputs = rows.select("key", "channel", "source").unique()
    wanted = [_wanted(*row) for row in inputs.iter_rows()]
    want, place, outputs = pl.col("want"), pl.col("place"), pl.col("outputs")
    at = {"best": pl.lit(1), "middle": (outputs + 1) // 2, "worst": outputs}
    choice = pl.when(want.is_in(["all", "sampled"]) | (place == pl.coalesce(
        pl.when(want == name).then(where) for name, where in at.items()
    ))).then(want)  # fmt: skip
    return rows.join(
        inputs.with_columns(pl.Series("want", wanted)),
        on=["key", "channel", "source"],
        maintain_order="left",
    ).with_columns(choice.alias("choice"))


def _wanted(key: str, channel: str, source: str) -> str:
    choice = DEFAULT_CHOICES[source]
    shares = SHARES.get(choice)
    if channel != schema.REAL or shares is None:
        return "sampled" if choice == "sample" else "all"
    drawn = fraction_of(key, f"choice {source}")
    return "best" if drawn < shares[0] else "middle" if drawn < sum(shares[:2]) else "worst"


def _sampled(chosen: pl.DataFrame) -> pl.DataFrame:
    """Return the rows, of which no sampled stratum has more than are to be kept."""
    sampled = chosen.filter(pl.col("choice") == "sampled").group_by("source", "stratum").len()
    if sampled.select((pl.col("len") > DEFAULT_SAMPLE).any()).item():
        raise RuntimeError("this script samples no stratum: make fewer rows of each")
    return chosen


def _rejects(rows: pl.DataFrame, outcome: str) -> pl.DataFrame:
    return rows.with_columns(
        pl.lit("example").alias("unit"),
        pl.lit(outcome).alias("outcome"),
        pl.lit(None, dtype=pl.String).alias("field"),
        pl.coalesce("hypothesis", "input_context").alias("text"),
    ).select(schema.REJECTED.names)
