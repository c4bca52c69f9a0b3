"""Beam's own flags: which ones there are, and those that are refused."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NoReturn

from pipelines.runners import OWN_MASTERS, RUNNERS, beam_arguments, worker_options
from transforms.errors import OptionError

#: Beam's options go into the job's description, which runners show, keep and log.
_SECRET = ("s3_secret_access_key", "s3_session_token", "azure_connection_string")
_NEEDED_BY_DATAFLOW = {
    "project": "PROJECT",
    "region": "europe-west1",
    "temp_location": "gs://BUCKET/temp",
}


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

    worker_options()

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
    options = beam_options.PipelineOptions(beam_arguments(flags))
    # Dataflow's options are checked by asking Google about the buckets; a dry run's are not.
    options.view_as(beam_options.TestOptions).dry_run = True
    try:
        beam.Pipeline(options=options)
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
    if known.dry_run:
        yield (
            "--dry_run is Beam's, and the local runners make every call in spite of it; write "
            "--dry-run to be told what the calls come to"
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
        name == "FlinkRunner" and known.flink_master not in OWN_MASTERS
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
    if name == "DataflowRunner":
        yield from _faults_of_dataflow(known)


def _faults_of_dataflow(known: Any) -> Iterator[str]:
    """Yield what Dataflow lacks; where Beam would go by the machine's settings, we don't guess."""
    for option, example in _NEEDED_BY_DATAFLOW.items():
        if not getattr(known, option):
            yield f"--runner=DataflowRunner needs --{option}={example} (docs/dataflow.md)"
    if not (known.sdk_container_image or known.setup_file or known.extra_packages):
        yield (
            "--runner=DataflowRunner needs remint on its workers: --sdk_container_image=IMAGE with "
            "remint in it, or --setup_file=./setup.py of a checkout (docs/dataflow.md)"
        )
    if known.setup_file and not os.path.isfile(known.setup_file):
        yield f"--setup_file={known.setup_file}: there is no such file; name remint's setup.py"


def _command(config: str | None) -> str | None:
    try:
        found = json.loads(config or "{}")["command"]
    except (ValueError, KeyError, TypeError):
        return None
    return str(found)
