"""Running a pipeline: the model that serves, the run's record, Beam, and what is told after it."""

from __future__ import annotations

import builtins
import datetime
import logging
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from importlib.metadata import version as package_version
from typing import Any, cast

from pipelines.flink_jobs import cancel_jobs
from pipelines.options import RunOptions
from pipelines.runners import Runner, Workers, pipeline_options, runner_of
from pipelines.stopping import at_stop
from transforms import errors
from transforms.ledger import render_funnel
from transforms.llm.embedded.server import EmbeddedModel
from transforms.llm.engine import close_engines
from transforms.llm.preflight import check_endpoint
from transforms.llm.progress import Progress, progress_line
from transforms.llm.prompts import Prompt
from transforms.llm.settings import EngineSettings, StructuredMode
from transforms.llm.streaming import NAMESPACE
from transforms.publishing import storage
from transforms.publishing.publication import Run
from transforms.publishing.publish import LEDGER_NAME, PublishResult, Status, read_result
from transforms.publishing.versions import Version, dataset_of
from transforms.reading.files import fingerprint

PUBLIC_ENDPOINT = "https://api.openai.com/v1"

#: Options that say where and how a run works, not what the data is, and those that are secret.
_NOT_RECORDED = {"output", "beam", "annotator_salt", "concurrency", "timeout", "retries"}

#: The last line of a worker's trace: the exception's name and message, and what Beam adds to it.
_RAISED = re.compile(
    r"^(?:RuntimeError: )?(?:\w+\.)*(\w+): (.*?)(?: \[while running '.*'\])?\s*\Z", re.MULTILINE
)

logger = logging.getLogger("remint.run")


@contextmanager
def serving(options: RunOptions, dataset: str) -> Iterator[EngineSettings]:
    """Yield the settings of the model that serves this run; the embedded one runs that long.

    Args:
        options: the run's options.
        dataset: the dataset's directory, beside whose versions the cache lies.

    Raises:
        EndpointError: the endpoint can't be used, or the embedded model can't be started.
    """
    cache = storage.join(dataset, "cache")
    if options.embedded:
        with EmbeddedModel(options.embedded_model, options.embedded_weights) as served:
            yield EngineSettings(
                base_url=served.base_url,
                model=served.model,
                cache=cache,
                endpoint=served.identity,
                concurrency=min(options.concurrency, served.slots),
                timeout=max(options.timeout, served.timeout),
                retries=options.retries,
                extra_body=served.extra_body,
            )
        return
    settings = EngineSettings(
        base_url=options.base_url or PUBLIC_ENDPOINT,
        model=options.model or "",
        cache=cache,
        concurrency=options.concurrency,
        timeout=options.timeout,
        retries=options.retries,
        structured=StructuredMode(options.structured),
    )
    check_endpoint(settings, os.environ.get("OPENAI_API_KEY") or "none")
    yield settings


def served_at(options: RunOptions) -> str | None:
    """Return the base URL of the endpoint that is called; None where the embedded model serves."""
    return None if options.embedded else options.base_url or PUBLIC_ENDPOINT


def chosen_settings(options: RunOptions) -> dict[str, Any]:
    """Return what the user says of the things that all versions of a dataset share."""
    return {} if options.partitions is None else {"partitions": options.partitions}


def describe_run(
    options: RunOptions,
    partitions: int,
    files: Sequence[str],
    prompts: Mapping[str, Prompt],
    model: str,
) -> Run:
    """Return the run's record, without secrets and what does not shape the data.

    Args:
        options: the run's options.
        partitions: the dataset's number of partitions.
        files: every input file; each is read through for its hash.
        prompts: the prompts that may be used.
        model: the model that serves.
    """
    now = datetime.datetime.now(datetime.timezone.utc)
    return Run(
        run_id=f"{now:%Y%m%dT%H%M%SZ}-{os.getpid()}",
        created=now.isoformat(timespec="seconds"),
        code_version=package_version("remint"),
        partitions=partitions,
        inputs=tuple(fingerprint(path) for path in files),
        prompts={prompt.id: prompt.hash for prompt in prompts.values()},
        models=(model,),
        options=options.model_dump(exclude=_NOT_RECORDED, exclude_none=True, mode="json"),
    )


def run_pipeline(
    build: Callable[[Any], None], flags: Sequence[str], version: Version
) -> PublishResult:
    """Build and run a pipeline with Beam's ``flags``; return how publishing ``version`` ended.

    Raises:
        RemintError: what a step raised, or that something could not be written.
    """
    import apache_beam as beam

    runner = runner_of(flags)
    options = pipeline_options(flags, dataset_of(version))
    try:
        with Progress():
            pipeline = beam.Pipeline(options=options)
            build(pipeline)
            result = pipeline.run()
            with at_stop(partial(_cancel, runner, options, result)):
                result.wait_until_finish()
        if runner.workers is not Workers.HERE:
            _log_counts(result)
    except RuntimeError as error:
        raise _told_by_worker(error) from None
    finally:
        # An engine is one run's: a key that was rejected, or calls that were broken off, must not
        # follow the next run of this process.
        close_engines()
    return read_result(version)


def _cancel(runner: Runner, options: Any, result: Any) -> None:
    """Cancel a job that may run elsewhere."""
    if runner.master is not None:
        cancel_jobs(runner.master, options.get_all_options()["job_name"])
    result.cancel()


def _log_counts(result: Any) -> None:
    """Log what the calls came to, as the workers of other processes counted it."""
    from apache_beam.metrics import MetricsFilter

    counters = result.metrics().query(MetricsFilter().with_namespace(NAMESPACE))["counters"]
    counts = {counter.key.metric.name: counter.result or 0 for counter in counters}
    if counts:
        logger.info("%s", progress_line(counts, 0))


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
    """Return what a run tells at its end: the funnel, how publishing ended, and its warnings."""
    lines = []
    ledger = storage.join(result.path, LEDGER_NAME)
    if storage.exists(ledger):
        lines.append(render_funnel(storage.read_json(ledger)))
    lines += [f"warning: {warning}" for warning in result.warnings]
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
