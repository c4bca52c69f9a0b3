"""One measured run of remint in a process of its own: the command line as a user gives it.

    python -m benchmarks.remint_run WHAT prosocial --seeds ...

WHAT is ``all``, ``without-suites`` (every verdict passes unseen, so that what the suites cost can
be told from the rest) or ``imports`` (ends where the command would begin).
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping

import polars as pl

from expectations.runner import SuiteRunner, Verdict
from pipelines import cli
from transforms.publishing import publish


def _pass(
    self: SuiteRunner,
    tables: pl.DataFrame | Mapping[str, pl.DataFrame],
    suite: str,
    subject: str = "",
) -> Verdict:
    first = tables if isinstance(tables, pl.DataFrame) else next(iter(tables.values()))
    return Verdict(suite, subject, first.height, ())


def main() -> int:
    """Run, and return the command's exit code."""
    what, *arguments = sys.argv[1:]
    if what == "imports":
        cli.set_up_logging()
        importlib.import_module(f"pipelines.{arguments[0]}.command")
        return 0
    if what == "without-suites":
        SuiteRunner.__init__ = lambda self: None  # type: ignore[method-assign]
        SuiteRunner.validate = _pass  # type: ignore[method-assign]
        publish.validation_files = lambda verdicts: {}  # type: ignore[attr-defined]
    return cli.main(arguments)


if __name__ == "__main__":
    sys.exit(main())
