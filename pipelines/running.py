"""Running a pipeline: the model that serves, the run's record, Beam, and what is told after it."""

from __future__ import annotations

import builtins
import datetime
import logging
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from importlib.metadata import version as package_version
from typing import Any, cast

from pipelines.endpoints import Steps, called_endpoints, told_routes
from pipelines.options import CALL_OPTIONS, RunOptions, beam_arguments, several_processes
from transforms import errors
from transforms.ledger import render_funnel
from transforms.llm.batch.cycle import batch_cycle
from transforms.llm.embedded.server import EmbeddedModel, embedded_endpoint
from transforms.llm.engine import close_engines
from transforms.llm.lanes import lanes_for
from transforms.llm.preflight import check_endpoint
from transforms.llm.prices import NOTHING
from transforms.llm.progress import Progress, display
from transforms.llm.prompts import Prompt
from transforms.llm.settings import EngineSettings
from transforms.llm.shared_cache import CACHE_NAME, find_shared_caches
from transforms.llm.spending import spending_lines
from transforms.llm.streaming import NAMESPACE
from transforms.publishing import storage
from transforms.publishing.publication import Run
from transforms.publishing.publish import LEDGER_NAME, PublishResult, Status, read_result
from transforms.publishing.versions import Version
from transforms.reading.files import fingerprint

#: Options that say where and how a run works, not what the data is, and those that are secret.
_NOT_RECORDED = {
    "output",
    "beam",
    "annotator_salt",
    "model_for",
    "endpoints",
    "shared_cache",
    "batch",
    "dry_run",
    "prices",
    *CALL_OPTIONS,
}

#: The last line of a worker's trace: the exception's name and message, and what Beam adds to it.
_RAISED = re.compile(
    r"^(?:RuntimeError: )?(?:\w+\.)*(\w+): (.*?)(?: \[while running '.*'\])?\s*\Z", re.MULTILINE
)

logger = logging.getLogger("remint.run")


@contextmanager
def serving(options: RunOptions, dataset: str, steps: Steps) -> Iterator[EngineSettings]:
    """Yield the settings of what serves this run; the embedded model runs that long.

    Args:
        options: the run's options.
        dataset: the dataset's directory, beside whose versions the cache lies.
        steps: the run's steps.

    Raises:
        EndpointError: an endpoint can't be used, or the embedded model can't be started.
        OptionError, InputError: what the options say of models, steps or prices can't be used.
    """
    settings = engine_settings(options, dataset, steps)
    if options.embedded:
        with EmbeddedModel(options.embedded_model, options.embedded_weights) as served:
            yield replace(settings, base_url=served.base_url)
        return
    for each in settings.endpoints:
        check_endpoint(each, each.api_key())
    if not options.batch:
        yield settings
        return
    with batch_cycle(settings, storage.join(dataset, "batches")) as by_batch:
        yield by_batch


def engine_settings(options: RunOptions, dataset: str, steps: Steps) -> EngineSettings:
    """Return the settings of what is to serve a run; nothing is called or started.

    The embedded model has no base URL before it serves.

    Raises:
        OptionError, InputError: what the options say of models, steps or prices can't be used.
    """
    cache = storage.join(dataset, CACHE_NAME)
    shared_caches = find_shared_caches(options.shared_cache, cache)
    if options.embedded:
        serves = embedded_endpoint(options.embedded_model)
        return EngineSettings(
            base_url="",
            model=serves.model,
            cache=cache,
            endpoint=serves.identity,
            concurrency=min(options.concurrency, serves.slots),
            timeout=max(options.timeout, serves.timeout),
            retries=options.retries,
            extra_body=serves.extra_body,
            shared_caches=shared_caches,
            max_calls=options.max_calls,
            max_cost=options.max_cost,
            price=NOTHING,
        )
    return called_endpoints(options, cache, shared_caches, steps)


def for_partitions(
    settings: EngineSettings, options: RunOptions, partitions: int
) -> EngineSettings:
    """Return the settings for a dataset of so many partitions.

    There are lanes where several processes are to make the calls.
    """
    lanes = None
    if several_processes(options.beam):
        lanes = lanes_for(options.lanes, partitions, settings)
    further = tuple(replace(each, lanes=lanes) for each in settings.further)
    return replace(settings, partitions=partitions, lanes=lanes, further=further)


def chosen_settings(options: RunOptions) -> dict[str, Any]:
    """Return what the user says of the things that all versions of a dataset share."""
    return {} if options.partitions is None else {"partitions": options.partitions}


def describe_run(
    options: RunOptions,
    partitions: int,
    files: Sequence[str],
    prompts: Mapping[str, Prompt],
    engine: EngineSettings,
) -> Run:
    """Return the run's record, without secrets and what does not shape the data.

    Args:
        options: the run's options.
        partitions: the dataset's number of partitions.
        files: every input file; each is read through for its hash.
        prompts: the prompts that may be used.
        engine: the settings of what serves.
    """
    told = options.model_dump(exclude=_NOT_RECORDED, exclude_none=True, mode="json")
    if engine.routes:
        told["routes"] = told_routes(engine)
    now = datetime.datetime.now(datetime.timezone.utc)
    return Run(
        run_id=f"{now:%Y%m%dT%H%M%SZ}-{os.getpid()}",
        created=now.isoformat(timespec="seconds"),
        code_version=package_version("remint"),
        partitions=partitions,
        inputs=tuple(fingerprint(path) for path in files),
        prompts={prompt.id: prompt.hash for prompt in prompts.values()},
        models=engine.models,
        prices=engine.prices(),
        options=told,
    )


def run_pipeline(
    build: Callable[[Any], None], flags: Sequence[str], version: Version, engine: EngineSettings
) -> PublishResult:
    """Build and run a pipeline with Beam's ``flags``; return how publishing ``version`` ended.

    Args:
        build: adds the pipeline's steps to it.
        flags: Beam's own options.
        version: what the pipeline publishes.
        engine: what its calls are made with.

    Raises:
        RemintError: what a step raised, or that something could not be written.
    """
    with Progress(display(engine.prices()), engine.partitions):
        counts = run_and_count(build, flags)
    told = spending_lines(counts, engine.prices(), engine.max_cost)
    return replace(read_result(version), spending=tuple(told))


def run_and_count(build: Callable[[Any], None], flags: Sequence[str]) -> dict[str, int]:
    """Build and run a pipeline with Beam's ``flags``; return the sums of remint's counters.

    Raises:
        RemintError: what a step raised, or that something could not be written.
    """
    import apache_beam as beam
    from apache_beam.metrics import MetricsFilter
    from apache_beam.options.pipeline_options import PipelineOptions

    try:
        pipeline = beam.Pipeline(options=PipelineOptions(beam_arguments(flags)))
        build(pipeline)
        result = pipeline.run()
        result.wait_until_finish()
        counters = result.metrics().query(MetricsFilter().with_namespace(NAMESPACE))["counters"]
    except RuntimeError as error:
        raise _told_by_worker(error) from None
    finally:
        # An engine is one run's: a key that was rejected, or calls that were broken off, must not
        # follow the next run of this process.
        close_engines()
    counts: dict[str, int] = {}
    for counter in counters:
        name = counter.key.metric.name
        counts[name] = counts.get(name, 0) + counter.result
    return counts


def _told_by_worker(error: RuntimeError) -> Exception:
    """Return the exception that Beam hands on from a worker as the text of its trace.

    What is none of ours, nor the system's, is a fault of remint, and returned as it came.
    """
    found = _RAISED.search(str(error))
    if found is None:
        return error
    name, message = found.groups()
    kind = getattr(errors, name, None)
    if kind is not None:
        return cast("Exception", kind(message))
    kind = getattr(builtins, name, None)
    if isinstance(kind, type) and issubclass(kind, OSError):
        return errors.OutputError(f"{message}; put that right and run again: no call is repeated")
    return error


def report(result: PublishResult) -> str:
    """Return what a run tells at its end: funnel, warnings, spending, and how publishing ended."""
    lines = []
    ledger = storage.join(result.path, LEDGER_NAME)
    if storage.exists(ledger):
        lines.append(render_funnel(storage.read_json(ledger)))
    lines += [f"warning: {warning}" for warning in result.warnings]
    lines += result.spending
    lines.append(result.message)
    return "\n".join(lines)


def exit_code(result: PublishResult) -> int:
    """Return 0 where a version stands or something waits to carry on, else 1."""
    if result.status in (Status.PUBLISHED, Status.UNCHANGED):
        return 0
    if result.status is Status.INCOMPLETE:
        ledger = storage.read_json(storage.join(result.path, LEDGER_NAME))
        return 0 if any(stage["out"].get("waiting") for stage in ledger["stages"].values()) else 1
    return 1
