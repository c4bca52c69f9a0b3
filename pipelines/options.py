"""The options that every dataset's pipeline has, as one typed, checked object."""

from __future__ import annotations

import os
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from pipelines.option_values import check_base_url, check_key_source, one_as_many, pairs_of
from transforms.llm.api_key import DEFAULT_SOURCE
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
    rpm: float | None = Field(default=None, ge=1, allow_inf_nan=False)
    tpm: float | None = Field(default=None, ge=1, allow_inf_nan=False)
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
