"""Checking an answer against the JSON schema it was asked to follow.

A validator is compiled once per prompt into plain functions: checking an answer costs a few
microseconds, where the jsonschema package takes some hundred.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import Any

#: Returns what is wrong with a value, or None. Never quotes the value: it may be harmful text.
Validator = Callable[[Any], "str | None"]

_TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "null": (type(None),),
}
_ANNOTATIONS = frozenset({"title", "description", "$schema", "examples"})
_CHECKED = frozenset(
    {
        "type", "enum", "const", "properties", "required", "additionalProperties", "items",
        "minItems", "maxItems", "minLength", "maxLength", "pattern", "minimum", "maximum",
    }
)  # fmt: skip


def validator(schema: Mapping[str, Any], path: str = "") -> Validator:
    """Return the validator of ``schema``.

    Raises:
        ValueError: ``schema`` has a keyword that would go unchecked, or an unknown type.
    """
    unknown = set(schema) - _CHECKED - _ANNOTATIONS
    if unknown:
        raise ValueError(f"{path or '/'}: schema keywords not supported: {sorted(unknown)}")
    checks = [
        *_type_checks(schema, path),
        *_value_checks(schema, path),
        *_object_checks(schema, path),
        *_array_checks(schema, path),
    ]

    def validate(value: Any) -> str | None:
        for check in checks:
            fault = check(value)
            if fault is not None:
                return fault
        return None

    return validate


def check_strict(schema: Mapping[str, Any], path: str = "") -> None:
    """Check that every object of ``schema`` requires all it names and allows nothing else.

    Endpoints that enforce a schema (``strict``) refuse any other.

    Raises:
        ValueError: an object of ``schema`` is not closed, or has an optional property.
    """
    properties = schema.get("properties", {})
    if schema.get("type") == "object":
        if schema.get("additionalProperties") is not False:
            raise ValueError(f"{path or '/'}: additionalProperties must be false")
        if set(schema.get("required", ())) != set(properties):
            raise ValueError(f"{path or '/'}: every property must be required")
    for name, inner in properties.items():
        check_strict(inner, f"{path}/{name}")
    if "items" in schema:
        check_strict(schema["items"], f"{path}/*")


def _type_checks(schema: Mapping[str, Any], path: str) -> list[Validator]:
    if "type" not in schema:
        return []
    names = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    unknown = set(names) - set(_TYPES)
    if unknown:
        raise ValueError(f"{path or '/'}: unknown types {sorted(unknown)}")
    types = tuple({kind for name in names for kind in _TYPES[name]})
    fault = f"{path or '/'}: not of type {' or '.join(names)}"
    # True is an int to Python, not to JSON.
    refuses_booleans = "boolean" not in names and int in types

    has_floats = float in types

    def check(value: Any) -> str | None:
        if not isinstance(value, types) or (refuses_booleans and isinstance(value, bool)):
            return fault
        # What is too great for a float is read as infinity, which is no JSON.
        if has_floats and isinstance(value, float) and not math.isfinite(value):
            return fault
        return None

    return [check]


def _value_checks(schema: Mapping[str, Any], path: str) -> list[Validator]:
    checks: list[Validator] = []

    def add(holds: Callable[[Any], bool], fault: str) -> None:
        message = f"{path or '/'}: {fault}"
        checks.append(lambda value: None if holds(value) else message)

    if "enum" in schema:
        allowed = list(schema["enum"])
        add(lambda value: value in allowed, "not one of the allowed values")
    if "const" in schema:
        only = schema["const"]
        add(lambda value: bool(value == only), "not the one allowed value")
    if "minLength" in schema:
        low = int(schema["minLength"])
        add(lambda value: not isinstance(value, str) or len(value) >= low, f"shorter than {low}")
        if low:  # stricter than JSON schema: what has to have characters has to say something
            add(lambda value: not isinstance(value, str) or bool(value.strip()), "blank")
    if "maxLength" in schema:
        high = int(schema["maxLength"])
        add(lambda value: not isinstance(value, str) or len(value) <= high, f"longer than {high}")
    if "pattern" in schema:
        found = re.compile(schema["pattern"]).search
        add(
            lambda value: not isinstance(value, str) or found(value) is not None,
            "does not match the pattern",
        )
    if "minimum" in schema:
        least = schema["minimum"]
        add(lambda value: not isinstance(value, (int, float)) or value >= least, f"below {least}")
    if "maximum" in schema:
        most = schema["maximum"]
        add(lambda value: not isinstance(value, (int, float)) or value <= most, f"above {most}")
    return checks


def _object_checks(schema: Mapping[str, Any], path: str) -> list[Validator]:
    properties = {
        name: validator(inner, f"{path}/{name}")
        for name, inner in schema.get("properties", {}).items()
    }
    required = list(schema.get("required", ()))
    additional = schema.get("additionalProperties", True)
    if not isinstance(additional, bool):
        raise ValueError(f"{path or '/'}: additionalProperties must be true or false")
    if not properties and not required and additional:
        return []

    def check(value: Any) -> str | None:
        if not isinstance(value, dict):
            return None
        for name in required:
            if name not in value:
                return f"{path}/{name}: missing"
        for name, inner in value.items():
            validate = properties.get(name)
            if validate is not None:
                fault = validate(inner)
                if fault is not None:
                    return fault
            elif not additional:
                return f"{path or '/'}: has a property that the schema does not name"
        return None

    return [check]


def _array_checks(schema: Mapping[str, Any], path: str) -> list[Validator]:
    items = validator(schema["items"], f"{path}/*") if "items" in schema else None
    low = int(schema.get("minItems", 0))
    high = schema.get("maxItems")
    if items is None and low == 0 and high is None:
        return []

    def check(value: Any) -> str | None:
        if not isinstance(value, list):
            return None
        if len(value) < low:
            return f"{path or '/'}: fewer than {low} items"
        if high is not None and len(value) > high:
            return f"{path or '/'}: more than {high} items"
        if items is not None:
            for inner in value:
                fault = items(inner)
                if fault is not None:
                    return fault
        return None

    return [check]
