"""A run by batches: collect what came, work through all items once, submit what they miss."""

from __future__ import annotations

import logging
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace

from transforms.errors import EndpointError
from transforms.llm.batch.collecting import collect, settle_planned
from transforms.llm.batch.endpoint import BatchEndpoint
from transforms.llm.batch.missing import read_missing
from transforms.llm.batch.records import BatchRecord, BatchRecords, BatchState
from transforms.llm.batch.submission import BatchBudget, note_waiting, plan, submit
from transforms.llm.settings import BatchPlaces, EngineSettings
from transforms.publishing import storage

REFUSED, MISSING = "refused", "missing"

logger = logging.getLogger("remint.batch")


@contextmanager
def batch_cycle(settings: EngineSettings, directory: str) -> Iterator[EngineSettings]:
    """Yield settings under which a run makes no call, and have the missing ones made in batches.

    Before, what earlier runs' batches have answered is brought into the cache. A run that raises
    submits nothing.

    Args:
        settings: of the run.
        directory: where the dataset's batches are kept.

    Raises:
        EndpointError: an endpoint has no batches, can't be asked, or refused one.
        OutputError: what is known of the batches can't be read.
        OSError: something can't be read or written.
    """
    records = BatchRecords(directory)
    run = storage.join(directory, MISSING, uuid.uuid4().hex)
    refused = storage.join(directory, REFUSED)
    places: dict[str, BatchPlaces] = {}
    with ExitStack() as stack:
        endpoints: dict[str, tuple[EngineSettings, BatchEndpoint]] = {}
        for each in settings.endpoints:  # several models may be one endpoint's
            if each.endpoint not in endpoints:
                endpoint = stack.enter_context(closing(BatchEndpoint(each, each.api_key())))
                endpoint.check()
                missing = storage.join(run, str(len(places)))
                places[each.endpoint] = BatchPlaces(missing, refused)
                endpoints[each.endpoint] = each, endpoint
        collected: Counter[str] = Counter()
        known = {
            name: _collected(own, records, endpoint, places[name], collected)
            for name, (own, endpoint) in endpoints.items()
        }
        storage.remove_tree(storage.join(directory, MISSING))  # of broken-off runs, noted by now
        further = tuple(replace(each, batch=places[each.endpoint]) for each in settings.further)
        own_places = places[settings.endpoint]._replace(collected=tuple(sorted(collected.items())))
        yield replace(settings, batch=own_places, further=further)
        budget = BatchBudget(settings)
        for name, (own, endpoint) in endpoints.items():
            _submit(own, places[name], known[name], records, endpoint, budget)


def _collected(
    settings: EngineSettings,
    records: BatchRecords,
    endpoint: BatchEndpoint,
    places: BatchPlaces,
    collected: Counter[str],
) -> list[BatchRecord]:
    """Return the endpoint's batches after what is done was collected."""
    own = [record for record in records.load() if record.endpoint == settings.endpoint]
    planned = [record for record in own if record.state is BatchState.PLANNED]
    known = [record for record in own if record.state is not BatchState.PLANNED]
    known += settle_planned(planned, records, endpoint)
    # Before anything is collected: an answer goes to the partitions that are noted, to no other.
    note_waiting(read_missing(storage.join(records.directory, MISSING)), known, records)
    return [
        collect(record, records, endpoint, settings.cache, places, collected)
        if record.open
        else record
        for record in known
    ]


def _submit(
    settings: EngineSettings,
    places: BatchPlaces,
    known: list[BatchRecord],
    records: BatchRecords,
    endpoint: BatchEndpoint,
    budget: BatchBudget,
) -> None:
    missing = read_missing(places.missing)
    submitted: list[BatchRecord] = []
    try:
        for record in plan(missing, settings.endpoint, known, records, budget):
            submitted.append(submit(record, records, endpoint))
    except EndpointError as error:
        raise EndpointError(
            f"{error}; {len(submitted)} batches are submitted, the next one and what is left are "
            "not: run again"
        ) from None
    storage.remove_tree(places.missing)
    is_open = [record for record in (*known, *submitted) if record.open]
    if is_open:
        logger.info(
            "%d batches with %d requests are open, %d of them new; run again to collect them",
            len(is_open),
            sum(record.requests for record in is_open),
            len(submitted),
        )
