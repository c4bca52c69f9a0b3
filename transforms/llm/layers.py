"""Which caches a partition's items are answered from: one's own, and what lies beneath it."""

from __future__ import annotations

from functools import partial

from transforms.llm.cache import Layer, PartitionCache, load_folder
from transforms.llm.folders import folder_path
from transforms.llm.records import Records
from transforms.llm.settings import EngineSettings
from transforms.llm.shared_cache import shared_records


def layered_cache(settings: EngineSettings, partition: int) -> PartitionCache:
    """Return the cache of ``partition``: one's own over the shared ones in their order.

    In a run by batches what a batch refused lies beneath all: it answers with the refusal, and is
    not submitted again.
    """
    layers: list[Layer] = [
        partial(shared_records, cache, partition, settings.partitions)
        for cache in settings.shared_caches
    ]
    if settings.batch is not None:
        layers.append(partial(_refused, folder_path(settings.batch.refused, partition)))
    return PartitionCache(settings.cache, partition, layers)


def _refused(path: str) -> Records:
    records = Records()
    load_folder(path, records)
    return records
