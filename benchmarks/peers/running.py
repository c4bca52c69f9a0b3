"""Running one side on one load, and what came of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import urllib.request
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from endpoint import fake_endpoint

from peers.requests import PROMPT, requests
from transforms.llm.answers import classify
from transforms.llm.calls import CallClass
from transforms.llm.fake_endpoint.replies import completion

BENCHMARKS = Path(__file__).resolve().parents[1]

#: Seconds that a side may take for one load.
PATIENCE = 420.0


class FailedError(Exception):
    """A side did not come to an end; the message says what it did."""


@dataclass(frozen=True)
class Load:
    """Calls to be made: how many at a time and in all, and the endpoint's options."""

    name: str
    in_flight: int
    requests: int
    endpoint: tuple[str, ...]


@dataclass(frozen=True)
class Side:
    """Who makes the calls: the module of ``peers``, and the interpreter that runs it."""

    name: str
    python: Path = Path(sys.executable)

    def run(self, load: Load) -> Figures:
        """Return the figures of one run, with an endpoint of its own.

        Raises:
            FailedError: it took too long, or its process failed.
        """
        with (
            tempfile.TemporaryDirectory() as directory,
            fake_endpoint() as start_url,
            fake_endpoint(*load.endpoint) as base_url,
        ):
            given, result = Path(directory) / "requests.jsonl", Path(directory) / "result.json"
            lines = [json.dumps(asdict(each)) for each in requests(load.requests)]
            given.write_text("\n".join(lines), encoding="utf-8")
            said = self._run(
                *("--base-url", base_url, "--start-url", start_url),
                *("--in-flight", str(load.in_flight)),
                *("--requests", str(given), "--result", str(result)),
            )
            if not result.is_file():
                raise FailedError(f"it wrote no result: {said}")
            return Figures.of(load, json.loads(result.read_text("utf-8")), _counts(base_url))

    def _run(self, *options: str) -> str:
        path = os.pathsep.join((str(BENCHMARKS), str(BENCHMARKS.parent)))
        try:
            done = subprocess.run(
                [str(self.python), "-m", f"peers.{self.name}", *options],
                env={**os.environ, "PYTHONPATH": path},
                capture_output=True,
                text=True,
                timeout=PATIENCE,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise FailedError(f"it did not end within {PATIENCE:.0f} seconds") from None
        return " ".join(done.stderr.strip().splitlines()[-3:])[-300:]


@dataclass(frozen=True)
class Figures:
    """What one run came to.

    Attributes:
        rate: answered calls a second, from the first request to the last answer at the endpoint.
        cpu: CPU milliseconds of the client for each.
        peak: bytes of memory, of the client's largest process.
        requests: sent to the endpoint, those sent again among them.
        refused: of them, those that it answered with 429.
        rows: what came of the rows, see ``outcomes``.
        ended: the exception that ended the work, None if it came to its end.
    """

    rate: float
    cpu: float
    peak: int
    requests: int
    refused: int
    rows: Mapping[str, int] = field(default_factory=dict)
    ended: str | None = None

    @classmethod
    def of(cls, load: Load, result: Mapping[str, Any], counts: Mapping[str, Any]) -> Figures:
        """Return the figures of what a side wrote and the endpoint counted."""
        return cls(
            rate=round(counts["answered"] / max(counts["seconds"], 1e-9), 1),
            cpu=round(result["cpu"], 3),
            peak=result["peak"],
            requests=counts["requests"],
            refused=counts["statuses"].get("429", 0),
            rows=outcomes(load.requests, result["rows"]),
            ended=result["ended"],
        )


def outcomes(wanted: int, rows: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """Return how many of the rows that were ``wanted`` came to what.

    ``right``: an answer that fits the schema; ``cut``: the beginning of one passes for an answer;
    ``error_text``: a text of another kind does; ``named``: no answer, and the row says why;
    ``lost``: no answer, and no word on it.
    """
    found = Counter({"right": 0, "cut": 0, "error_text": 0, "named": 0})
    for row in {row["number"]: row for row in rows}.values():
        text = row["text"]
        if row["error"]:
            found["named"] += 1
        elif text and classify(200, completion(text), PROMPT.validate).call_class is CallClass.OK:
            found["right"] += 1
        elif text:
            found["cut" if text.startswith("{") else "error_text"] += 1
    return {**found, "lost": wanted - found.total()}


def _counts(base_url: str) -> dict[str, Any]:
    url = base_url.removesuffix("/v1") + "/admin/counts"
    with urllib.request.urlopen(url, timeout=30) as response:
        counts: dict[str, Any] = json.load(response)
    return counts
