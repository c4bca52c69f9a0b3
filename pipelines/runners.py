"""Runners: which one Beam's flags describe, and the options that a run on it has."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cache
from typing import Any

from runner_configs.worker import WORKING_DIRECTORY
from transforms.llm.settings import is_loopback

#: The runners that the tests run both datasets on; Dataflow as far as that goes without it.
RUNNERS = ("FnApiRunner", "PrismRunner", "PortableRunner", "FlinkRunner", "DataflowRunner")
#: Flink masters that stand for a Flink in the job server's own process.
OWN_MASTERS = ("[local]", "[auto]")


class Workers(Enum):
    """Where workers are, seen from the process that starts the run."""

    HERE = "in this process, or children of it"
    THIS_MACHINE = "processes of others on this machine"
    OTHER_MACHINES = "on other machines, which may share folders with this one"
    CLOUD = "on other machines, which share nothing with this one"


@dataclass(frozen=True)
class Runner:
    """A runner as Beam's flags describe it.

    Attributes:
        name: the runner's class.
        workers: where its workers are.
        job_endpoint: ``host:port`` of the Beam job server it submits to, where one runs already.
        master: address of Flink's REST interface, where it is known.
        parallelism: how many slots it takes; None where the runner decides.
        describes: whether it writes the job down for others to start (a Dataflow template).
    """

    name: str
    workers: Workers
    job_endpoint: str | None = None
    master: str | None = None
    parallelism: int | None = None
    describes: bool = False

    @property
    def outlives_driver(self) -> bool:
        """Whether a job goes on when the process that started it is gone."""
        return self.workers is not Workers.HERE


def runner_of(flags: Sequence[str]) -> Runner:
    """Return the runner that Beam's ``flags``, which were checked, describe."""
    from apache_beam.options import pipeline_options as beam_options

    options = beam_options.PipelineOptions(beam_arguments(flags))
    name = options.view_as(beam_options.StandardOptions).runner
    portable = options.view_as(beam_options.PortableOptions)
    flink = options.view_as(beam_options.FlinkRunnerOptions)
    if name == "DataflowRunner":
        template = options.view_as(beam_options.GoogleCloudOptions).template_location
        return Runner(name, Workers.CLOUD, describes=bool(template))
    master = None if flink.flink_master in OWN_MASTERS else flink.flink_master
    job_endpoint = None
    if name == "PortableRunner" and portable.job_endpoint != "embed":
        job_endpoint = portable.job_endpoint
    parallelism = flink.parallelism if flink.parallelism > 0 else None
    reached = [with_scheme(place) for place in (job_endpoint, master) if place]
    if name == "FnApiRunner" or portable.environment_type in (None, "LOOPBACK"):
        workers = Workers.HERE
    elif all(map(is_loopback, reached)):
        workers = Workers.THIS_MACHINE
    else:
        workers = Workers.OTHER_MACHINES
    return Runner(name, workers, job_endpoint, master, parallelism)


def job_name(dataset: str) -> str:
    """Return what jobs of the dataset at this path are called, on every runner.

    Two runs on a dataset would pay for the same calls: by its name a job is known that goes on
    although the process that started it is gone. (Dataflow refuses a second one of the same name.)
    """
    place = dataset if "://" in dataset else os.path.realpath(dataset)
    digest = hashlib.sha256(place.encode()).hexdigest()[:10]
    return f"remint-{os.path.basename(place.rstrip('/'))}-{digest}"


def beam_arguments(flags: Sequence[str]) -> list[str]:
    """Return Beam's flags with our default runner, and DirectRunner mapped to it.

    Beam's DirectRunner first tries to download another runner and sends some transforms to a slow
    one; FnApiRunner is the one that was measured (ARCHITECTURE.md).
    """
    arguments = []
    named = False
    items = iter(flags)
    for flag in items:
        name, _, value = flag.partition("=")
        if name == "--runner":
            named = True
            runner = value or next(items, "")
            arguments.append(f"--runner={'FnApiRunner' if runner == 'DirectRunner' else runner}")
        else:
            arguments.append(flag)
    return arguments if named else [*arguments, "--runner=FnApiRunner"]


def pipeline_options(flags: Sequence[str], dataset: str) -> Any:
    """Return Beam's options for a run on the dataset at this path.

    They also say what the job is called, and from which directory relative paths start. Dataflow
    would pickle the program that starts the run; what workers need of it is in the package.
    """
    from apache_beam.options.pipeline_options import PipelineOptions

    name = f"--job_name={job_name(dataset)}"
    arguments = [name, "--no_save_main_session", *beam_arguments(flags)]
    if runner_of(flags).workers in (Workers.THIS_MACHINE, Workers.OTHER_MACHINES):
        worker_options()
        arguments.append(f"--{WORKING_DIRECTORY}={os.getcwd()}")
    return PipelineOptions(arguments)


def use_filesystems(flags: Sequence[str]) -> None:
    """Have this process reach object stores as Beam's ``flags``, which were checked, say.

    Pipelines do that by themselves; what looks at a dataset before and after them does not.
    """
    from apache_beam.io.filesystems import FileSystems
    from apache_beam.options import pipeline_options as beam_options

    options = beam_options.PipelineOptions(beam_arguments(flags))
    FileSystems.set_options(options)
    endpoint = options.view_as(beam_options.S3Options).s3_endpoint_url
    if endpoint is not None:
        os.environ["AWS_ENDPOINT_URL_S3"] = endpoint  # for datasets, which does not go by Beam


def several_processes(flags: Sequence[str]) -> bool:
    """Return whether Beam's ``flags`` have the work done in several processes, for all we know."""
    from apache_beam.options import pipeline_options as beam_options

    options = beam_options.PipelineOptions(beam_arguments(flags))
    runner = options.view_as(beam_options.StandardOptions).runner
    mode = options.view_as(beam_options.DirectOptions).direct_running_mode
    return not (str(runner).endswith("FnApiRunner") and mode == "in_memory")


def worker_processes(flags: Sequence[str]) -> int:
    """Return how many worker processes a run has at most, as far as Beam's ``flags`` tell.

    Dataflow starts one for each processor of a machine, whose number ends the machine type's name.
    """
    from apache_beam.options import pipeline_options as beam_options

    runner = runner_of(flags)
    options = beam_options.PipelineOptions(beam_arguments(flags))
    if runner.name == "DataflowRunner":
        chosen = options.view_as(beam_options.WorkerOptions)
        processors = re.search(r"-([0-9]+)$", chosen.machine_type or "")
        machines = int(chosen.max_num_workers or chosen.num_workers or 1)
        return machines * (int(processors[1]) if processors else 1)
    if runner.name == "FnApiRunner" and several_processes(flags):
        return int(options.view_as(beam_options.DirectOptions).direct_num_workers) or 1
    return runner.parallelism or 1


@cache
def worker_options() -> type:
    """Make Beam know the option that ``remint-worker`` reads."""
    from apache_beam.options.pipeline_options import PipelineOptions

    class WorkerOptions(PipelineOptions):  # type: ignore[misc]
        """Options of workers that remint's boot program starts."""

        @classmethod
        def _add_argparse_args(cls, parser: Any) -> None:
            parser.add_argument(f"--{WORKING_DIRECTORY}")

    return WorkerOptions


def with_scheme(place: str) -> str:
    """Return an address as a URL."""
    return place if "://" in place else f"http://{place}"
