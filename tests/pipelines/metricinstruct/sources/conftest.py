"""What tests of the sources share: a file of a source, read whole into its frames."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from pipelines.metricinstruct.schema import BESIDE, EXAMPLES, HUMAN_ERRORS, REAL, REJECTED
from pipelines.metricinstruct.sources.reading import SourceFile, read_source_file
from pipelines.metricinstruct.sources.registry import source_named
from pipelines.metricinstruct.sources.source import Source
from transforms.frames import concat, polars_schema
from transforms.ledger import COUNTS

Frames = dict[str, pl.DataFrame]


@pytest.fixture(scope="session")
def read_file() -> Callable[..., Frames]:
    """Return a function that reads a file and makes sure that its rows are accounted for."""
    schemas = {
        "examples": EXAMPLES,
        "human_errors": HUMAN_ERRORS,
        "rejected": polars_schema(REJECTED),
        "beside": BESIDE,
        "counts": COUNTS,
    }

    def read(
        source: str | Source,
        path: Path | str,
        channel: str = REAL,
        outputs: tuple[Path, ...] = (),
        chunk_rows: int = 4096,
        inputs: tuple[Path, ...] = (),
        annotations: tuple[Path, ...] = (),
    ) -> Frames:
        if isinstance(source, str):
            source = source_named(source, channel)
        beside = (tuple(str(one) for one in paths) for paths in (outputs, inputs, annotations))
        file = SourceFile(source.name, channel, str(path), *beside)
        chunks = list(read_source_file(file, source, chunk_rows))
        frames = {
            name: concat((frame for label, frame in chunks if label == name), schema)
            for name, schema in schemas.items()
        }
        ends = frames["examples"]["input_rows"].sum() + frames["rejected"]["input_rows"].sum()
        counts = frames["counts"]
        assert ends == counts.filter(stage="input_rows")["n"].sum()
        assert frames["beside"].height == counts.filter(stage="beside_rows")["n"].sum()
        return frames

    return read


@pytest.fixture
def written(tmp_path: Path) -> Callable[[str, str], Path]:
    """Return a function that writes a text under a name and returns its path."""

    def write(name: str, text: str) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    return write
