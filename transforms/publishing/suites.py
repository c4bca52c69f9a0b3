"""Which suite looks at what of a version, and the files that its verdicts become."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import polars as pl

from expectations.data_docs import render_data_docs
from expectations.runner import SuiteRunner, Verdict
from transforms.ledger import ledger_table
from transforms.publishing import storage
from transforms.publishing.publication import Publication, Tables
from transforms.publishing.shards import ShardRecord

_SHARD_TABLE = {
    "configuration": pl.String,
    "split": pl.String,
    "rows": pl.Int64,
    "sha256": pl.String,
}


def version_tables(
    tables: Tables, shards: Sequence[ShardRecord], ledger: Mapping[str, Any]
) -> dict[str, pl.DataFrame]:
    """Return what a version's suites look at: its ``tables``, ``shards`` and ``ledger``."""
    frames = {name: pl.DataFrame(rows, infer_schema_length=None) for name, rows in tables.items()}
    rows = [(shard.configuration, shard.split, shard.rows, shard.sha256) for shard in shards]
    frames["shards"] = pl.DataFrame(rows, schema=_SHARD_TABLE, orient="row")
    frames["ledger"] = ledger_table(ledger)
    return frames


def judge_version(
    runner: SuiteRunner, publication: Publication, tables: Mapping[str, pl.DataFrame], rows: int
) -> list[Verdict]:
    """Return the verdicts on what ``version_tables`` gave; the version has so many ``rows``."""
    names = [publication.version_suite]
    if rows >= publication.release_rows:
        names.append(publication.release_suite)
    return [runner.validate(tables, name, subject="version") for name in names]


def shard_failures(
    publication: Publication, shards: Sequence[ShardRecord], verdicts: Sequence[Verdict]
) -> list[str]:
    """Return one line for each expectation that a shard fails, and each shard without a verdict."""
    judged = {(verdict.suite, verdict.subject): verdict for verdict in verdicts}
    lines = []
    for shard in shards:
        verdict = judged.get((publication.suites[shard.configuration], shard.path))
        if verdict is None:
            lines.append(f"{shard.path}: no suite has looked at it")
        elif verdict.rows != shard.rows:
            lines.append(f"{shard.path}: {shard.rows} rows, of which the suite saw {verdict.rows}")
        else:
            lines.extend(failure_lines(verdict))
    return lines


def failure_lines(verdict: Verdict) -> list[str]:
    """Return one line for each expectation whose failing refuses the verdict's subject."""
    return [f"{verdict.subject}: {check.describe()}" for check in verdict.failures]


def warning_lines(verdicts: Iterable[Verdict]) -> list[str]:
    """Return one line for each expectation that failed and only warns."""
    return [
        f"{verdict.subject}: {check.describe()}"
        for verdict in verdicts
        for check in verdict.warnings
    ]


def validation_files(verdicts: Iterable[Verdict]) -> dict[str, bytes]:
    """Return the files of ``verdicts``: for each suite its results as JSON and its Data Docs."""
    by_suite: dict[str, list[Verdict]] = defaultdict(list)
    for verdict in verdicts:
        by_suite[verdict.suite].append(verdict)
    files = {}
    for suite, members in by_suite.items():
        members.sort(key=lambda verdict: verdict.subject)
        results = {
            "suite": suite,
            "success": all(verdict.success for verdict in members),
            "results": [verdict.to_json() for verdict in members],
        }
        files[f"validation/{suite}.json"] = storage.json_bytes(results)
        files[f"validation/{suite}.html"] = render_data_docs(members).encode("utf-8")
    return files
