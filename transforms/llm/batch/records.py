"""What is known of a dataset's batches, in files beside its cache.

    <batches>/<name>.json             the batch: how far it is, and where
    <batches>/<name>.requests.json    its requests: key to prompt's id and partitions
    <batches>/<name>.input.jsonl      its input file, until the endpoint has it

The record is written before anything is sent, and again with the input file's id before the batch
is made, whose metadata has the record's name: a run that finds a planned record asks the endpoint,
by either, whether that batch was made after all.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from enum import Enum
from typing import Any

from transforms.errors import OutputError
from transforms.publishing import storage

FORMAT_VERSION = 1
RECORD, REQUESTS, INPUT = ".json", ".requests.json", ".input.jsonl"

#: Of each key the prompt's id, and the partitions that wait for the answer.
Requests = dict[str, tuple[str, list[int]]]


class BatchState(str, Enum):
    """How far a batch is."""

    PLANNED = "planned"  # its files are written, perhaps more
    SUBMITTED = "submitted"  # the endpoint has it
    COLLECTED = "collected"  # the endpoint is done with it, and what it answered is in the cache


@dataclass(frozen=True)
class BatchRecord:
    """A batch.

    Attributes:
        name: its own, which it also has in its metadata at the endpoint.
        endpoint: what the endpoint is known by, see ``EngineSettings``.
        model: the one model of all its requests.
        requests: how many these are.
        created: when it was planned, seconds since 1970.
        alone: no other batch of the model was open when it was planned.
        state: how far it is.
        input_file: the endpoint's id of its input file; "" before it is uploaded, so that no batch
            can have been made.
        batch_id: the endpoint's name for it; "" before it is submitted.
        status: what the endpoint last said of it.
        error_codes: why it failed as a whole.
        counts: of its requests, once collected: answered, refused, unanswered; and the tokens of
            all that were replied to, as the endpoint counted them.
    """

    name: str
    endpoint: str
    model: str
    requests: int
    created: float
    alone: bool
    state: BatchState = BatchState.PLANNED
    input_file: str = ""
    batch_id: str = ""
    status: str = ""
    error_codes: tuple[str, ...] = ()
    counts: Mapping[str, int] = field(default_factory=dict)

    @property
    def open(self) -> bool:
        """Whether answers may still come."""
        return self.state is BatchState.SUBMITTED


class BatchRecords:
    """The records below a directory.

    Reading and writing raise OSError where that fails.
    """

    def __init__(self, directory: str) -> None:
        self.directory = directory

    def place(self, name: str, ending: str) -> str:
        """Return the path of a batch's file."""
        return storage.join(self.directory, name + ending)

    def load(self) -> list[BatchRecord]:
        """Return all records, the oldest first.

        Files that no record stands for are removed: their batch was never planned to the end.

        Raises:
            OutputError: a record can't be read.
        """
        names = [name for name in storage.files_below(self.directory) if "/" not in name]
        records = []
        for name in names:
            if name.endswith(".begun"):  # of a run that was killed while it wrote
                storage.remove_file(storage.join(self.directory, name))
            if name.endswith(RECORD) and not name.endswith(REQUESTS):
                records.append(_record(storage.join(self.directory, name)))
        known = {record.name for record in records}
        for name in names:
            for ending in (REQUESTS, INPUT):
                if name.endswith(ending) and name.removesuffix(ending) not in known:
                    storage.remove_file(storage.join(self.directory, name))
        return sorted(records, key=lambda record: (record.created, record.name))

    def plan(self, record: BatchRecord, requests: Requests, data: bytes) -> None:
        """Write a new batch: last its record, from which on it exists."""
        storage.write_bytes(self.place(record.name, INPUT), data, durable=True)
        self.write_requests(record, requests)
        self.save(record)

    def save(self, record: BatchRecord, **changes: Any) -> BatchRecord:
        """Write ``record`` with ``changes`` and return it."""
        record = replace(record, **changes)
        content = {"format_version": FORMAT_VERSION, **asdict(record)}
        place = self.place(record.name, RECORD)
        storage.write_bytes(place, storage.json_bytes(content), durable=True)
        return record

    def input(self, record: BatchRecord) -> bytes:
        """Return the input file of a planned batch."""
        return storage.read_bytes(self.place(record.name, INPUT))

    def requests(self, record: BatchRecord) -> Requests:
        """Return the requests of a batch that is not collected."""
        found = storage.read_json(self.place(record.name, REQUESTS))
        return {key: (prompt, partitions) for key, (prompt, partitions) in found.items()}

    def write_requests(self, record: BatchRecord, requests: Requests) -> None:
        """Write the requests of a batch."""
        place = self.place(record.name, REQUESTS)
        storage.write_bytes(place, storage.json_bytes(requests), durable=True)

    def forget(self, record: BatchRecord) -> None:
        """Remove a batch that was never submitted."""
        for ending in (RECORD, REQUESTS, INPUT):
            storage.remove_file(self.place(record.name, ending))

    def tidy(self, record: BatchRecord) -> None:
        """Remove what the batch needs no more in its state."""
        storage.remove_file(self.place(record.name, INPUT))
        if record.state is BatchState.COLLECTED:
            storage.remove_file(self.place(record.name, REQUESTS))


def _record(path: str) -> BatchRecord:
    try:
        content = storage.read_json(path)
        if content.pop("format_version") != FORMAT_VERSION:
            raise ValueError("another version")
        content["state"] = BatchState(content["state"])
        content["error_codes"] = tuple(content["error_codes"])
        return BatchRecord(**content)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise OutputError(
            f"{path} can't be read, which tells of a batch that was paid for: restore it, or "
            "remove it to have its requests submitted once more"
        ) from error
