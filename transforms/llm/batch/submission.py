"""Submitting: what is missing goes out in files that keep the endpoint's bounds."""

from __future__ import annotations

import logging
import time
import uuid
from collections.abc import Iterable, Iterator, Sequence

from transforms.errors import EndpointError
from transforms.llm.batch.endpoint import PATH, BatchEndpoint, BatchNotMadeError
from transforms.llm.batch.missing import MissingRequest
from transforms.llm.batch.records import BatchRecord, BatchRecords, BatchState, Requests
from transforms.llm.parsing import parse_json
from transforms.llm.settings import EngineSettings

#: Of OpenAI's batches: requests and bytes of an input file.
MOST_REQUESTS, MOST_BYTES = 50_000, 200_000_000
#: A batch that would have more tokens wait than the endpoint allows fails with this code.
QUEUE_FULL = "token_limit_exceeded"

logger = logging.getLogger("remint.batch")


def not_open(
    missing: Iterable[MissingRequest], known: Sequence[BatchRecord], records: BatchRecords
) -> dict[str, tuple[MissingRequest, list[int]]]:
    """Return by key what is missing and in no open batch, and the partitions that wait for it.

    A partition that waits for a request of an open batch is noted there.

    Raises:
        OSError: a record can't be read or written.
    """
    open_batches = [(record, records.requests(record)) for record in known if record.open]
    open_keys = {key: place for place, (_, keys) in enumerate(open_batches) for key in keys}
    changed: set[int] = set()
    found: dict[str, tuple[MissingRequest, list[int]]] = {}
    for request in missing:
        place = open_keys.get(request.key)
        if place is None:
            _, partitions = found.setdefault(request.key, (request, []))
        else:
            partitions = open_batches[place][1][request.key][1]
        if request.partition not in partitions:
            partitions.append(request.partition)
            if place is not None:
                changed.add(place)
    for place in sorted(changed):
        records.write_requests(*open_batches[place])
    return found


class BatchBudget:
    """What a run may submit by its ``max_calls`` and ``max_cost``, whichever endpoint it goes to.

    Each request is charged with the most that it can cost, like a call before it is sent (see
    ``transforms.llm.budget``). What a batch is cheaper by is the endpoint's affair.
    """

    def __init__(self, settings: EngineSettings) -> None:
        self._max_calls, self._max_cost = settings.max_calls, settings.max_cost
        self._prices = settings.prices()
        self._calls, self._spent = 0, 0.0

    def within(
        self, wanted: dict[str, tuple[MissingRequest, list[int]]]
    ) -> dict[str, tuple[MissingRequest, list[int]]]:
        """Return what of ``wanted`` may be submitted, and charge it; the rest is for others."""
        taken: dict[str, tuple[MissingRequest, list[int]]] = {}
        for key, (request, partitions) in sorted(wanted.items()):
            spent = self._spent + self._most(request.body)
            if self._max_calls is not None and self._calls >= self._max_calls:
                break
            if self._max_cost is not None and spent > self._max_cost:
                break
            self._calls, self._spent = self._calls + 1, spent
            taken[key] = request, partitions
        if len(taken) < len(wanted):
            left = len(wanted) - len(taken)
            logger.warning("%d requests are left: the budget is spent", left)
        return taken

    def _most(self, body: bytes) -> float:
        if self._max_cost is None:
            return 0.0
        request = parse_json(body)
        most = request.get("max_completion_tokens") or request.get("max_tokens") or 0
        tokens = int(most) * int(request.get("n") or 1)
        return self._prices[str(request.get("model"))].cost(len(body), tokens)


def plan(
    wanted: dict[str, tuple[MissingRequest, list[int]]],
    endpoint: str,
    known: Sequence[BatchRecord],
    records: BatchRecords,
) -> list[BatchRecord]:
    """Write the batches that are to be submitted now, and return them.

    Once a batch has failed because too much was waiting at the endpoint, batches of its model are
    submitted one at a time, and where even one alone was too much, with half as many requests.

    Raises:
        OSError: they can't be written.
    """
    by_model: dict[str, list[str]] = {}
    for key, (request, _) in sorted(wanted.items()):
        by_model.setdefault(str(parse_json(request.body).get("model")), []).append(key)
    planned = []
    for model, keys in sorted(by_model.items()):
        own = [record for record in known if record.model == model]
        is_open = any(record.open for record in own)
        full = [record for record in own if QUEUE_FULL in record.error_codes]
        most = min([MOST_REQUESTS, *(max(1, one.requests // 2) for one in full if one.alone)])
        if full and is_open:
            logger.warning("%d requests are left for when the open batches are done", len(keys))
            continue
        files = list(_files(keys, wanted, most))
        for lines, part in files[:1] if full else files:
            record = BatchRecord(
                name=uuid.uuid4().hex,
                endpoint=endpoint,
                model=model,
                requests=len(part),
                created=time.time(),
                alone=not is_open and (bool(full) or len(files) == 1),
            )
            records.plan(record, part, lines)
            planned.append(record)
    return planned


def _files(
    keys: Sequence[str], wanted: dict[str, tuple[MissingRequest, list[int]]], most: int
) -> Iterator[tuple[bytes, Requests]]:
    """Yield input files within the bounds, each with its requests."""
    lines: list[bytes] = []
    size = 0
    part: Requests = {}
    for key in keys:
        request, partitions = wanted[key]
        line = b'{"custom_id":"%b","method":"POST","url":"%b","body":%b}\n' % (
            key.encode(),
            PATH.encode(),
            request.body,
        )
        if lines and (len(lines) == most or size + len(line) > MOST_BYTES):
            yield b"".join(lines), part
            lines, size, part = [], 0, {}
        lines.append(line)
        size += len(line)
        part[key] = (request.prompt, partitions)
    if lines:
        yield b"".join(lines), part


def submit(record: BatchRecord, records: BatchRecords, endpoint: BatchEndpoint) -> BatchRecord:
    """Have the endpoint make a planned batch.

    Broken off anywhere it is found again by its record, which is there before the batch is, and by
    the name in the batch's metadata.

    Raises:
        EndpointError: it was refused, or no reply came and the endpoint does not list it.
        OSError: its files can't be read or written.
    """
    file = endpoint.upload(f"remint-{record.name}", records.input(record))
    record = records.save(record, input_file=file)
    try:
        batch = endpoint.create(record.name, file)
    except BatchNotMadeError:
        records.forget(record)
        raise
    except EndpointError:
        found = endpoint.find({record.name: file})
        if record.name not in found:
            raise
        batch = found[record.name]
    record = records.save(
        record, state=BatchState.SUBMITTED, batch_id=batch.id, status=batch.status
    )
    records.tidy(record)
    logger.info("batch %s: submitted, %d requests", record.batch_id, record.requests)
    return record
