"""Values of options: their forms on the command line and in a file, and what can't be one."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import urlsplit

from transforms.errors import OptionError
from transforms.llm.api_key import FORMS, is_source

_NAME = re.compile(r"[a-z][a-z0-9_]*")


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
