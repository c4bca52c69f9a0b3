"""How options are parsed into one typed, checked object.

A value comes from the command line, else from ``--config FILE.yaml``, else from its default. What
remint does not know is handed to Beam; what Beam does not know either stops the run.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import yaml
from pydantic import ValidationError

from pipelines.beam_flags import check_flags
from pipelines.options import DEFAULT_EMBEDDED_MODEL, DEFAULT_PARTITIONS, RunOptions
from pipelines.runners import use_filesystems
from transforms.errors import OptionError
from transforms.llm.api_key import DEFAULT_SOURCE, FORMS
from transforms.llm.lanes import DEFAULT_LANES

OptionsT = TypeVar("OptionsT", bound=RunOptions)


class OptionParser(argparse.ArgumentParser):
    """A parser that raises ``OptionError`` where argparse would print usage and end the process."""

    def error(self, message: str) -> NoReturn:
        """Raise what argparse found wrong."""
        raise OptionError(f"{message} (see {self.prog} --help)")


def new_parser(program: str, description: str, limit: str) -> OptionParser:
    """Return a parser with the shared options; each dataset adds its own.

    ``limit`` says what ``--limit`` counts.

    Defaults live in the typed options alone: an absent flag leaves no attribute behind, so that a
    configuration file can supply it.
    """
    parser = OptionParser(
        prog=program,
        description=description,
        argument_default=argparse.SUPPRESS,
        allow_abbrev=False,
        epilog="Any other option is Apache Beam's own (--runner, --project, ...).",
    )
    run = parser.add_argument_group("run")
    run.add_argument("--output", metavar="DIR", help="where datasets live, one folder each")
    run.add_argument("--config", metavar="FILE", help="YAML file of options; flags win over it")
    run.add_argument("--limit", metavar="N", help=limit)
    run.add_argument(
        "--partitions",
        metavar="P",
        help=f"partitions of a new dataset (default {DEFAULT_PARTITIONS}); fixed from then on",
    )
    model = parser.add_argument_group("model")
    model.add_argument("--model", metavar="NAME", help="model to call; none: the embedded model")
    model.add_argument(
        "--base-url",
        metavar="URL",
        help="any OpenAI-compatible endpoint (also OPENAI_BASE_URL; the key: OPENAI_API_KEY)",
    )
    model.add_argument(
        "--api-key",
        metavar="SOURCE",
        help=f"where each worker reads the key: {FORMS} (default {DEFAULT_SOURCE})",
    )
    model.add_argument(
        "--model-for",
        nargs="+",
        action="extend",
        metavar="STEP=MODEL",
        help="another model for a step, which is a prompt's name (an unknown one lists them)",
    )
    model.add_argument(
        "--endpoints",
        metavar="FILE",
        help="YAML of further endpoints, and of who answers which step, by shares or in turn",
    )
    model.add_argument(
        "--structured",
        metavar="MODE",
        help="how JSON is asked for: json_schema (default), json_object, or none",
    )
    model.add_argument(
        "--samples-per-call",
        metavar="N",
        help="samples of one request (three votes, say) that a call asks for, where the endpoint "
        "has the parameter n (default 1; in batches always 1)",
    )
    model.add_argument("--concurrency", metavar="N", help="calls in flight (default 64)")
    model.add_argument("--rpm", metavar="N", help="requests a minute (else as the endpoint tells)")
    model.add_argument("--tpm", metavar="N", help="tokens a minute (else as the endpoint tells)")
    model.add_argument(
        "--lanes",
        metavar="N",
        help=f"parts the limits are divided into for several workers (default {DEFAULT_LANES})",
    )
    model.add_argument("--timeout", metavar="SECONDS", help="time for one call (default 120)")
    model.add_argument(
        "--connect-timeout", metavar="SECONDS", help="time for its connection (default 10)"
    )
    model.add_argument(
        "--first-byte-timeout",
        metavar="SECONDS",
        help="time for the first byte of its answer (default: that of the call)",
    )
    model.add_argument("--retries", metavar="N", help="repeats of a failed call (default 5)")
    model.add_argument(
        "--embedded-model",
        metavar="NAME",
        help=f"which embedded model serves (default {DEFAULT_EMBEDDED_MODEL})",
    )
    model.add_argument(
        "--embedded-weights", metavar="FILE", help="its GGUF file, when you have it already"
    )
    model.add_argument(
        "--shared-cache",
        nargs="+",
        action="extend",
        metavar="DIR",
        help="dataset whose cached replies are used, too; it is never written to",
    )
    model.add_argument(
        "--batch",
        action="store_true",
        help="have the calls made by offline batches: a run submits what is missing and collects "
        "what has come; run again to carry on",
    )
    budget = parser.add_argument_group("budget")
    budget.add_argument(
        "--dry-run",
        action="store_true",
        default=argparse.SUPPRESS,
        help="tell the calls, tokens, money and time of a run; call nobody, write nothing",
    )
    budget.add_argument(
        "--max-calls", metavar="N", help="send at most so many calls in this run, repeats included"
    )
    budget.add_argument(
        "--max-cost", metavar="USD", help="spend at most so many US dollars in this run"
    )
    budget.add_argument(
        "--prices", metavar="FILE", help="YAML of models' prices, over those that remint knows"
    )
    return parser


def parse_place(parser: argparse.ArgumentParser, argv: Sequence[str]) -> argparse.Namespace:
    """Return the arguments of a command that looks at places, which any filesystem may hold.

    Raises:
        OptionError: an option that neither the command nor Beam knows.
    """
    known, beam = parser.parse_known_args(list(argv))
    check_flags(beam, ())
    use_filesystems(beam)
    return known


def parse(
    parser: argparse.ArgumentParser, options_class: type[OptionsT], argv: Sequence[str]
) -> OptionsT:
    """Return the options that ``argv``, its configuration file and the environment make.

    Raises:
        OptionError: an option that neither remint nor Beam knows, or a value that can't be used.
    """
    known, rest = parser.parse_known_args(list(argv))
    flags = vars(known)
    config, beam_config = _read_config(flags.pop("config", None), options_class)
    configured = (flag for name, value in beam_config.items() for flag in _beam_flags(name, value))
    beam = (*configured, *rest)
    check_flags(beam, beam_config)
    use_filesystems(beam)
    values: dict[str, Any] = {**config, **flags, "beam": beam}
    if "base_url" not in values and values.get("model") and os.environ.get("OPENAI_BASE_URL"):
        values["base_url"] = os.environ["OPENAI_BASE_URL"]
    try:
        return options_class(**values)
    except ValidationError as error:
        raise OptionError(_explain(error)) from None


def _explain(error: ValidationError) -> str:
    """Return pydantic's findings in the words of the command line."""
    lines = []
    for finding in error.errors():
        place = ".".join(str(part) for part in finding["loc"])
        option = f"--{place.replace('_', '-')}: " if place else ""
        if finding["type"] == "missing":
            lines.append(f"{option}is needed")
        else:
            lines.append(option + finding["msg"].removeprefix("Value error, "))
    return "; ".join(lines)


def _read_config(
    path: str | None, options_class: type[RunOptions]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a configuration file's own options, and the others, which must be Beam's."""
    if path is None:
        return {}, {}
    try:
        content = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise OptionError(f"--config {path}: can't be read ({error.strerror})") from None
    except (yaml.YAMLError, UnicodeDecodeError):
        raise OptionError(f"--config {path}: is not YAML") from None
    if content is None:
        content = {}
    if not isinstance(content, Mapping):
        raise OptionError(f"--config {path}: must be a mapping of options to values")
    own: dict[str, Any] = {}
    beam: dict[str, Any] = {}
    for name, value in content.items():
        field = str(name).replace("-", "_")
        if field in options_class.model_fields and field != "beam":
            own[field] = value
        else:
            beam[field] = value
    return own, beam


def _beam_flags(name: str, value: Any) -> list[str]:
    """Return one entry of a configuration file as Beam flags; false means: leave it out."""
    if value is None or value is False:
        return []
    if value is True:
        return [f"--{name}"]
    if isinstance(value, list):
        return [f"--{name}={item}" for item in value]
    return [f"--{name}={value}"]
