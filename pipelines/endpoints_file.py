"""The file of ``--endpoints``: several models or endpoints in one run, and who answers which step.

A step is a prompt, by its name::

    endpoints:
      strong: {base_url: https://gateway.example/v1, model: large, api_key: env:GATEWAY_KEY}
      cheap: {model: small, rpm: 500}
    steps:
      vote: cheap
      respond: {share: {strong: 3, cheap: 1}, fallback: [main]}
      others: strong
    fallback_on: [rate_limited, timeout, server, refused]

``main`` is the endpoint of ``--model`` and ``--base-url``; ``others`` are all steps that are not
named, and are main's where they are not given to others.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from pipelines.option_values import check_base_url, check_key_source
from transforms.errors import OptionError
from transforms.llm.calls import CallClass
from transforms.llm.routes import UNAVAILABLE
from transforms.llm.settings import check_lengths

MAIN, OTHERS = "main", "others"

#: What of a request's body is remint's own to say.
_OWN_FIELDS = frozenset({"model", "messages", "n", "stream", "response_format"})

Weight = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class EndpointEntry(BaseModel):
    """One endpoint of the file; what is absent is as the options of the run say.

    One with a ``base_url`` of its own is sent no key but the one that its ``api_key`` leads to (a
    source, see ``transforms.llm.api_key``).
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    model: str = Field(min_length=1)
    base_url: str | None = None
    api_key: str | None = None
    structured: Literal["json_schema", "json_object", "none"] | None = None
    concurrency: int | None = Field(default=None, ge=1, le=4096)
    rpm: float | None = Field(default=None, ge=1, allow_inf_nan=False)
    tpm: float | None = Field(default=None, ge=1, allow_inf_nan=False)
    samples_per_call: int | None = Field(default=None, ge=1, le=128)
    extra_body: dict[str, Any] = {}

    @field_validator("base_url")
    @classmethod
    def _is_base_url(cls, value: str | None) -> str | None:
        return check_base_url(value)

    @field_validator("api_key")
    @classmethod
    def _is_source(cls, value: str | None) -> str | None:
        return value if value is None else check_key_source(value)

    @field_validator("extra_body")
    @classmethod
    def _is_beside_ours(cls, value: dict[str, Any]) -> dict[str, Any]:
        own = sorted(_OWN_FIELDS & set(value))
        if own:
            raise ValueError(f"can't hold {', '.join(own)}, which remint sets itself")
        check_lengths(value)
        try:
            json.dumps(value, allow_nan=False)
        except (TypeError, ValueError):
            raise ValueError("must be what JSON can say") from None
        return value

    @property
    def limited(self) -> bool:
        """Whether it has limits of its own."""
        return not (self.concurrency is None and self.rpm is None and self.tpm is None)


class StepEntry(BaseModel):
    """The endpoints of one step: those that share its items by weight, and those asked after."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    share: dict[str, Weight] = Field(min_length=1)
    fallback: tuple[str, ...] = ()

    @field_validator("share", mode="before")
    @classmethod
    def _one(cls, value: Any) -> Any:
        return {value: 1} if isinstance(value, str) else value

    @property
    def names(self) -> list[str]:
        """All endpoints that may be asked."""
        return [*self.share, *self.fallback]


class EndpointsFile(BaseModel):
    """The file of ``--endpoints``."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    endpoints: dict[str, EndpointEntry] = {}
    steps: dict[str, StepEntry] = {}
    fallback_on: frozenset[CallClass] = UNAVAILABLE

    @field_validator("steps", mode="before")
    @classmethod
    def _named(cls, value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        return {
            step: {"share": entry} if isinstance(entry, str) else entry
            for step, entry in value.items()
        }

    @field_validator("fallback_on")
    @classmethod
    def _is_failure(cls, value: frozenset[CallClass]) -> frozenset[CallClass]:
        if value & {CallClass.OK, CallClass.BATCH}:
            raise ValueError("has classes of failures alone, not ok or batch")
        return value


def read_endpoints(path: str | None) -> EndpointsFile:
    """Return what the file at ``path`` says, or nothing where there is none.

    Raises:
        OptionError: it can't be read, or has another form.
    """
    if path is None:
        return EndpointsFile()
    try:
        content = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
        found = EndpointsFile.model_validate(content)
    except OSError as error:
        raise OptionError(f"--endpoints {path}: can't be read ({error.strerror})") from None
    except (yaml.YAMLError, UnicodeDecodeError):
        raise OptionError(f"--endpoints {path}: is not YAML") from None
    except ValidationError as error:
        raise OptionError(f"--endpoints {path}: {_explain(error)}") from None
    if MAIN in found.endpoints:
        raise OptionError(
            f"--endpoints {path}: {MAIN} is the endpoint of --model; name yours otherwise"
        )
    return found


def _explain(error: ValidationError) -> str:
    findings = []
    for finding in error.errors(include_input=False):
        place = ".".join(str(part) for part in finding["loc"])
        said = finding["msg"].removeprefix("Value error, ")
        findings.append(f"{place}: {said}" if place else said)
    return "; ".join(findings)
