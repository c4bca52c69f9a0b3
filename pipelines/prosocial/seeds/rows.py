"""Seed rows: what every reader makes of the rows of its files, judged by the source's rules."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import polars as pl

from pipelines.prosocial.schema import REJECTED, SEED_ROWS
from transforms.frames import polars_schema
from transforms.keys import content_key

#: Several candidate rules-of-thumb of one row stand in ``rot`` one per line.
ROT_SEPARATOR = "\n"

#: A row's rank is the number of rules it passed times this, plus its preference (below this).
RANK_STEP = 10

_REJECTED_SCHEMA = polars_schema(REJECTED)


@dataclass(frozen=True, eq=False)
class Rule:
    """One rule of a source.

    Attributes:
        name: what rejects call it.
        passes: true where a row passes; null counts as false.
        value: what is shown where the row fails (cast to text; null becomes an empty text).
        field: the file's column that fails; the situation's one where it is not given.
    """

    name: str
    passes: pl.Expr
    value: pl.Expr
    field: str | None = None


@dataclass(frozen=True, eq=False)
class Reading:
    """How a source's columns become seed rows: expressions on the file's frame.

    Attributes:
        source: the published source.
        split: train, validation, test, or null where the source has none.
        situation: the seed text, as it is published or handed to the model.
        situation_field: the file's column that ``situation`` comes from, for rejects.
        etc: the source's own id, or an empty text.
        rot: the row's candidate rules-of-thumb, one per line, or null.
        rules: the selection rules in the order they are applied.
        usable: rules without which a row can't be judged at all; such rows are rejects.
        preference: 0 to 9; which of two rows with the same verdict shows its rule-of-thumb first.
    """

    source: pl.Expr
    split: pl.Expr
    situation: pl.Expr
    situation_field: str
    etc: pl.Expr
    rot: pl.Expr
    rules: Sequence[Rule]
    usable: Sequence[Rule] = ()
    preference: pl.Expr = field(default_factory=lambda: pl.lit(0))


def seed_rows(
    frame: pl.DataFrame, reading: Reading, path: str
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the seed rows of ``frame`` and the rows that are none.

    Args:
        frame: rows of one file: the source's columns (text) and ``line``.
        reading: how the columns are understood.
        path: the file.

    Returns:
        A frame with the schema SEED_ROWS and one with the schema REJECTED (unit ``seed_row``);
        together they have as many rows as ``frame``, in its order.
    """
    situation = reading.situation
    usable = (
        *reading.usable,
        Rule("blank_situation", situation.str.strip_chars() != "", situation),
        Rule("situation_without_letters", situation.str.contains(r"\p{L}"), situation),
    )
    fields = {rule.name: rule.field or reading.situation_field for rule in usable}
    judged = frame.select(
        "line",
        file=pl.lit(path),
        source=reading.source,
        split=reading.split,
        situation=situation,
        etc=reading.etc,
        rot=reading.rot,
        rule=_first_failed(reading.rules),
        value=_failed_value(reading.rules),
        rank=_passed(reading.rules) * RANK_STEP + reading.preference,
        unusable=_first_failed(usable),
        unusable_value=_failed_value(usable),
        text=pl.col(reading.situation_field),
    )
    good = _with_keys(judged.filter(pl.col("unusable").is_null()))
    bad = judged.filter(pl.col("unusable").is_not_null()).select(
        unit=pl.lit("seed_row"),
        rule="unusable",
        value="unusable_value",
        outcome=pl.lit("rejected"),
        key=pl.lit(None),
        turn=pl.lit(None),
        field=pl.col("unusable").replace_strict(fields, return_dtype=pl.String),
        source="source",
        split="split",
        file="file",
        line="line",
        text="text",
        input_rows=pl.lit(1),
    )
    return good.cast(dict(SEED_ROWS)), bad.cast(dict(_REJECTED_SCHEMA))  # type: ignore[arg-type]


def _with_keys(rows: pl.DataFrame) -> pl.DataFrame:
    """Return ``rows`` with their content keys; each distinct text is hashed once."""
    texts = rows.get_column("situation").unique().to_list()
    keys = pl.DataFrame(
        {"situation": texts, "key": [content_key(text) for text in texts]},
        schema={"situation": pl.String, "key": pl.String},
    )
    joined = rows.join(keys, on="situation", how="left", maintain_order="left")
    return joined.select(list(SEED_ROWS))


def _passes(rule: Rule) -> pl.Expr:
    return rule.passes.fill_null(value=False)


def _first_failed(rules: Sequence[Rule]) -> pl.Expr:
    """Return the name of the first rule a row fails, null where it passes all."""
    verdicts = [pl.when(~_passes(rule)).then(pl.lit(rule.name)) for rule in rules]
    return pl.coalesce(*verdicts, pl.lit(None, dtype=pl.String))


def _failed_value(rules: Sequence[Rule]) -> pl.Expr:
    """Return the value that failed the first failed rule, null where a row passes all."""
    values = [
        pl.when(~_passes(rule)).then(rule.value.cast(pl.String).fill_null("")) for rule in rules
    ]
    return pl.coalesce(*values, pl.lit(None, dtype=pl.String))


def _passed(rules: Sequence[Rule]) -> pl.Expr:
    """Return how many rules, in their order, a row passes before it fails one."""
    passed: pl.Expr = pl.lit(len(rules))
    for index in range(len(rules) - 1, -1, -1):
        passed = pl.when(~_passes(rules[index])).then(pl.lit(index)).otherwise(passed)
    return passed
