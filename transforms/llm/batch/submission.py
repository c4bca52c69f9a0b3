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
from transforms.llm.request import answer_bound
from transforms.llm.settings import EngineSettings

#: Of OpenAI's batches: requests and bytes of an input file.
MOST_REQUESTS, MOST_BYTES = 50_000, 200_000_000
#: A batch that would have more tokens wait than the endpoint allows fails with this code.
QUEUE_FULL = "token_limit_exceeded"

logger = logging.getLogger("remint.batch")


class BatchBudget:
    """What a run may submit by its ``max_calls`` and ``max_cost``, whichever endpoint it goes to.

    Each request is charged with the most that it can cost, like a call before it is sent (see
    ``transforms.llm.budget``). What a batch is cheaper by is the endpoint's affair.
    """

    def __init__(self, settings: EngineSettings) -> None:
        self._max_calls, self._max_cost = settings.max_calls, settings.max_cost
        self._prices = settings.prices()
        self._calls, self._spent, self._is_spent = 0, 0.0, False

    def takes(self, body: bytes) -> bool:
        """Return whether a request may be submitted, and charge it; after the first not, none."""
        spent = self._spent + self._most(body)
        self._is_spent = (
            self._is_spent
            or (self._max_calls is not None and self._calls >= self._max_calls)
            or (self._max_cost is not None and spent > self._max_cost)
        )
        if not self._is_spent:
            self._calls, self._spent = self._calls + 1, spent
        return not self._is_spent

    def _most(self, body: bytes) -> float:
        if self._max_cost is None:
            return 0.0
        request = parse_json(body)
        tokens = answer_bound(request) * int(request.get("n") or 1)
        return self._prices[str(request.get("model"))].cost(len(body), tokens)


class _Files:
    """The input files of one model: the one that is being filled, and which may be.

    Once a batch has failed because too much was waiting at the endpoint, batches of its model are
    submitted one at a time, and where even one alone was too much, with half as many requests.
    """

    def __init__(self, model: str, known: Sequence[BatchRecord]) -> None:
        own = [record for record in known if record.model == model]
        full = [record for record in own if QUEUE_FULL in record.error_codes]
        self._model = model
        self._is_open = any(record.open for record in own)
        self._one_at_a_time = bool(full)
        self._most = min([MOST_REQUESTS, *(max(1, one.requests // 2) for one in full if one.alone)])
        self._made = 0
        self._lines: list[bytes] = []
        self._size = 0
        self.name = uuid.uuid4().hex
        self.part: Requests = {}

    def must_wait(self, line: bytes) -> bool:
        """Return whether ``line`` is for a run when the endpoint is done with what it has."""
        return self._one_at_a_time and (self._is_open or not self.has_room(line))

    def has_room(self, line: bytes) -> bool:
        """Return whether ``line`` may go into the file that is being filled."""
        fits = len(self._lines) < self._most and self._size + len(line) <= MOST_BYTES
        return fits or not self._lines

    def add(self, line: bytes, request: MissingRequest) -> None:
        """Put a request into the file that is being filled."""
        self._lines.append(line)
        self._size += len(line)
        self.part[request.key] = (request.prompt, [request.partition])

    def planned(self, endpoint: str, records: BatchRecords, *, last: bool) -> BatchRecord:
        """Write the batch of the file that is filled, and begin another one."""
        only = self._one_at_a_time or (last and not self._made)
        record = BatchRecord(
            name=self.name,
            endpoint=endpoint,
            model=self._model,
            requests=len(self.part),
            created=time.time(),
            alone=only and not self._is_open,
        )
        records.plan(record, self.part, b"".join(self._lines))
        self._made += 1
        self._lines, self._size, self.part, self.name = [], 0, {}, uuid.uuid4().hex
        return record


class _Waiting:
    """Which partitions wait for the requests of batches that are open or just planned.

    Of each request its batch and first partition are known; what else waits is noted in the end,
    for it is rare: texts of different partitions with the same question.
    """

    def __init__(self, known: Sequence[BatchRecord], records: BatchRecords) -> None:
        self._records = records
        self._places: dict[bytes, tuple[str, int]] = {}
        self._few: dict[tuple[str, int], tuple[str, int]] = {}  # many requests have one place
        self._noted: dict[str, dict[str, list[int]]] = {}
        for record in known:
            if record.open:
                for key, (_, partitions) in records.requests(record).items():
                    self.add(key, record.name, partitions[0])

    def add(self, key: str, batch: str, partition: int) -> None:
        """Take note of a request that is in the batch called ``batch``."""
        place = batch, partition
        self._places[bytes.fromhex(key)] = self._few.setdefault(place, place)

    def has(self, request: MissingRequest) -> bool:
        """Return whether a request is in a batch; its partition then waits for that."""
        place = self._places.get(bytes.fromhex(request.key))
        if place is None:
            return False
        batch, partition = place
        if request.partition != partition:
            noted = self._noted.setdefault(batch, {})
            noted.setdefault(request.key, []).append(request.partition)
        return True

    def write(self, known: Iterable[BatchRecord]) -> None:
        """Write into the records which further partitions wait.

        For a run that is broken off before, the next one does it: see ``note_waiting``.
        """
        for record in known:
            requests = self._records.requests(record) if record.name in self._noted else {}
            changed = False
            for key, further in self._noted.get(record.name, {}).items():
                partitions = requests[key][1]
                new = [each for each in dict.fromkeys(further) if each not in partitions]
                partitions += new
                changed = changed or bool(new)
            if changed:
                self._records.write_requests(record, requests)


def note_waiting(
    missing: Iterable[MissingRequest], known: Sequence[BatchRecord], records: BatchRecords
) -> None:
    """Note at the open batches of ``known`` which partitions wait for them.

    Args:
        missing: what runs missed that were broken off while they submitted it.
        known: the batches, of which none was collected since.
        records: where they are kept.

    Raises:
        OSError: something can't be read or written.
    """
    waiting: _Waiting | None = None
    for request in missing:
        waiting = waiting or _Waiting(known, records)  # which reads all their requests
        waiting.has(request)
    if waiting is not None:
        waiting.write(known)


def plan(
    missing: Iterable[MissingRequest],
    endpoint: str,
    known: Sequence[BatchRecord],
    records: BatchRecords,
    budget: BatchBudget,
) -> Iterator[BatchRecord]:
    """Write the batches that are to be submitted now, and yield each as soon as it is full.

    So never more is held than one file of each model. What is in an open batch is not submitted
    again; a partition that waits for it is noted there.

    Args:
        missing: what the run misses, by partition.
        endpoint: what the endpoint is known by.
        known: its batches.
        records: where they are kept.
        budget: what may be submitted.

    Raises:
        OSError: something can't be read or written.
    """
    waiting = _Waiting(known, records)
    files: dict[str, _Files] = {}
    planned: list[BatchRecord] = []
    too_early = too_dear = 0
    for request in missing:
        if waiting.has(request):
            continue
        model = str(parse_json(request.body).get("model"))
        own = files.get(model) or files.setdefault(model, _Files(model, known))
        line = b'{"custom_id":"%b","method":"POST","url":"%b","body":%b}\n' % (
            request.key.encode(),
            PATH.encode(),
            request.body,
        )
        if own.must_wait(line):
            too_early += 1
        elif not budget.takes(request.body):
            too_dear += 1
        else:
            if not own.has_room(line):
                planned.append(own.planned(endpoint, records, last=False))
                yield planned[-1]
            own.add(line, request)
            waiting.add(request.key, own.name, request.partition)
    for _, own in sorted(files.items()):
        if own.part:
            planned.append(own.planned(endpoint, records, last=True))
            yield planned[-1]
    waiting.write([*known, *planned])
    if too_early:
        logger.warning("%d requests are left for when the open batches are done", too_early)
    if too_dear:
        logger.warning("%d requests are left: the budget is spent", too_dear)


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
