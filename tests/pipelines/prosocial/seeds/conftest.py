"""What tests of seeds share: frames as readers give them, and seed rows in short."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import polars as pl
import pytest

from pipelines.prosocial.schema import SEED_ROWS
from transforms.keys import content_key

FrameOf = Callable[..., pl.DataFrame]


@pytest.fixture(scope="session")
def frame_of() -> FrameOf:
    """Return a function from dictionaries of cells to a frame of text with their lines."""

    def build(*rows: dict[str, str | None]) -> pl.DataFrame:
        cells = pl.DataFrame(rows, schema=dict.fromkeys(rows[0], pl.String))
        return cells.with_columns(line=pl.Series(range(2, len(rows) + 2), dtype=pl.Int64))

    return build


@pytest.fixture(scope="session")
def seed_rows_of() -> FrameOf:
    """Return a function from dictionaries of SEED_ROWS fields to such a frame."""

    def build(rows: Sequence[dict[str, object]]) -> pl.DataFrame:
        defaults = {"file": "seeds.csv", "source": "socialchemistry", "split": "train", "etc": ""}
        full = [
            {
                **dict.fromkeys(SEED_ROWS),
                **defaults,
                "key": content_key(str(row["situation"])),
                "line": number,
                "rank": 10 if row.get("rule") is None else 0,
                **row,
            }
            for number, row in enumerate(rows, start=2)
        ]
        return pl.DataFrame(full, schema=SEED_ROWS)

    return build
