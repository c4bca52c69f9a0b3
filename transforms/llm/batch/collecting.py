"""Collecting: what the endpoint has done since, brought into the cache."""

from __future__ import annotations

import json
import logging
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from transforms.errors import EndpointError
from transforms.llm import statistics
from transforms.llm.answers import PAID, classify
from transforms.llm.batch.endpoint import BatchEndpoint, EndpointBatch
from transforms.llm.batch.records import RECORD, BatchRecord, BatchRecords, BatchState, Requests
from transforms.llm.cache import PartitionCache
from transforms.llm.calls import CallClass
from transforms.llm.settings import BatchPlaces

logger = logging.getLogger("remint.batch")

#: Seconds before each attempt at finding a batch: what is just made may not be listed at once.
LISTING_PAUSES = (0.0, 2.0, 8.0)

ANSWERED, REFUSED, UNANSWERED = "answered", "refused", "unanswered"
PROMPT_TOKENS, COMPLETION_TOKENS = "prompt_tokens", "completion_tokens"
#: By what name the counts of batches go into a run's.
_COUNTED = {
    ANSWERED: statistics.BATCHED,
    PROMPT_TOKENS: statistics.PROMPT_TOKENS,
    COMPLETION_TOKENS: statistics.COMPLETION_TOKENS,
}


def settle_planned(
    planned: list[BatchRecord], records: BatchRecords, endpoint: BatchEndpoint
) -> list[BatchRecord]:
    """Find out what became of batches that a broken-off run was about to submit.

    Returns:
        Those that the endpoint has; the others are forgotten, and their requests are missing again.

    Raises:
        EndpointError: the endpoint can't be asked.
    """
    wanted = {record.name: record.input_file for record in planned if record.input_file}
    found: dict[str, EndpointBatch] = {}
    for pause in LISTING_PAUSES:
        if len(found) < len(wanted):
            time.sleep(pause)
            found = endpoint.find(wanted)
    settled = []
    for record in planned:
        if record.name in found:
            batch = found[record.name]
            record = records.save(
                record, state=BatchState.SUBMITTED, batch_id=batch.id, status=batch.status
            )
            records.tidy(record)
            settled.append(record)
        else:
            records.forget(record)
    return settled


def collect(
    record: BatchRecord,
    records: BatchRecords,
    endpoint: BatchEndpoint,
    cache: str,
    places: BatchPlaces,
    collected: Counter[str],
) -> BatchRecord:
    """Bring what a submitted batch has answered into the cache, if the endpoint is done with it.

    May be broken off and done again: what is in the cache is not put there twice.

    Args:
        record: the batch.
        records: where it is kept.
        endpoint: where it was submitted.
        cache: the dataset's cache.
        places: where to keep requests that were refused.
        collected: what was collected, as ``BatchPlaces`` has it, is added to it.

    Raises:
        EndpointError: the endpoint can't be asked, or has lost the batch or its files.
        OSError: something can't be read or written.
    """
    try:
        batch = endpoint.retrieve(record.batch_id)
        if not batch.done:
            logger.info(
                "batch %s: %s, %d of %d answered",
                record.batch_id,
                batch.status,
                batch.completed,
                record.requests,
            )
            return records.save(record, status=batch.status)
        by_prompt = _bring(
            list(_replies(batch, endpoint)), records.requests(record), cache, places.refused
        )
    except EndpointError as error:
        raise EndpointError(
            f"{error}; batch {record.batch_id} is not lost: run again, with the key it was "
            f"submitted under; if the endpoint has it no longer, remove "
            f"{records.place(record.name, RECORD)} to submit its requests once more"
        ) from None
    for prompt, each in by_prompt.items():
        for name, counted in _COUNTED.items():
            collected[counted] += each[name]
            collected[statistics.of_prompt(f"{prompt} {record.model}", counted)] += each[name]
    counts = Counter(dict.fromkeys((ANSWERED, REFUSED, PROMPT_TOKENS, COMPLETION_TOKENS), 0))
    for each in by_prompt.values():
        counts.update(each)
    counts[UNANSWERED] = record.requests - counts[ANSWERED] - counts[REFUSED]
    record = records.save(
        record,
        state=BatchState.COLLECTED,
        status=batch.status,
        error_codes=batch.error_codes,
        counts=dict(counts),
    )
    records.tidy(record)
    logger.log(
        logging.WARNING if batch.status == "failed" else logging.INFO,
        "batch %s: %s%s; %d answered, %d refused, %d without an answer; %d tokens in, %d out",
        record.batch_id,
        batch.status,
        f" ({', '.join(batch.error_codes)})" if batch.error_codes else "",
        counts[ANSWERED],
        counts[REFUSED],
        counts[UNANSWERED],
        counts[PROMPT_TOKENS],
        counts[COMPLETION_TOKENS],
    )
    return record


def _replies(batch: EndpointBatch, endpoint: BatchEndpoint) -> Iterator[tuple[str, int, str]]:
    """Yield key, HTTP status and body of what was replied; an expired request has no reply."""
    for file in (batch.output, batch.errors):
        if file is None:
            continue
        for line in endpoint.lines(file):
            response: Any = line.get("response")
            if isinstance(response, Mapping) and isinstance(response.get("status_code"), int):
                body = response.get("body")
                text = body if isinstance(body, str) else json.dumps(body)
                yield str(line.get("custom_id")), response["status_code"], text


def _bring(
    replies: list[tuple[str, int, str]], requests: Requests, cache: str, refused: str
) -> dict[str, Counter[str]]:
    """Put replies where the partitions that wait find them; return what each prompt's came to."""
    by_prompt: dict[str, Counter[str]] = {}
    by_place: dict[tuple[str, int], list[tuple[str, int, str]]] = {}
    seen: set[str] = set()
    for key, status, body in replies:
        # Whether its prompt's schema allows the answer is seen when it is used.
        verdict = classify(status, body, lambda data: None)
        if key not in requests or key in seen:
            continue
        counts = by_prompt.setdefault(requests[key][0], Counter())
        counts[PROMPT_TOKENS] += verdict.prompt_tokens
        counts[COMPLETION_TOKENS] += verdict.completion_tokens
        if verdict.call_class in PAID:
            directory = cache
            counts[ANSWERED] += 1
        elif verdict.call_class is CallClass.REQUEST or verdict.is_unreadable:
            # Submitted again it would be paid for again, on every run.
            directory = refused
            counts[REFUSED] += 1
        else:
            continue
        seen.add(key)
        for partition in requests[key][1]:
            by_place.setdefault((directory, partition), []).append((key, status, body))
    for (directory, partition), found in sorted(by_place.items()):
        partition_cache = PartitionCache(directory, partition)
        partition_cache.load()
        for key, status, body in found:
            if key not in partition_cache:
                partition_cache.put(key, requests[key][0], status, body)
        partition_cache.close()
    return by_prompt
