"""Social Chemistry 101: situations with the rules-of-thumb that crowd workers wrote for them.

One row per rule-of-thumb, TSV (copies exist as CSV with the same columns). A situation is a seed
when one of its rows has an acceptable rule-of-thumb (``rot-bad`` 0), is about the writer
(``rot-char-targeting`` char-0) and tells of strong pressure: against the action (negative) or
strongly for it (2). Columns: Forbes et al. 2020; rule: Kim et al. 2022.
"""

from __future__ import annotations

import polars as pl

from pipelines.prosocial.schema import SOCIAL_CHEMISTRY
from pipelines.prosocial.seeds.cells import number, stripped
from pipelines.prosocial.seeds.rows import Reading, Rule, seed_rows
from transforms.splits import split_of_column

COLUMNS = (
    "split",
    "rot-agree",
    "rot-char-targeting",
    "rot-bad",
    "action-pressure",
    "situation",
    "situation-short-id",
    "rot",
)

#: The source has further splits (dev-extra, test-extra) for other purposes.
_OWN_SPLITS = ("train", "dev", "test")
_NO_AGREEMENT_GIVEN = 2


def rows(frame: pl.DataFrame, path: str) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return seed rows and rejects of rows with COLUMNS.

    Rules-of-thumb with more agreement (``rot-agree`` 0 to 4) are preferred as candidates; those
    that are marked bad, or stand in another split, are none.
    """
    acceptable = number("rot-bad") == 0
    in_own_split = stripped("split").is_in(_OWN_SPLITS)
    pressure = number("action-pressure")
    reading = Reading(
        source=pl.lit(SOCIAL_CHEMISTRY),
        split=pl.when(in_own_split).then(split_of_column("split")),
        situation=stripped("situation"),
        situation_field="situation",
        etc=stripped("situation-short-id"),
        rot=pl.when(acceptable & in_own_split & (stripped("rot") != "")).then(
            stripped("rot").str.replace_all(r"\s+", " ")
        ),
        rules=(
            Rule("split", in_own_split, pl.col("split")),
            Rule("rot_bad", acceptable, pl.col("rot-bad")),
            Rule(
                "rot_char_targeting",
                stripped("rot-char-targeting") == "char-0",
                pl.col("rot-char-targeting"),
            ),
            Rule("action_pressure", (pressure < 0) | (pressure == 2), pl.col("action-pressure")),
        ),
        preference=number("rot-agree").clip(0, 4).fill_null(_NO_AGREEMENT_GIVEN),
    )
    return seed_rows(frame, reading, path)
