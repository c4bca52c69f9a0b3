"""Unreadable rows: those that pass through a reader as rows, to be rejected in their places."""

from __future__ import annotations

from pipelines.metricinstruct.sources.source import Rejected, Row
from pipelines.metricinstruct.sources.values import Unusable
from transforms.reading.decode import printable

#: Field under which a row that can't be read carries why it is rejected, and its text.
FAULT = "\0fault"


def unreadable(path: str, line: int, fault: Unusable, text: str) -> Row:
    """Return the row on ``line``, which can't be read, with the single field ``FAULT``."""
    rejected = Rejected(fault.rule, fault.field, fault.value)
    return Row({FAULT: (rejected, printable(text))}, path, line)
