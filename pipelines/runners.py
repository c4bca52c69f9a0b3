"""Runners: which ones remint runs on, and what is refused before a call is paid.

What a runner can't do shows itself late: when a worker can't find a file, reach the model or be
started, a job has been submitted and may have paid for calls. So everything that can be known
beforehand is asked beforehand.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cache
from typing import Any, NoReturn

from pipelines.flink_jobs import running_jobs
from runner_configs.worker import WORKING_DIRECTORY
from transforms.errors import OptionError
from transforms.llm.settings import is_loopback

#: The runners that the tests run both datasets on; Dataflow as far as that goes without it.
RUNNERS = ("FnApiRunner", "PrismRunner", "PortableRunner", "FlinkRunner", "DataflowRunner")
_OWN_MASTER = ("[local]", "[auto]")
SECONDS = 10.0
_REMEDY = "start it (make flink-up has one on this machine), or put its address right"
#: Beam's options go into the job's description, which runners show, keep and log.
_SECRET = ("s3_secret_access_key", "s3_session_token", "azure_connection_string")


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
    """

    name: str
    workers: Workers
    job_endpoint: str | None = None
    master: str | None = None
    parallelism: int | None = None

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
        return Runner(name, Workers.CLOUD)
    master = None if flink.flink_master in _OWN_MASTER else flink.flink_master
    job_endpoint = None
    if name == "PortableRunner" and portable.job_endpoint != "embed":
        job_endpoint = portable.job_endpoint
    parallelism = flink.parallelism if flink.parallelism > 0 else None
    reached = [_with_scheme(place) for place in (job_endpoint, master) if place]
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


def check_runner(
    flags: Sequence[str],
    base_url: str | None,
    dataset: str,
    files: Iterable[str],
    seconds: float = SECONDS,
) -> None:
    """See that the runner is there, and that its workers reach the model and the paths of a run.

    Args:
        flags: Beam's, checked.
        base_url: the model's endpoint; None for the embedded model, which listens on loopback.
        dataset: the dataset's directory.
        files: every input file.
        seconds: how long a job server may take to answer.

    Raises:
        OptionError: with the remedy.
    """
    runner = runner_of(flags)
    away = runner.workers in (Workers.OTHER_MACHINES, Workers.CLOUD)
    if away and (base_url is None or is_loopback(base_url)):
        where = "the embedded model" if base_url is None else base_url
        raise OptionError(
            f"{where} is reached from this machine alone, and the workers of {runner.name} are on "
            "others; give --model and a --base-url that they reach"
        )
    if runner.workers is Workers.CLOUD:
        for path in (dataset, *files):
            if "://" not in path:
                raise OptionError(
                    f"{path}: the workers of {runner.name} have no folder in common with this "
                    "machine; put it on an object store (gs://, s3://)"
                )
    if runner.name == "FlinkRunner" and shutil.which("java") is None:
        raise OptionError(
            "FlinkRunner starts Beam's job server, which needs Java, and there is no java on PATH; "
            "install it, or name a job server that runs with --runner=PortableRunner "
            "--job_endpoint=HOST:PORT"
        )
    if runner.workers is Workers.HERE and not all(
        is_loopback(_with_scheme(place)) for place in (runner.job_endpoint, runner.master) if place
    ):
        raise OptionError(
            "--environment_type=LOOPBACK has this process do the work, which a cluster on other "
            "machines does not reach; use PROCESS or EXTERNAL"
        )
    if runner.job_endpoint is not None:
        _check_job_server(runner.job_endpoint, seconds)
    if runner.master is not None:
        _check_flink(runner.master, dataset, seconds)


def check_parallelism(flags: Sequence[str], partitions: int) -> None:
    """See that there is a partition for every slot that a run takes.

    Raises:
        OptionError: slots would stay empty for the whole run.
    """
    parallelism = runner_of(flags).parallelism
    if parallelism is not None and parallelism > partitions:
        raise OptionError(
            f"--parallelism={parallelism}, but the dataset has {partitions} partitions, each of "
            "which is one worker's at a time; lower it, or begin another dataset with several "
            "--partitions for each slot"
        )


def check_flags(flags: Sequence[str], names: Iterable[str]) -> None:
    """Refuse flags and ``names`` that Beam does not know, and what is known not to work.

    Raises:
        OptionError: with the remedy.
    """
    named = [f"--{name}" for name in names]
    if not flags and not named:
        return
    import apache_beam as beam
    from apache_beam.options import pipeline_options as beam_options

    _worker_options()

    class BeamParser(beam_options._BeamArgumentParser):  # type: ignore[misc]
        """Beam's own parser, which raises where argparse would end the process."""

        def error(self, message: str) -> NoReturn:
            """Raise what argparse found wrong."""
            raise OptionError(f"Apache Beam's options: {message}")

    option_parser = BeamParser(allow_abbrev=False, add_help=False)
    for options_class in dict.fromkeys(beam_options.PipelineOptions.__subclasses__()):
        options_class._add_argparse_args(option_parser)
    known, unknown = option_parser.parse_known_args(list(flags))
    unknown += [name for name in named if name not in option_parser._option_string_actions]
    if unknown:
        raise OptionError(
            f"unknown option {unknown[0].partition('=')[0]!r}: neither remint nor Apache Beam has "
            "it (see --help; spelled-out names only)"
        )
    for fault in (*_faults(known), *_faults_of_runner(known)):
        raise OptionError(fault)
    try:
        beam.Pipeline(options=beam_options.PipelineOptions(beam_arguments(flags)))
    except (ValueError, ImportError) as error:
        raise OptionError(f"Apache Beam's options: {error}") from None


def _faults(known: Any) -> Iterator[str]:
    """Yield what must not be among Beam's options."""
    if known.direct_running_mode == "multi_threading":
        yield (
            "--direct_running_mode=multi_threading loses rows in silence in Apache Beam 2.77; "
            "use in_memory (the default) or multi_processing"
        )
    if any(str(item).startswith("data_buffer_time_limit_ms") for item in known.experiments or []):
        yield (
            "--experiments=data_buffer_time_limit_ms uses the stream that loses rows in Apache "
            "Beam 2.77; leave it out"
        )
    for name in _SECRET:
        if getattr(known, name, None):
            yield (
                f"--{name} would be shown and logged with the job's options; set the environment "
                "variable of the store's own client (AWS_SECRET_ACCESS_KEY and its like) for this "
                "process and its workers"
            )
    if known.save_main_session:
        yield (
            "--save_main_session pickles the program that starts the run; remint is a package that "
            "workers have installed: leave it out"
        )


def _faults_of_runner(known: Any) -> Iterator[str]:
    """Yield what the runner that was chosen lacks."""
    (argument,) = beam_arguments([f"--runner={known.runner}"] if known.runner else [])
    name = argument.partition("=")[2]
    if name not in RUNNERS:
        yield (
            f"--runner={name}: remint has not been tried on it; it runs on {', '.join(RUNNERS)} "
            "(DirectRunner stands for FnApiRunner)"
        )
    if known.streaming:
        yield "--streaming: a run reads files to their end, it is a batch; leave it out"
    if name == "PortableRunner" and not known.job_endpoint:
        yield "--runner=PortableRunner needs --job_endpoint=HOST:PORT of a Beam job server"
    remote = name == "PortableRunner" or (
        name == "FlinkRunner" and known.flink_master not in _OWN_MASTER
    )
    if remote and known.environment_type not in ("LOOPBACK", "PROCESS", "EXTERNAL", "DOCKER"):
        yield (
            f"--runner={name} needs --environment_type, how its workers are started: PROCESS or "
            "EXTERNAL on a cluster, LOOPBACK on this machine (runner_configs/ has files for each)"
        )
    if known.environment_type == "PROCESS" and not _command(known.environment_config):
        yield (
            '--environment_type=PROCESS needs --environment_config=\'{"command": '
            '"remint-worker"}\', the program that a worker is started by'
        )


def _command(config: str | None) -> str | None:
    try:
        found = json.loads(config or "{}")["command"]
    except (ValueError, KeyError, TypeError):
        return None
    return str(found)


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

    They also say what the job is called, and from which directory relative paths start.
    """
    from apache_beam.options.pipeline_options import PipelineOptions

    arguments = [f"--job_name={job_name(dataset)}", *beam_arguments(flags)]
    if runner_of(flags).workers in (Workers.THIS_MACHINE, Workers.OTHER_MACHINES):
        _worker_options()
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


@cache
def _worker_options() -> type:
    """Make Beam know the option that ``remint-worker`` reads."""
    from apache_beam.options.pipeline_options import PipelineOptions

    class WorkerOptions(PipelineOptions):  # type: ignore[misc]
        """Options of workers that remint's boot program starts."""

        @classmethod
        def _add_argparse_args(cls, parser: Any) -> None:
            parser.add_argument(f"--{WORKING_DIRECTORY}")

    return WorkerOptions


def _with_scheme(place: str) -> str:
    return place if "://" in place else f"http://{place}"


def _check_job_server(endpoint: str, seconds: float) -> None:
    """See that Beam's job server is there.

    Raises:
        OptionError: it is not.
    """
    import grpc

    with grpc.insecure_channel(endpoint) as channel:
        try:
            grpc.channel_ready_future(channel).result(timeout=seconds)
        except grpc.FutureTimeoutError as error:
            raise OptionError(
                f"--job_endpoint={endpoint}: no job server answers there; {_REMEDY}"
            ) from error


def _check_flink(master: str, dataset: str, seconds: float) -> None:
    """See that Flink is there, and that no job of an earlier run works on the dataset.

    Raises:
        OptionError: it is not, or there is one.
    """
    try:
        running = running_jobs(master, job_name(dataset), seconds)
    except OSError as error:
        raise OptionError(f"--flink_master={master}: no Flink answers there; {_REMEDY}") from error
    if running:
        raise OptionError(
            f"job {running[0]} of an earlier run still works on {dataset}; wait for it to end, or "
            f"cancel it at {_with_scheme(master)}, and run again: no call is repeated"
        )
