"""A dry run: what a run's calls will come to, by walking through it without making them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pipelines.options import RunOptions
from pipelines.runners import worker_processes
from pipelines.running import run_and_count
from pipelines.sizing import input_size, recommend, render_sizing
from transforms.llm.estimate_text import over_budget, render_estimate
from transforms.llm.estimates import Estimate, Pace, estimate
from transforms.llm.settings import EngineSettings
from transforms.publishing import storage
from transforms.publishing.publish import LEDGER_NAME
from transforms.publishing.versions import DATASET_NAME, latest_version


def estimate_calls(
    rehearse: Callable[[Any], None], flags: Sequence[str], engine: EngineSettings, dataset: str
) -> Estimate:
    """Return the estimate of a run's calls.

    Args:
        rehearse: adds the rehearsal to a pipeline.
        flags: Beam's own options.
        engine: what the calls would be made with.
        dataset: the dataset's directory, whose latest version tells how long calls took.

    Raises:
        RemintError: what a step raised.
    """
    counts = run_and_count(rehearse, flags, dataset)
    return estimate(counts, engine.prices(), _paces(engine, dataset))


def _paces(engine: EngineSettings, dataset: str) -> dict[tuple[str, ...], Pace]:
    """Return how fast the models that have their limits in common can be called."""
    models: dict[int, list[str]] = {}
    for each in engine.endpoints:
        models.setdefault(each.limits, []).append(each.model)
    return {
        tuple(models[each.limits]): Pace(
            each.concurrency, each.rpm, each.tpm, known_latency(dataset, models[each.limits])
        )
        for each in engine.endpoints
    }


def known_latency(dataset: str, models: Sequence[str]) -> float | None:
    """Return the median seconds of the models' calls in the latest version, if it tells."""
    version = latest_version(dataset)
    if version is None:
        return None
    rows = storage.read_json(storage.join(version.path, LEDGER_NAME)).get("calls", [])
    known = [
        (row["calls_sent"], row["latency"]["p50"])
        for row in rows
        if row["model"] in models and row.get("calls_sent") and row.get("latency")
    ]
    calls = sum(sent for sent, _ in known)
    return sum(sent * seconds for sent, seconds in known) / calls if calls else None


def told_size(
    options: RunOptions, path: str, dataset: str, files: Sequence[str], engine: EngineSettings
) -> str:
    """Return the line that tells of the input's size, and of what suits it.

    Args:
        options: the run's options.
        path: the dataset's directory.
        dataset: its kind.
        files: every input file.
        engine: what the calls would be made with.

    Raises:
        InputError: a file is not there.
    """
    begun = storage.exists(storage.join(path, DATASET_NAME))
    there = engine.partitions if begun else options.partitions
    found = recommend(dataset, input_size(files), worker_processes(options.beam), engine, there)
    return render_sizing(found, engine.partitions, begun)


def render(found: Estimate, options: RunOptions) -> str:
    """Return what a dry run tells, with the bounds that the run would reach."""
    told = over_budget(found, options.max_calls, options.max_cost)
    return "\n".join([render_estimate(found, by_batch=options.batch), *told])
