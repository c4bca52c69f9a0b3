"""Running a pipeline: the model that serves, the run's record, Beam, and what is told after it."""

from __future__ import annotations

import builtins
import datetime
import logging
import os
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from importlib.metadata import version as package_version
from typing import Any, cast

from pipelines.endpoints import Steps, called_endpoints, told_routes
from pipelines.flink_jobs import cancel_jobs, running_jobs
from pipelines.options import CALL_OPTIONS, RunOptions
from pipelines.runners import Runner, job_name, pipeline_options, runner_of, several_processes
from pipelines.stopping import at_stop
from transforms import errors
from transforms.ledger import render_funnel
from transforms.llm.api_key import read_api_key
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
from transforms.llm.work_folder import new_work_folder, remove_work_folders
from transforms.publishing import storage
from transforms.publishing.jobs import RunningJob, check_no_job, forget_job, note_job
from transforms.publishing.publication import Run, Tables
from transforms.publishing.publish import (
    LEDGER_NAME,
    STATISTICS_NAME,
    PublishResult,
    Status,
    read_result,
)
from transforms.publishing.versions import Version, dataset_of

#: Options that say where and how a run works, not what the data is, and those that are secret.
_NOT_RECORDED = {
    "output",
    "beam",
    "annotator_salt",
    "api_key",
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
        OutputError: a job of an earlier run may be at work on the dataset.
        OptionError, InputError: what the options say of models, steps or prices can't be used.
    """
    check_no_job(dataset, _has_ended)
    settings = engine_settings(options, dataset, steps)
    if options.embedded:
        with EmbeddedModel(options.embedded_model, options.embedded_weights) as served:
            yield replace(settings, base_url=served.base_url)
        return
    settings = with_keys(settings)
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


def with_keys(settings: EngineSettings) -> EngineSettings:
    """Return the settings with which workers must have the keys that this process has.

    Raises:
        EndpointError: a key can't be read.
    """
    sources = [each.key_source for each in settings.endpoints]
    has_key = [bool(source and read_api_key(source)) for source in sources]
    further = tuple(
        replace(each, has_key=has) for each, has in zip(settings.further, has_key[1:], strict=True)
    )
    return replace(settings, has_key=has_key[0], further=further)


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
    work = None if lanes is None else new_work_folder(settings)
    return replace(settings, partitions=partitions, lanes=lanes, work=work, further=further)


def chosen_settings(options: RunOptions) -> dict[str, Any]:
    """Return what the user says of the things that all versions of a dataset share."""
    return {} if options.partitions is None else {"partitions": options.partitions}


def describe_run(
    options: RunOptions,
    partitions: int,
    inputs: Sequence[Mapping[str, Any]],
    prompts: Mapping[str, Prompt],
    engine: EngineSettings,
) -> Run:
    """Return the run's record, without secrets and what does not shape the data.

    Args:
        options: the run's options.
        partitions: the dataset's number of partitions.
        inputs: what identifies the content of each input, see ``files.fingerprint``.
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
        inputs=tuple(inputs),
        prompts={prompt.id: prompt.hash for prompt in prompts.values()},
        models=engine.models,
        prices=engine.prices(),
        collected=engine.collected(),
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
    dataset, runner = dataset_of(version), runner_of(flags)
    remove_work_folders(engine)
    job = RunningJob(version.path, runner.name, job_name(dataset), runner.master)
    if runner.outlives_driver:
        note_job(dataset, job)
    with Progress(display(engine.prices()), engine.partitions, engine.work):
        counts = run_and_count(build, flags, dataset, lambda: forget_job(dataset, version.path))
    if runner.describes:
        # Now its last step forgets it, or who knows that it does not run.
        note_job(dataset, job)
        message = f"the job is written down; when it has run, {version.path} is there"
        return PublishResult(Status.DESCRIBED, version.number, version.path, message)
    # Not where the run has failed: a job that its driver has lost may still work.
    remove_work_folders(engine)
    spent = Counter(counts) + Counter(engine.collected())
    told = spending_lines(spent, engine.prices(), engine.max_cost)
    return replace(read_result(version), spending=tuple(told))


def run_and_count(
    build: Callable[[Any], None],
    flags: Sequence[str],
    dataset: str,
    at_end: Callable[[], object] = lambda: None,
) -> dict[str, int]:
    """Build and run a pipeline with Beam's ``flags``; return the sums of remint's counters.

    Args:
        build: adds the pipeline's steps to it.
        flags: Beam's own options.
        dataset: the directory of the dataset that the run is on.
        at_end: called when it is certain that no job is at work any more.

    Raises:
        RemintError: what a step raised, or that something could not be written.
    """
    import apache_beam as beam
    from apache_beam.metrics import MetricsFilter

    runner = runner_of(flags)
    options = pipeline_options(flags, dataset)
    result = None
    try:
        pipeline = beam.Pipeline(options=options)
        build(pipeline)
        result = pipeline.run()
        with at_stop(partial(_cancel, runner, options, result, at_end)):
            result.wait_until_finish()
        metrics = result.metrics()
    except RuntimeError as error:
        raise _told_by_worker(error) from None
    finally:
        # An engine is one run's: a key that was rejected, or calls that were broken off, must not
        # follow the next run of this process.
        close_engines()
        if _is_over(result):
            at_end()
    counts: dict[str, int] = {}
    if metrics is None:  # of a job that has only been written down
        return counts
    for counter in metrics.query(MetricsFilter().with_namespace(NAMESPACE))["counters"]:
        name = counter.key.metric.name
        counts[name] = counts.get(name, 0) + (counter.result or 0)
    return counts


def _cancel(runner: Runner, options: Any, result: Any, at_end: Callable[[], object]) -> None:
    """Cancel a job that may run elsewhere."""
    if runner.master is not None:
        cancel_jobs(runner.master, options.get_all_options()["job_name"])
    result.cancel()
    if _is_over(result):
        at_end()


def _is_over(result: Any) -> bool:
    """Return whether the job of a pipeline's result (None: none was submitted) has surely ended."""
    from apache_beam.runners.runner import PipelineState

    try:
        return result is None or bool(PipelineState.is_terminal(result.state))
    except Exception:  # each runner has its own for a service that does not answer
        return False


def _has_ended(job: RunningJob) -> bool:
    """Return whether a job of an earlier run has surely ended."""
    try:
        return job.master is not None and not running_jobs(job.master, job.job)
    except OSError:
        return False


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


def report(result: PublishResult, describe: Callable[[Tables], list[str]] | None = None) -> str:
    """Return what a run tells at its end: funnel, warnings, spending, and how publishing ended.

    Args:
        result: of the run.
        describe: from the version's statistics to lines of the dataset's own.
    """
    lines = []
    ledger = storage.join(result.path, LEDGER_NAME)
    if storage.exists(ledger):
        lines.append(render_funnel(storage.read_json(ledger)))
    statistics = storage.join(result.path, STATISTICS_NAME)
    if describe and storage.exists(statistics):
        lines += describe(storage.read_json(statistics))
    lines += [f"warning: {warning}" for warning in result.warnings]
    lines += result.spending
    lines.append(result.message)
    return "\n".join(lines)


def exit_code(result: PublishResult) -> int:
    """Return 0 where a version stands, or is to come, or something waits to carry on, else 1."""
    if result.status in (Status.PUBLISHED, Status.UNCHANGED, Status.DESCRIBED):
        return 0
    if result.status is Status.INCOMPLETE:
        ledger = storage.read_json(storage.join(result.path, LEDGER_NAME))
        return 0 if any(stage["out"].get("waiting") for stage in ledger["stages"].values()) else 1
    return 1
