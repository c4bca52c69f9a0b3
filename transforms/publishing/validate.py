"""Validating a published version again.

Are its files those of the manifest, do the suites pass, does ``datasets`` load it?
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import polars as pl

from expectations.runner import SuiteRunner, Verdict
from transforms.errors import OutputError
from transforms.publishing import storage
from transforms.publishing.loading import loading_failures
from transforms.publishing.manifest import MANIFEST_NAME, Manifest, read_manifest
from transforms.publishing.publication import Publication
from transforms.publishing.publish import LEDGER_NAME, STATISTICS_NAME
from transforms.publishing.shards import ShardRecord, read_table, schema_fingerprint
from transforms.publishing.suites import (
    failure_lines,
    judge_version,
    version_tables,
    warning_lines,
)


@dataclass(frozen=True)
class ValidationReport:
    """What validating a version found.

    Attributes:
        path: the version's directory.
        files: how many files were compared with the manifest.
        suites: how many verdicts were reached.
        failures: one line for each fault; the version is sound if there is none.
        warnings: one line for each expectation that failed and only warns.
    """

    path: str
    files: int
    suites: int
    failures: tuple[str, ...]
    warnings: tuple[str, ...]

    @property
    def success(self) -> bool:
        """Whether the version is sound."""
        return not self.failures


def validate_version(
    version_path: str, publications: Mapping[str, Publication]
) -> ValidationReport:
    """Compare the version at ``version_path`` with its manifest and run its suites again.

    The configurations of a version whose files are all sound are loaded by ``datasets`` as well.

    Args:
        version_path: the version's directory, on any Beam filesystem.
        publications: the datasets that can be validated, by name.

    Raises:
        OutputError: where it is no version, or of a dataset that is not among ``publications``.
    """
    manifest = read_manifest(version_path)
    publication = publications.get(manifest.dataset)
    if publication is None:
        raise OutputError(
            f"{version_path} is a version of {manifest.dataset!r}, which this release of remint "
            f"does not know (it knows {', '.join(sorted(publications))})"
        )
    expected = manifest.expected_files()
    present = set(storage.files_below(version_path)) - {MANIFEST_NAME}
    failures = [f"{path}: missing" for path in sorted(set(expected) - present)]
    failures += [f"{path}: not in the manifest" for path in sorted(present - set(expected))]
    sound = set()
    for path in sorted(present & set(expected)):
        data = storage.read_bytes(storage.join(version_path, *path.split("/")))
        if (len(data), storage.sha256(data)) == expected[path]:
            sound.add(path)
        else:
            failures.append(f"{path}: its content is not what was published")
    runner = SuiteRunner()
    verdicts: list[Verdict] = []
    for shard in manifest.shards:
        if shard.path in sound:
            if shard.configuration not in publication.suites:
                failures.append(
                    f"{shard.path}: this release of remint knows no configuration "
                    f"{shard.configuration!r}; validate with the one that wrote it "
                    f"({manifest.run.get('code_version')})"
                )
                continue
            faults, verdict = _judge_shard(runner, version_path, publication, manifest, shard)
            failures += faults
            verdicts.append(verdict)
    if not publication.rows_of(manifest.shards):
        failures.append(f"{MANIFEST_NAME}: the version has no rows")
    if {LEDGER_NAME, STATISTICS_NAME} <= sound:
        verdicts += _judge_tables(runner, version_path, publication, manifest)
    failures += [line for verdict in verdicts for line in failure_lines(verdict)]
    if sound == set(expected):
        failures += loading_failures(version_path, manifest)
    return ValidationReport(
        path=version_path,
        files=len(expected),
        suites=len(verdicts),
        failures=tuple(failures),
        warnings=tuple(warning_lines(verdicts)),
    )


def _judge_shard(
    runner: SuiteRunner,
    version_path: str,
    publication: Publication,
    manifest: Manifest,
    shard: ShardRecord,
) -> tuple[list[str], Verdict]:
    """Return the shard's faults and its suite's verdict."""
    table = read_table(storage.read_bytes(storage.join(version_path, *shard.path.split("/"))))
    faults = []
    if table.num_rows != shard.rows:
        faults.append(f"{shard.path}: {table.num_rows} rows, the manifest says {shard.rows}")
    configuration = manifest.configurations.get(shard.configuration, {})
    declared = configuration.get("schema_fingerprint")
    if not schema_fingerprint(table.schema) == shard.schema_fingerprint == declared:
        faults.append(f"{shard.path}: its schema is not that of its configuration")
    frame = pl.from_arrow(table)
    assert isinstance(frame, pl.DataFrame)  # noqa: S101 - a table never becomes a Series
    suite = publication.suites[shard.configuration]
    return faults, runner.validate(frame, suite, subject=shard.path)


def _judge_tables(
    runner: SuiteRunner, version_path: str, publication: Publication, manifest: Manifest
) -> list[Verdict]:
    tables = storage.read_json(storage.join(version_path, STATISTICS_NAME))
    ledger = storage.read_json(storage.join(version_path, LEDGER_NAME))
    summed = version_tables(tables, manifest.shards, ledger)
    return judge_version(runner, publication, summed, publication.rows_of(manifest.shards))
