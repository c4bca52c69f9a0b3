"""Options every dataset's pipeline has, and how they are parsed into one typed, checked object.

A value comes from the command line, else from ``--config FILE.yaml``, else from its default. What
remint does not know is handed to Beam; what Beam does not know either stops the run.
"""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, NoReturn, TypeVar
from urllib.parse import urlsplit

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from pipelines.beam_flags import check_flags
from pipelines.runners import use_filesystems
from transforms.errors import OptionError
from transforms.llm.api_key import DEFAULT_SOURCE, FORMS, is_source
from transforms.llm.embedded.weights import WEIGHTS
from transforms.llm.lanes import DEFAULT_LANES

DEFAULT_PARTITIONS = 16
#: Each has a file in every configuration and a folder in the cache.
MAX_PARTITIONS = 4096
#: The smallest model whose drafts a reader takes for drafts.
DEFAULT_EMBEDDED_MODEL = "qwen2.5-coder-1.5b-instruct"

#: Numbers that say how calls are made, not what is asked.
CALL_OPTIONS = (
    "concurrency",
    "rpm",
    "tpm",
    "lanes",
    "timeout",
    "connect_timeout",
    "first_byte_timeout",
    "retries",
    "samples_per_call",
    "max_calls",
    "max_cost",
)

_NAME = re.compile(r"[a-z][a-z0-9_]*")


class RunOptions(BaseModel):
    """Options that all datasets share. ``beam`` holds the flags that are Beam's own."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    output: str = Field(min_length=1)
    limit: int | None = Field(default=None, ge=1)
    partitions: int | None = Field(default=None, ge=1, le=MAX_PARTITIONS)

    model: str | None = None
    base_url: str | None = None
    api_key: str = DEFAULT_SOURCE
    model_for: tuple[str, ...] = ()
    endpoints: str | None = None
    structured: Literal["json_schema", "json_object", "none"] = "json_schema"
    samples_per_call: int = Field(default=1, ge=1, le=128)
    concurrency: int = Field(default=64, ge=1, le=4096)
    rpm: float | None = Field(default=None, ge=1)
    tpm: float | None = Field(default=None, ge=1)
    lanes: int = Field(default=DEFAULT_LANES, ge=1, le=4096)
    timeout: float = Field(default=120.0, gt=0, le=3600)
    connect_timeout: float = Field(default=10.0, gt=0, le=3600)
    first_byte_timeout: float | None = Field(default=None, gt=0, le=3600)
    retries: int = Field(default=5, ge=0, le=100)
    embedded_model: str = DEFAULT_EMBEDDED_MODEL
    embedded_weights: str | None = None
    shared_cache: tuple[str, ...] = ()
    batch: bool = False

    dry_run: bool = False
    max_calls: int | None = Field(default=None, ge=0)
    max_cost: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    prices: str | None = None

    beam: tuple[str, ...] = ()

    @field_validator("limit", "partitions", *CALL_OPTIONS, mode="before")
    @classmethod
    def _no_truth_value(cls, value: Any) -> Any:
        """Refuse a configuration file's ``true``, which Python counts as 1."""
        if isinstance(value, bool):
            raise ValueError("must be a number")
        return value

    @field_validator("model_for", mode="before")
    @classmethod
    def _pairs_of_steps(cls, value: Any) -> Any:
        return pairs_of(value)

    @field_validator("shared_cache", mode="before")
    @classmethod
    def _one_shared_cache(cls, value: Any) -> Any:
        return one_as_many(value)

    @field_validator("base_url")
    @classmethod
    def _is_base_url(cls, value: str | None) -> str | None:
        return check_base_url(value)

    @field_validator("api_key")
    @classmethod
    def _is_source(cls, value: str) -> str:
        return check_key_source(value)

    @model_validator(mode="after")
    def _check_endpoint(self) -> RunOptions:
        if self.model_for and self.embedded:
            raise ValueError("--model-for needs --model: say which model answers the other steps")
        if self.base_url and not self.model:
            raise ValueError("--base-url needs --model: say which of the endpoint's models to call")
        if self.samples_per_call > 1 and self.embedded:
            raise ValueError("--samples-per-call needs --model: the embedded model answers once")
        if self.batch and self.embedded:
            raise ValueError("--batch needs --model: the embedded model has no offline batches")
        if self.base_url and not self.base_url.startswith(("http://", "https://")):
            raise ValueError("--base-url must begin with http:// or https://")
        missing = self.api_key == DEFAULT_SOURCE and not os.environ.get("OPENAI_API_KEY")
        if self.model and not self.base_url and missing:
            raise ValueError(
                "--model without --base-url calls api.openai.com and needs OPENAI_API_KEY in the "
                "environment; set it, say by --api-key where the key is read, name another "
                "endpoint with --base-url, or leave --model "
                "out to use the embedded model"
            )
        return self

    @field_validator("embedded_model")
    @classmethod
    def _known_weights(cls, value: str) -> str:
        if value not in WEIGHTS:
            raise ValueError(f"there are {', '.join(sorted(WEIGHTS))}")
        return value

    @property
    def embedded(self) -> bool:
        """Whether the embedded model serves, because no endpoint is given."""
        return self.model is None and self.endpoints is None


OptionsT = TypeVar("OptionsT", bound=RunOptions)


class OptionParser(argparse.ArgumentParser):
    """A parser that raises ``OptionError`` where argparse would print usage and end the process."""

    def error(self, message: str) -> NoReturn:
        """Raise what argparse found wrong."""
        raise OptionError(f"{message} (see {self.prog} --help)")


def check_key_source(value: str) -> str:
    """Return ``value`` if it says where a key is read.

    Raises:
        ValueError: it does not.
    """
    if not is_source(value):
        # Which may be a key itself: it is not to be shown.
        raise ValueError(f"says where the key is read, and is no key: give {FORMS}")
    return value


def check_base_url(value: str | None) -> str | None:
    """Return ``value``, which is a base URL or None.

    Raises:
        ValueError: it isn't.
    """
    if value is None:
        return None
    try:
        parts = urlsplit(value)
        _ = parts.port
    except ValueError:
        raise ValueError("is not a URL; give one like http://localhost:8000/v1") from None
    if parts.query or parts.fragment:
        raise ValueError("must end with its path; a key goes into OPENAI_API_KEY")
    if not value.startswith(("http://", "https://")):
        raise ValueError("must begin with http:// or https://")
    return value


def one_as_many(value: Any) -> Any:
    """Return a configuration file's single text as the list that is meant."""
    return (value,) if isinstance(value, str) else value


def pairs_of(value: Any) -> Any:
    """Return a configuration file's mapping of names to values as ``NAME=VALUE`` texts.

    A value may be a list. A single text stands for a list of one.
    """
    if not isinstance(value, dict):
        return one_as_many(value)
    return tuple(
        f"{name}={one}"
        for name, values in value.items()
        for one in (values if isinstance(values, list) else [values])
    )


def named_value(option: str, text: str, form: str) -> tuple[str, str]:
    """Return the two sides of ``NAME=VALUE``.

    Args:
        option: the option, for the message.
        text: what it was given.
        form: how it is written, for the message: "NAME=PATH, with ...".

    Raises:
        OptionError: the text has another form, or the name can't be one.
    """
    name, equals, value = text.partition("=")
    if not (equals and value):
        raise OptionError(f"{option} {text!r}: write {form}")
    if not _NAME.fullmatch(name):
        raise OptionError(
            f"{option} {text!r}: a source's name has lower-case letters, digits and '_' only"
        )
    return name, value


def mapped_columns(option: str, form: str) -> tuple[str, dict[str, str]]:
    """Return the name and the columns by field of a ``NAME:FIELD=COLUMN,...`` text.

    Args:
        option: what ``--field-map`` was given.
        form: how it is written, for the message: "NAME:situation=COLUMN,... with ...".

    Raises:
        OptionError: the text has another form, or a field stands twice.
    """
    name, colon, pairs = option.partition(":")
    columns: dict[str, str] = {}
    for pair in pairs.split(","):
        field, equals, column = (part.strip() for part in pair.partition("="))
        if not (name.strip() and colon and equals and field and column):
            raise OptionError(f"--field-map {option!r}: write {form}")
        if field in columns:
            raise OptionError(f"--field-map {option!r}: {field} is given twice; leave one")
        columns[field] = column
    return name.strip(), columns


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
