"""Runs the suites of this package: each is a Great Expectations suite as JSON beside this module.

A suite looks at *views*, named SQL queries (in Polars' dialect) over the tables it is given, so
that elements of lists, whole dialogues and rules between columns become plain columns that an
expectation can check. ``meta.views`` of a suite holds the queries, ``meta.view`` of an expectation
says which one it looks at. Beside each table ``T`` stands ``T_schema`` with one text column
``field``: position, name and type of each of its columns.

Values never leave a verdict: it says which expectation failed, how often, and in which places of
its view, so that no harmful text comes into logs or reports.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

import polars as pl

from expectations.kept_configurations import kept_configurations

SUITES = Path(__file__).parent
#: The table's name in the views of a suite that looks at one shard.
SHARD = "shard"
MAX_PLACES = 20
_COUNTS = ("element_count", "unexpected_count")


@dataclass(frozen=True)
class Check:
    """How one expectation of a suite went.

    ``element_count`` and the other counts are of values in the view; ``places`` are row positions
    in it, at most ``MAX_PLACES``; ``observed`` is the number that an expectation about a whole
    table or column saw; ``error``: it could not be evaluated.
    """

    view: str
    expectation: str
    columns: tuple[str, ...]
    severity: str
    success: bool
    element_count: int | None = None
    unexpected_count: int | None = None
    observed: float | None = None
    places: tuple[int, ...] = ()
    error: bool = False

    def describe(self) -> str:
        """Return what failed in one line, without any value of the data."""
        what = f"{self.expectation}({', '.join(self.columns)}) on {self.view}"
        if self.error:
            return f"{what}: could not be evaluated"
        if self.unexpected_count is not None:
            return f"{what}: {self.unexpected_count} of {self.element_count}"
        return what if self.observed is None else f"{what}: observed {self.observed:g}"


@dataclass(frozen=True)
class Verdict:
    """How a suite went on one subject (a shard's path, or what else was looked at)."""

    suite: str
    subject: str
    rows: int
    checks: tuple[Check, ...]

    @property
    def success(self) -> bool:
        """Whether no expectation failed but those that only warn."""
        return not self.failures

    @property
    def failures(self) -> tuple[Check, ...]:
        """The expectations whose failing refuses the subject."""
        return tuple(check for check in self.checks if not check.success and not _warns(check))

    @property
    def warnings(self) -> tuple[Check, ...]:
        """The expectations that failed and only warn."""
        return tuple(check for check in self.checks if not check.success and _warns(check))

    def to_json(self) -> dict[str, Any]:
        """Return the verdict as a JSON object."""
        return {**asdict(self), "success": self.success}


def _warns(check: Check) -> bool:
    return check.severity != "critical"


@cache
def load_suite(name: str) -> dict[str, Any]:
    """Return the suite ``name`` of this package as its JSON object; don't change it."""
    raw: dict[str, Any] = json.loads((SUITES / f"{name}.json").read_text(encoding="utf-8"))
    return raw


def suite_fingerprint(name: str) -> str:
    """Return the SHA-256 of the suite's file."""
    return hashlib.sha256((SUITES / f"{name}.json").read_bytes()).hexdigest()


class SuiteRunner:
    """Validates tables with one Great Expectations context of its own.

    Contexts are not thread-safe (threads that share one get wrong verdicts and no error): make one
    runner per DoFn instance, in ``setup``. Making the first one in a process imports Great
    Expectations, which takes seconds.
    """

    def __init__(self) -> None:
        os.environ.setdefault("GX_ANALYTICS_ENABLED", "False")
        import great_expectations as gx
        from great_expectations.data_context.types.base import (
            DataContextConfig,
            InMemoryStoreBackendDefaults,
            ProgressBarsConfig,
        )

        config = DataContextConfig(
            store_backend_defaults=InMemoryStoreBackendDefaults(),
            progress_bars=ProgressBarsConfig(globally=False, metric_calculations=False),
            analytics_enabled=False,
        )
        context = gx.get_context(mode="ephemeral", project_config=config)
        asset = context.data_sources.add_pandas("views").add_dataframe_asset("view")
        self._batches = asset.add_batch_definition_whole_dataframe("view")
        self._suite_class = gx.ExpectationSuite

    def validate(
        self, tables: pl.DataFrame | Mapping[str, pl.DataFrame], suite: str, subject: str = ""
    ) -> Verdict:
        """Return the verdict of ``suite`` on ``tables``.

        Args:
            tables: the tables by the names that the suite's views use, or one frame as ``shard``.
            suite: the suite's name: its file's, without ``.json``.
            subject: what the verdict is about, such as a shard's path.
        """
        named = {SHARD: tables} if isinstance(tables, pl.DataFrame) else dict(tables)
        raw = load_suite(suite)
        expectations: list[dict[str, Any]] = raw["expectations"]
        checks: dict[int, Check] = {}
        for view, frame in _views(named, raw["meta"]["views"]).items():
            members = [
                index for index, item in enumerate(expectations) if item["meta"]["view"] == view
            ]
            results = self._results(frame, {index: expectations[index] for index in members})
            rows = 0 if frame is None else frame.height
            for index in members:
                checks[index] = _check(expectations[index], results.get(index), rows)
        ordered = tuple(checks[index] for index in range(len(expectations)))
        return Verdict(suite, subject, next(iter(named.values())).height, ordered)

    def _results(
        self, frame: pl.DataFrame | None, expectations: Mapping[int, Mapping[str, Any]]
    ) -> dict[int, Mapping[str, Any]]:
        """Return each expectation's result by its index; none where there is no frame."""
        if frame is None:
            return {}
        # Results come in an order of Great Expectations' own, so each carries its index.
        marked = [{**item, "meta": {"index": index}} for index, item in expectations.items()]
        suite = self._suite_class(name="view", expectations=marked)
        batch = self._batches.get_batch(batch_parameters={"dataframe": frame.to_pandas()})
        with kept_configurations():
            if batch.validate(suite, result_format="BOOLEAN_ONLY").success:
                return {index: {"success": True} for index in expectations}
            # Counting costs as much again, so only where there is a fault.
            outcome = batch.validate(suite, result_format="SUMMARY").to_json_dict()
        return {
            result["expectation_config"]["meta"]["index"]: result for result in outcome["results"]
        }


def _views(
    tables: Mapping[str, pl.DataFrame], queries: Mapping[str, str]
) -> dict[str, pl.DataFrame | None]:
    """Return the frame of each view; None where the tables don't allow it (a column is missing)."""
    context = pl.SQLContext(eager=True)
    for name, table in tables.items():
        context.register(name, table)
        fields = [f"{i} {column} {kind}" for i, (column, kind) in enumerate(table.schema.items())]
        context.register(f"{name}_schema", pl.DataFrame({"field": fields}))
    views: dict[str, pl.DataFrame | None] = {}
    for view, query in queries.items():
        try:
            views[view] = context.execute(query)
        except pl.exceptions.PolarsError:
            views[view] = None
    return views


def _check(expectation: Mapping[str, Any], result: Mapping[str, Any] | None, rows: int) -> Check:
    """Return how ``expectation`` went on a view of so many ``rows``."""
    kwargs = expectation["kwargs"]
    columns = [kwargs[name] for name in ("column", "column_A", "column_B") if name in kwargs]
    success = bool(result and result["success"])
    seen = result["result"] if result and not success else {}
    observed = seen.get("observed_value", rows if "row_count" in expectation["type"] else None)
    counted = {"element_count": rows, "unexpected_count": 0} if success else seen
    counts = {name: int(counted[name]) for name in _COUNTS if counted.get(name) is not None}
    return Check(
        view=expectation["meta"]["view"],
        expectation=expectation["type"],
        columns=tuple(columns),
        severity=expectation["severity"],
        success=success,
        observed=float(observed) if isinstance(observed, int | float) else None,
        places=tuple(seen.get("partial_unexpected_index_list") or ())[:MAX_PLACES],
        error=not success and not seen,
        **counts,
    )
