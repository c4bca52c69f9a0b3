"""Publishing a version: everything that surrounds its shards is written, the manifest last.

A version that can't be published keeps its files, without a manifest and with ``refused.json``
that says why; the next run removes it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import Enum
from typing import Any

import polars as pl

from expectations.runner import SuiteRunner, Verdict, suite_fingerprint
from transforms.errors import LedgerError, ValidationError
from transforms.ledger import build_ledger, close_ledger
from transforms.llm.spending import calls_entry, calls_frame
from transforms.publishing import storage
from transforms.publishing.card import render_card
from transforms.publishing.manifest import Manifest, manifest_path, read_manifest
from transforms.publishing.publication import Publication, Run
from transforms.publishing.shards import DEFAULT, ShardRecord, schema_fingerprint
from transforms.publishing.suites import (
    failure_lines,
    judge_version,
    shard_failures,
    validation_files,
    version_tables,
    warning_lines,
)
from transforms.publishing.versions import Version, dataset_of, versions

REFUSED_NAME = "refused.json"
LEDGER_NAME = "ledger.json"
STATISTICS_NAME = "statistics.json"
#: How many reasons a message names; all of them stand in the version's validation files.
MAX_REASONS = 10


class Status(str, Enum):
    """How publishing ended."""

    PUBLISHED = "published"
    UNCHANGED = "unchanged"  # the data is the latest version's, and no other was made
    INCOMPLETE = "incomplete"  # no row of the default configuration is complete
    LEDGER_OPEN = "ledger_open"
    INVALID = "invalid"  # a suite refuses a shard or the version
    DESCRIBED = "described"  # the job was written down for others to start, and publishes then


@dataclass(frozen=True)
class PublishResult:
    """How publishing ended, and where.

    Attributes:
        status: how it ended.
        version: the number that was published, that stands unchanged, or that was refused.
        path: that version's directory.
        message: what the user is to be told.
        warnings: one line for each expectation that failed and only warns.
        spending: lines on the calls that were made.
    """

    status: Status
    version: int
    path: str
    message: str
    warnings: tuple[str, ...] = ()
    spending: tuple[str, ...] = ()

    def raise_for_status(self) -> None:
        """Return unless the version was refused.

        Raises:
            LedgerError: where the ledger does not close.
            ValidationError: where a suite refuses a shard or the version.
        """
        if self.status is Status.LEDGER_OPEN:
            raise LedgerError(self.message)
        if self.status is Status.INVALID:
            raise ValidationError(self.message)


def publish(
    version: Version,
    publication: Publication,
    run: Run,
    shards: Sequence[ShardRecord],
    verdicts: Sequence[Verdict],
    counts: pl.DataFrame,
    statistics: pl.DataFrame,
    funnel: pl.DataFrame,
) -> PublishResult:
    """Publish the claimed ``version``, or say why it can't be.

    A runner may repeat the call: for a version that has its manifest nothing is done.

    Args:
        version: what ``claim_version`` returned.
        publication: the dataset.
        run: the run.
        shards: the records of all shards that were written.
        verdicts: the verdict of each shard's suite; a shard without one is not published.
        counts: the ledger's counts, see ``transforms.ledger.COUNTS``.
        statistics: the dataset's statistics of all partitions.
        funnel: what the filters saw, see ``transforms.filters.FUNNEL``; it goes into the ledger.
    """
    if version.complete:
        return _published(version, read_manifest(version.path))
    ledger = {
        **build_ledger(counts, publication.stages),
        "filters": funnel.to_dicts(),
        "calls": calls_entry(pl.concat([counts, calls_frame(run.collected)]), run.prices),
    }
    files = {LEDGER_NAME: storage.json_bytes(ledger)}
    try:
        close_ledger(ledger)
    except LedgerError as error:
        return _refuse(version, Status.LEDGER_OPEN, [str(error)], files)
    rows = publication.rows_of(shards)
    shards = sorted(shards, key=lambda shard: shard.path)
    unchanged = _unchanged(version, publication, shards)
    if unchanged:
        storage.remove_tree(version.path)
        return _stands(unchanged)
    files.update(validation_files(verdicts))
    failures = [*_missing(version, shards), *shard_failures(publication, shards, verdicts)]
    if failures:
        return _refuse(version, Status.INVALID, failures, files)
    if not rows:
        return _refuse(
            version,
            Status.INCOMPLETE,
            ["nothing is complete yet; waiting/, rejected/ and dead/ say what each input lacks"],
            files,
        )
    tables = publication.summarise(statistics)
    files[STATISTICS_NAME] = storage.json_bytes(dict(tables))
    summed = version_tables(tables, shards, ledger)
    verdicts = [*verdicts, *judge_version(SuiteRunner(), publication, summed, rows)]
    files.update(validation_files(verdicts))
    failures = [line for verdict in verdicts for line in failure_lines(verdict)]
    if failures:
        return _refuse(version, Status.INVALID, failures, files)
    files["README.md"] = render_card(publication, run, shards, tables).encode("utf-8")
    _write(version, files)
    manifest = Manifest(
        dataset=publication.dataset,
        version=version.number,
        run=asdict(run),
        summary=dict(tables["version"][0]),
        configurations=_configurations(publication, shards),
        shards=tuple(shards),
        files={
            path: {"bytes": len(data), "sha256": storage.sha256(data)}
            for path, data in files.items()
        },
        suites={
            name: suite_fingerprint(name)
            for name in sorted({verdict.suite for verdict in verdicts})
        },
        warnings=tuple(warning_lines(verdicts)),
    )
    _remove_strays(version, manifest)
    # A power failure must not leave a manifest over files that never came to the disk.
    storage.sync_tree(version.path)
    storage.write_bytes(manifest_path(version.path), manifest.to_bytes(), durable=True)
    return _published(version, manifest)


def read_result(version: Version) -> PublishResult:
    """Return how publishing the claimed ``version`` ended, from what stands in its directory.

    For a driver that started the run on other machines.

    Raises:
        ValidationError: where publishing has not come to its end.
    """
    if version.complete:
        return _published(version, read_manifest(version.path))
    refused = storage.join(version.path, REFUSED_NAME)
    if storage.exists(refused):
        raw = storage.read_json(refused)
        return PublishResult(Status(raw["status"]), version.number, version.path, raw["message"])
    before = _complete_before(version)
    if before and not storage.files_below(version.path):
        return _stands(before)
    raise ValidationError(f"{version.path} was begun and not published; run again")


def _complete_before(version: Version) -> Version | None:
    """Return the newest complete version older than ``version``, which itself may be gone."""
    older = [other for other in versions(dataset_of(version)) if other.number < version.number]
    return next((other for other in reversed(older) if other.complete), None)


def _unchanged(
    version: Version, publication: Publication, shards: Sequence[ShardRecord]
) -> Version | None:
    """Return the version before ``version`` if ``shards`` hold nothing new beside it.

    Of what tells how calls went the numbers of rows count alone: that the same dialogues failed
    once more, with another error or after more attempts, is no news.
    """
    before = _complete_before(version)
    if before is None:
        return None

    def content(shards: Sequence[ShardRecord]) -> dict[str, str | int]:
        return {
            shard.path: shard.rows if shard.configuration in publication.of_calls else shard.sha256
            for shard in shards
        }

    return before if content(read_manifest(before.path).shards) == content(shards) else None


def _missing(version: Version, shards: Sequence[ShardRecord]) -> list[str]:
    """Return one line for each of ``shards`` that is not where this run has written it."""
    present = storage.files_below(version.path)
    return [
        f"{shard.path}: was removed or changed while the run went on; run again"
        for shard in shards
        if present.get(shard.path) != shard.bytes
    ]


def _remove_strays(version: Version, manifest: Manifest) -> None:
    """Remove what no shard of this run is: of bundles that failed and came to another end later."""
    for path in storage.files_below(version.path).keys() - manifest.expected_files().keys():
        storage.remove_file(storage.join(version.path, *path.split("/")))


def _configurations(
    publication: Publication, shards: Sequence[ShardRecord]
) -> dict[str, Mapping[str, Any]]:
    entries: dict[str, Mapping[str, Any]] = {}
    for configuration, schema in publication.configurations.items():
        splits: dict[str, int] = {}
        for shard in shards:
            if shard.configuration == configuration:
                splits[shard.split] = splits.get(shard.split, 0) + shard.rows
        entries[configuration] = {
            "suite": publication.suites[configuration],
            "schema_fingerprint": schema_fingerprint(schema),
            "splits": splits,
        }
    return entries


def _write(version: Version, files: Mapping[str, bytes]) -> None:
    for path, data in files.items():
        storage.write_bytes(storage.join(version.path, *path.split("/")), data)


def _refuse(
    version: Version, status: Status, reasons: Sequence[str], files: Mapping[str, bytes]
) -> PublishResult:
    shown = "; ".join(reasons[:MAX_REASONS])
    more = f"; and {len(reasons) - MAX_REASONS} more" if len(reasons) > MAX_REASONS else ""
    message = f"no version was published: {shown}{more} (what was written is in {version.path})"
    refusal = {"status": status.value, "message": message, "reasons": list(reasons)}
    _write(version, {**files, REFUSED_NAME: storage.json_bytes(refusal)})
    return PublishResult(status, version.number, version.path, message)


def _published(version: Version, manifest: Manifest) -> PublishResult:
    rows = sum(shard.rows for shard in manifest.shards if shard.configuration == DEFAULT)
    message = f"published version {version.number} with {rows:,} rows in {version.path}"
    return PublishResult(Status.PUBLISHED, version.number, version.path, message, manifest.warnings)


def _stands(version: Version) -> PublishResult:
    message = f"nothing new: version {version.number} in {version.path} stands"
    return PublishResult(Status.UNCHANGED, version.number, version.path, message)
