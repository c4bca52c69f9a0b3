"""What tests of MetricInstruct share: the client of the released text, and the real answers."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

_HEADER = re.compile(
    r"The model-generated output contains (\d+) errors, with a total score reduction of (\d+)"
)
_FIELDS = {
    "location": re.compile(r"Error location \d+: *(\S[^\n]*)"),
    "aspect": re.compile(r"Error aspect \d+: *(\S[^\n]*)"),
    "explanation": re.compile(r"Explanation \d+: *(\S[^\n]*)"),
    "severity": re.compile(r"Severity \d+: *(\S[^\n]*)"),
    "score_reduction": re.compile(r"Score reduction \d+: *(\d+(?:\.\d+)?)"),
}


def read_as_client(text: str) -> dict[str, Any] | None:
    """Read a released text by the rules of TIGERScore's parser, as the facts state them.

    A header with the count and the total as an integer; each field up to the end of its line,
    wherever a label stands; as many of each of the five as the others. None where one fails.
    """
    header = _HEADER.search(text)
    values = {
        name: [found.strip() for found in pattern.findall(text)]
        for name, pattern in _FIELDS.items()
    }
    if header is None or len({len(found) for found in values.values()}) != 1:
        return None
    return {
        "num_errors": int(header[1]),
        "score": -float(header[2]),
        "errors": [
            dict(zip(values, row, strict=True)) for row in zip(*values.values(), strict=True)
        ],
    }


@pytest.fixture(scope="session")
def client() -> Callable[[str], dict[str, Any] | None]:
    """Return the parser of the released text by the client's rules."""
    return read_as_client


@pytest.fixture(scope="session")
def model_answers(shared_data: Callable[[str], Path]) -> list[dict[str, Any]]:
    """Return 500 real analyses of TIGERScore-7B, with what its own parser made of each."""
    path = shared_data("tigerscore/tigerscore7b_500_metricinstruct_outputs.json.gz")
    answers: list[dict[str, Any]] = json.loads(gzip.decompress(path.read_bytes()))
    return answers


@pytest.fixture(scope="session")
def chatgpt_answers(shared_data: Callable[[str], Path]) -> list[dict[str, Any]]:
    """Return 48 real answers of ChatGPT (192 errors): fields input, text, answer, id."""
    path = shared_data("tigerscore/example_result.json.gz")
    return [
        {
            "key": item["id"],
            "id": f"{item['id']}-{candidate['model']}",
            "input": item["input"],
            "text": candidate["text"],
            "answer": candidate["messages_records"][-1]["content"],
        }
        for item in json.loads(gzip.decompress(path.read_bytes()))
        for candidate in item["candidates"]
    ]
