"""The model in a crowd worker's role: choosing rules-of-thumb, responding, and voting.

What it makes has the shape of a crowd file's rows and says ``model`` as its author, so that
assembly, filters and provenance treat both crowds alike and never mix them up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

MAX_CANDIDATES = 5


def annotator_id(model: str, sample: int) -> str:
    """Return the id under which ``model`` votes for the ``sample``-th time (``name#1`` first)."""
    return f"{model}#{sample + 1}"


def candidates_of(data: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the rules-of-thumb of an answer to the ``rots`` prompt: stripped, each one once."""
    stripped = (str(rot).strip() for rot in data["rots"])
    return tuple(dict.fromkeys(rot for rot in stripped if rot))[:MAX_CANDIDATES]


def chosen_rots(data: Mapping[str, Any], candidates: Sequence[str]) -> tuple[str, ...]:
    """Return what an answer to the ``respond`` prompt grounds its response on.

    ``numbers`` count the candidates from 1; a number that was not shown chooses nothing. A
    ``new_rot`` stands where no candidate was chosen: a worker picks or writes, not both. No
    rule-of-thumb at all is legitimate (a safe utterance needs none): the filters judge that.
    """
    chosen = [
        candidates[number - 1]
        for number in dict.fromkeys(data["numbers"])
        if 1 <= number <= len(candidates)
    ]
    if not chosen:
        written = str(data["new_rot"]).strip()
        chosen = [written] if written else []
    return tuple(chosen)
