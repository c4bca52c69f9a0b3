"""One measured run of remint: ``remint prosocial`` in this process, its suites timed apart.

    python benchmarks/remint_run.py FIGURES.json prosocial --seeds ...

Writes ``{"imports_s": ..., "validation_s": ...}`` and ends with the command's exit code.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

STARTED = time.perf_counter()
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from expectations.runner import SuiteRunner  # noqa: E402
from pipelines.cli import main as remint  # noqa: E402
from pipelines.prosocial import command  # noqa: E402, F401 - imported here so that it is timed


class Stopwatch:
    """Adds up the seconds spent in the methods it is put around."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def around(self, method: Callable[..., Any]) -> Callable[..., Any]:
        """Return ``method``, timed."""

        def timed(*arguments: Any, **named: Any) -> Any:
            started = time.perf_counter()
            try:
                return method(*arguments, **named)
            finally:
                self.seconds += time.perf_counter() - started

        return timed


def main() -> int:
    """Run, and write the figures."""
    figures, *arguments = sys.argv[1:]
    imported = time.perf_counter() - STARTED
    suites = Stopwatch()
    # Making the first runner imports Great Expectations, which belongs to what the suites cost.
    for name in ("__init__", "validate"):
        setattr(SuiteRunner, name, suites.around(getattr(SuiteRunner, name)))
    code = remint(arguments)
    seconds = {"imports_s": imported, "validation_s": suites.seconds}
    Path(figures).write_text(json.dumps(seconds), encoding="utf-8")
    return code


if __name__ == "__main__":
    sys.exit(main())
