"""The command ``remint``: one subcommand per dataset, and those that look at what was published."""

from __future__ import annotations

import importlib
import logging
import sys
from collections.abc import Sequence

from pipelines.stopping import stopping_at_signals
from transforms.errors import RemintError

#: Subcommands, and the module and function (from arguments to an exit code) that run them. A
#: module is imported only when its command is called: Beam alone takes two seconds.
COMMANDS = {
    "prosocial": ("pipelines.prosocial.command", "run"),
    "metricinstruct": ("pipelines.metricinstruct.command", "run"),
    "versions": ("pipelines.inspection", "versions"),
    "validate": ("pipelines.inspection", "validate"),
    "cache": ("pipelines.cache", "run"),
    "unlock": ("pipelines.unlock", "run"),
    "fake-endpoint": ("pipelines.fake_endpoint", "run"),
}

USAGE = """usage: remint COMMAND ...

commands:
  prosocial       from seed texts to a published ProsocialDialog version
  metricinstruct  from system outputs and references to a published MetricInstruct version
  versions        list the versions below an output directory
  validate        check published versions: files, hashes, expectation suites, loading
  cache           verify, compact or describe the cache of a dataset's model replies
  unlock          let runs on a dataset again, where remint can't see that none is at work
  fake-endpoint   serve an endpoint on this machine that fails as it is told, to try runs on

remint COMMAND --help tells a command's options.
"""

EXIT_UNUSABLE = 2


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command that ``argv`` (the process's own arguments by default) names.

    Returns:
        0 when done, 1 when something was found wrong with the data, 2 when an option, a file or an
        endpoint can't be used.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    if not arguments or arguments[0] in {"-h", "--help", "help"}:
        print(USAGE, end="")
        return 0 if arguments else EXIT_UNUSABLE
    name, *rest = arguments
    if name not in COMMANDS:
        print(f"remint: unknown command {name!r}\n\n{USAGE}", end="", file=sys.stderr)
        return EXIT_UNUSABLE
    set_up_logging()
    try:
        module, function = COMMANDS[name]
        with stopping_at_signals(f"remint {name}"):
            return int(getattr(importlib.import_module(module), function)(rest))
    except RemintError as error:
        print(f"remint {name}: {error}", file=sys.stderr)
        return EXIT_UNUSABLE
    except OSError as error:  # of an input it would be an InputError: it is the output's
        print(f"remint {name}: {error}; put that right and run again", file=sys.stderr)
        return EXIT_UNUSABLE


def set_up_logging() -> None:
    """Send remint's own lines to standard error, and of other packages' only what matters."""
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(message)s", "%H:%M:%S"))
    handler.addFilter(_is_worth_a_line)
    logging.basicConfig(level=logging.WARNING, handlers=[handler])
    logging.getLogger("remint").setLevel(logging.INFO)


def _is_worth_a_line(record: logging.LogRecord) -> bool:
    """Drop what tells a user nothing.

    That is Beam's remark, made at every import, that its Google Cloud extra is not installed, its
    trace of an error whose message the command itself gives at the end, and what a job server says
    of itself.
    """
    if record.levelno < logging.WARNING and not record.name.startswith("remint"):
        return False
    if record.module == "portable_runner":  # what ended a job comes as the exception of the run
        return False
    error = record.exc_info[1] if record.exc_info else None
    if record.name.startswith("apache_beam") and isinstance(error, RemintError | OSError):
        return False
    return not str(record.msg).startswith(("apitools not found", "Really "))


if __name__ == "__main__":
    sys.exit(main())
