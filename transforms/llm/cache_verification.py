"""Verifying a cache: every record read and parsed, and everything that is not as it should be."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from transforms.llm.folders import Folder, Segment, folder_path, read_folder
from transforms.llm.records import Record, is_foreign, parse_line
from transforms.llm.shared_cache import SharedCache
from transforms.publishing import storage


@dataclass
class CacheReport:
    """What verifying found.

    Attributes:
        segments: segments read.
        records: those that answer a request.
        duplicates: further answers to a request; only the oldest counts.
        failures: what is damaged or was lost, one line each.
        warnings: what is as it may be after a killed run or compaction, or is none of ours.
    """

    segments: int = 0
    records: int = 0
    duplicates: int = 0
    failures: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


def verify_cache(cache: SharedCache) -> CacheReport:
    """Read all of ``cache``, record by record.

    Raises:
        OSError: something can't be read.
    """
    report = CacheReport()
    known = {folder_path("", number).lstrip("/") for number in range(cache.partitions)}
    names = {name.partition("/")[0] for name in storage.files_below(cache.directory)}
    report.warnings += [
        f"{name}: no folder of one of the {cache.partitions} partitions"
        for name in sorted(names - known)
        if not name.startswith(".")
    ]
    for number in range(cache.partitions):
        _verify_folder(read_folder(folder_path(cache.directory, number)), report)
    return report


def records_of(folder: Folder) -> Iterator[Record]:
    """Yield the records of ``folder`` that count: of each request the oldest that can be read."""
    seen = set()
    for segment in folder.segments:
        for line in segment.lines:
            record = None if is_foreign(line) else parse_line(line)
            if record is not None and record.key not in seen:
                seen.add(record.key)
                yield record


def _verify_folder(folder: Folder, report: CacheReport) -> None:
    report.segments += len(folder.segments)
    seen: set[str] = set()
    for name in folder.foreign:
        report.warnings.append(f"{storage.join(folder.path, name)}: no segment of this version")
    if folder.replaced:
        report.warnings.append(
            f"{folder.path}: {len(folder.replaced)} segments that are compacted already; "
            "compact again to remove them"
        )
    for segment in folder.segments:
        _verify_segment(segment, storage.join(folder.path, segment.name), seen, report)
    report.records += len(seen)


def _verify_segment(segment: Segment, path: str, seen: set[str], report: CacheReport) -> None:
    damaged = foreign = 0
    for line in segment.lines:
        record = None if is_foreign(line) else parse_line(line)
        if is_foreign(line):
            foreign += 1
        elif record is None or len(record.key) != 64:
            damaged += 1
        elif record.key in seen:
            report.duplicates += 1
        else:
            seen.add(record.key)
    if segment.torn and segment.compacted:
        report.failures.append(f"{path}: a compacted segment that is not whole")
    elif segment.torn:
        report.warnings.append(f"{path}: its last record is cut off (a killed run's)")
    if damaged:
        report.failures.append(f"{path}: {damaged} damaged records")
    if foreign:
        report.warnings.append(f"{path}: {foreign} lines that are no records of this version")
