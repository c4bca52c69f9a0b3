"""Work that the real embedded model does, with the real engine."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl

from transforms.llm.embedded.server import EmbeddedModel
from transforms.llm.engine import Engine
from transforms.llm.settings import EngineSettings

MODEL = "qwen2.5-coder-0.5b-instruct"


def finished_by_the_model(
    work: Any, frames: Mapping[str, pl.DataFrame], cache: Path
) -> dict[str, pl.DataFrame]:
    """Return the frames that a partition's work makes of ``frames``.

    Args:
        work: of a partition: ``items``, ``work`` and ``finish``.
        frames: of the partition.
        cache: a directory for the responses.
    """
    with EmbeddedModel(MODEL) as served:
        settings = EngineSettings(
            base_url=served.base_url,
            model=served.model,
            cache=str(cache),
            endpoint=served.identity,
            concurrency=served.slots,
            timeout=served.timeout,
            extra_body=served.extra_body,
        )
        engine = Engine(settings, ["none"])
        try:
            results = engine.submit(0, work.items(frames), work.work).result(800)
        finally:
            engine.close()
    made: dict[str, pl.DataFrame] = work.finish(frames, results)
    return made
