"""A measured piece of work, in the interpreter of whoever does it: nothing but Python is needed.

A script's ``make_calls`` gets requests and returns rows. It is called three times: for one round of
calls that imports and warms up, for one more whose CPU time is what a start costs, both at an
endpoint that answers at once; and then for the work that is measured, from a cold start.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import sys
import tempfile
import traceback
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

#: What ``ru_maxrss`` is counted in.
_BYTES = 1 if sys.platform == "darwin" else 1024


@dataclass(frozen=True)
class Request:
    """One call: its number, the text that differs from other calls, and the whole body."""

    number: int
    situation: str
    body: dict[str, Any]


@dataclass(frozen=True)
class Task:
    """Requests to be made.

    Attributes:
        base_url: of the endpoint, to ``/v1``.
        in_flight: calls at a time.
        requests: with different situations.
        directory: an empty one, for whatever is to be written.
    """

    base_url: str
    in_flight: int
    requests: list[Request]
    directory: str


@dataclass(frozen=True)
class Row:
    """What came of one request: a text that passes for its answer, or what went wrong."""

    number: int
    text: str | None = None
    error: str | None = None


class EndedError(Exception):
    """The work ended before it was done, with some rows; the cause is what it ended with."""

    def __init__(self, rows: list[Row]) -> None:
        super().__init__()
        self.rows = rows


def measure(make_calls: Callable[[Task], list[Row]]) -> None:
    """Do the work that the command line names, and write what came of it.

    Written are ``rows``, ``cpu`` (milliseconds a call, of this process and its children, without
    what a start costs), ``peak`` (bytes of memory, of the largest process), and ``ended``: the
    exception that ended the work, if one did.
    """
    parser = argparse.ArgumentParser()
    parser.add_argument("--base-url", required=True)
    parser.add_argument("--start-url", required=True, help="answers at once")
    parser.add_argument("--in-flight", type=int, required=True)
    parser.add_argument("--requests", type=Path, required=True, help="a JSON object a line")
    parser.add_argument("--result", type=Path, required=True)
    options = parser.parse_args()
    lines = options.requests.read_text(encoding="utf-8").splitlines()
    requests = [Request(**json.loads(line)) for line in lines]

    def make(base_url: str, some: list[Request]) -> list[Row]:
        with tempfile.TemporaryDirectory() as directory:
            return make_calls(Task(base_url, options.in_flight, some, directory))

    few = requests[: options.in_flight]
    make(options.start_url, few)
    began = _cpu_seconds()
    make(options.start_url, few)
    start = _cpu_seconds() - began
    began = _cpu_seconds()
    rows: list[Row] = []
    ended = None
    try:
        rows = make(options.base_url, requests)
    except Exception as error:  # whatever it is, it is what the tool does
        traceback.print_exc()
        rows = error.rows if isinstance(error, EndedError) else []
        cause = error.__cause__ if isinstance(error, EndedError) else error
        ended = f"{type(cause).__name__}: {cause}"[:300]
    cpu = _cpu_seconds() - began - start
    result = {
        "rows": [asdict(row) for row in rows],
        "cpu": 1000 * cpu / max(1, len(requests) - len(few)),
        "peak": _peak(),
        "ended": ended,
    }
    options.result.write_text(json.dumps(result), encoding="utf-8")
    sys.stdout.flush()
    os._exit(0)  # some leave threads behind that would never end


def _cpu_seconds() -> float:
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def _peak() -> int:
    # Not added up: of a forked child, also of one that only asked for the platform's name, what it
    # shares with its parent counts again.
    return max(_own_peak(), _BYTES * resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)


def _own_peak() -> int:
    # On Linux ru_maxrss begins with what the parent had; VmHWM is of this program alone.
    status = Path("/proc/self/status")
    if status.exists():
        for line in status.read_text(encoding="ascii").splitlines():
            if line.startswith("VmHWM:"):
                return 1024 * int(line.split()[1])
    return _BYTES * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
