"""A dry run: what a run's calls will come to, by walking through it without making them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pipelines.options import RunOptions
from pipelines.running import run_and_count
from transforms.llm.estimates import Estimate, Pace, estimate, over_budget, render_estimate
from transforms.llm.settings import EngineSettings


def estimate_calls(
    rehearse: Callable[[Any], None], flags: Sequence[str], engine: EngineSettings
) -> Estimate:
    """Return the estimate of a run's calls.

    Args:
        rehearse: adds the rehearsal to a pipeline.
        flags: Beam's own options.
        engine: what the calls would be made with.

    Raises:
        RemintError: what a step raised.
    """
    counts = run_and_count(rehearse, flags)
    return estimate(counts, engine.prices(), _paces(engine))


def _paces(engine: EngineSettings) -> dict[tuple[str, ...], Pace]:
    """Return how fast the models that have their limits in common can be called."""
    models: dict[int, list[str]] = {}
    paces: dict[int, Pace] = {}
    for each in engine.endpoints:
        models.setdefault(each.limits, []).append(each.model)
        paces[each.limits] = Pace(each.concurrency, each.rpm, each.tpm)
    return {tuple(names): paces[number] for number, names in models.items()}


def render(found: Estimate, options: RunOptions) -> str:
    """Return what a dry run tells, with the bounds that the run would reach."""
    told = over_budget(found, options.max_calls, options.max_cost)
    return "\n".join([render_estimate(found), *told])
