"""Reading JSON: cached replies are read by the hundred thousand, so it has to be quick."""

from __future__ import annotations

import json
from typing import Any

from pydantic_core import from_json


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


DECODER = json.JSONDecoder(parse_constant=_no_constant)


def parse_json(text: str | bytes) -> Any:
    """Return the value of a JSON text; NaN and Infinity are no JSON, and a BOM is passed over.

    A number too great for a float (1e999) is read as infinity: to look for such would take longer
    than reading does, so whoever writes values or uses them as numbers has to see to it.

    pydantic's reader takes a third of the standard library's time and gives the same values. What
    it refuses goes to the standard library, which also takes lone surrogates.

    Raises:
        ValueError: ``text`` is no JSON.
        RecursionError: it is nested too deeply.
    """
    try:
        return from_json(text, allow_inf_nan=False)
    except (ValueError, TypeError):
        plain = text if isinstance(text, str) else text.decode("utf-8", "surrogatepass")
        return DECODER.decode(plain.removeprefix("\ufeff"))
