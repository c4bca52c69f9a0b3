"""The launcher of the Flex Template: a template's parameters as ``remint``'s arguments.

Dataflow starts this file in the template's image with ``--name=value`` for each parameter, and with
the flags of the job (project, region, buckets, where its description is to be written). Names have
``_`` where remint's options have ``-``; an option that takes several values has them in one text,
separated by spaces, those with spaces in quotes.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence

from pipelines import cli
from pipelines.metricinstruct.options import metricinstruct_parser
from pipelines.option_parsing import OptionParser
from pipelines.prosocial.options import prosocial_parser
from transforms.errors import OptionError

#: The parameter that names the command.
DATASET = "dataset"
PARSERS: Mapping[str, Callable[[], OptionParser]] = {
    "prosocial": prosocial_parser,
    "metricinstruct": metricinstruct_parser,
}
#: Set in the image to the image's own name: workers run what the launcher runs.
IMAGE = "REMINT_IMAGE"
#: Options without a meaning in a template: a driver has to stay for some, the embedded model serves
#: no other machine, and a job's parameters are shown to all who see the job.
NOT_IN_TEMPLATES = (
    *("batch", "config", "dry_run"),
    *("embedded_model", "embedded_weights"),
    "endpoints",  # a file of the machine that starts the run
    "annotator_salt",
)


def options_of(parser: OptionParser) -> dict[str, bool]:
    """Return the parser's options by the name of their parameter: whether they take several."""
    return {action.dest: action.nargs == "+" for action in parser._actions if action.dest != "help"}


def remint_arguments(
    arguments: Sequence[str], environment: Mapping[str, str] = os.environ
) -> list[str]:
    """Return the command and arguments that a template's ``arguments`` stand for.

    Raises:
        OptionError: no known dataset, or a parameter that has no meaning in a template.
    """
    pairs = [argument.removeprefix("--").partition("=") for argument in arguments]
    dataset = next((value for name, _, value in pairs if name == DATASET), "")
    if dataset not in PARSERS:
        raise OptionError(f"--{DATASET}={dataset!r}: there are {', '.join(PARSERS)}")
    options = options_of(PARSERS[dataset]())
    made = [dataset]
    for name, equals, value in pairs:
        field = name.replace("-", "_")
        if field in NOT_IN_TEMPLATES:
            raise OptionError(f"--{name} is none of a template; start the run from a machine")
        if field in options and value:
            option = f"--{field.replace('_', '-')}"
            made += [option, *shlex.split(value)] if options[field] else [f"{option}={value}"]
        elif field not in options and name != DATASET:
            made.append(f"--{name}{equals}{value}")
    if IMAGE in environment and not any("--sdk_container_image" in one for one in made):
        made += [f"--sdk_container_image={environment[IMAGE]}", "--sdk_location=container"]
    return made


def main(arguments: Sequence[str] | None = None) -> int:
    """Describe the job as the parameters say; return the process's exit code."""
    try:
        return cli.main(remint_arguments(sys.argv[1:] if arguments is None else arguments))
    except OptionError as error:
        sys.stderr.write(f"remint: {error}\n")
        return cli.EXIT_UNUSABLE


if __name__ == "__main__":
    sys.exit(main())
