"""Levels and thresholds of a dataset's filters: its filters.yaml, changed by a user's file."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal, TypeVar

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError, field_validator

from transforms.errors import OptionError
from transforms.filters import Level
from transforms.reading.files import open_bytes, reading


class Rule(BaseModel):
    """A filter without a threshold; those with one add fields."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    level: Level

    @field_validator("level", mode="before")
    @classmethod
    def _yaml_reads_off_as_false(cls, value: Any) -> Any:
        return "off" if value is False else value


class Pinned(Rule):
    """A filter whose faults can't be published: the suites refuse a version with one of them."""

    level: Literal["error"]


SettingsT = TypeVar("SettingsT", bound=BaseModel)


def load_filters(
    settings: type[SettingsT], default_file: Path, path: str | None = None
) -> SettingsT:
    """Return the settings of ``default_file``, changed by what the file at ``path`` names.

    Args:
        settings: a model with one ``Rule`` per filter, all required, extra ones forbidden.
        default_file: the dataset's own filters.yaml, which is complete.
        path: a file of the same form, on any Beam filesystem, that may name a part of it.

    Raises:
        InputError: the file is missing or can't be read.
        OptionError: it is no YAML mapping, or names a filter, threshold or value there isn't.
    """
    with default_file.open(encoding="utf-8") as file:
        merged: dict[str, Any] = yaml.safe_load(file)
    for name, change in (_mapping_in(path) if path else {}).items():
        if not isinstance(change, dict):
            raise OptionError(
                f"{path}: {name} must be a mapping such as {{level: warning}}, as in filters.yaml"
            )
        merged[name] = {**merged.get(name, {}), **change}
    try:
        return settings.model_validate(merged)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        known = ", ".join(settings.model_fields)
        raise OptionError(
            f"{path or default_file.name}: {place}: {first['msg']}; the filters are {known}, their "
            f"thresholds stand in {default_file.parent.name}/{default_file.name}"
        ) from None


def _mapping_in(path: str) -> dict[str, Any]:
    with reading(path), open_bytes(path) as file:
        content = file.read()
    try:
        mapping = yaml.safe_load(content)
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        mark = getattr(error, "problem_mark", None)
        place = f" (line {mark.line + 1})" if mark else ""
        raise OptionError(f"{path}: not YAML{place}; see the dataset's filters.yaml") from None
    if mapping is None:
        return {}
    if not isinstance(mapping, dict):
        raise OptionError(f"{path}: must map filters to their levels and thresholds")
    return {str(name): change for name, change in mapping.items()}
