"""``remint versions`` and ``remint validate``: looking at what was published."""

from __future__ import annotations

from collections.abc import Sequence

from pipelines.metricinstruct.publication import PUBLICATION as METRICINSTRUCT
from pipelines.option_parsing import OptionParser, parse_place
from pipelines.prosocial.publication import PUBLICATION as PROSOCIAL
from transforms.publishing.validate import validate_version
from transforms.publishing.versions import list_versions

PUBLICATIONS = {publication.dataset: publication for publication in (PROSOCIAL, METRICINSTRUCT)}


def versions(arguments: Sequence[str]) -> int:
    """List the versions below an output directory."""
    parser = OptionParser(
        prog="remint versions", description="List the versions below an output directory."
    )
    parser.add_argument("output", help="what was given to a run as --output")
    entries = list_versions(parse_place(parser, arguments).output)
    for entry in entries:
        if entry.fault:
            print(f"{entry.path}  {entry.fault}")
        elif entry.complete:
            size = f"{(entry.bytes or 0) / 1e6:,.1f} MB"
            print(f"{entry.path}  {entry.created}  {entry.rows or 0:,} rows  {size}")
        else:
            print(f"{entry.path}  no version: it was begun and not published")
    if not entries:
        print("no version yet")
    return 0


def validate(arguments: Sequence[str]) -> int:
    """Check published versions: their files and hashes, expectation suites, loading."""
    parser = OptionParser(
        prog="remint validate",
        description="Compare versions with their manifests, run their expectation suites again, "
        "and load every configuration as datasets does.",
    )
    parser.add_argument(
        "version", nargs="+", help="a version's directory, such as out/prosocial/v0001"
    )
    places = parse_place(parser, arguments).version
    reports = [validate_version(path, PUBLICATIONS) for path in places]
    for report in reports:
        for failure in report.failures:
            print(f"failed: {failure}")
        for warning in report.warnings:
            print(f"warning: {warning}")
        verdict = "sound" if report.success else f"{len(report.failures)} faults"
        print(f"{report.path}: {report.files} files, {report.suites} verdicts: {verdict}")
    return 0 if all(report.success for report in reports) else 1
