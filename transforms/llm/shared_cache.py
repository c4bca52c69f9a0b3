"""Caches: where one lies, and caches of other datasets that are read beneath one's own.

A folder of a cache holds the replies that one partition's items asked for. With other numbers of
partitions the same item has another folder: item keys that are ``p`` modulo ``P`` lie, modulo
``Q``, in the folders that are ``p`` modulo the greatest common divisor of ``P`` and ``Q``. Only
those are read; with the same number that is one folder, with 16 and 64 it is four, with coprime
ones all of them.
"""

from __future__ import annotations

import math
import threading
import weakref
from collections.abc import Sequence
from typing import Any, NamedTuple

from transforms.errors import InputError
from transforms.llm.cache import load_folder
from transforms.llm.folders import folder_path
from transforms.llm.records import Records
from transforms.publishing import storage

CACHE_NAME, DATASET_NAME = "cache", "dataset.json"


class SharedCache(NamedTuple):
    """A cache directory and the number of partitions that its folders stand for."""

    directory: str
    partitions: int


def find_cache(place: str) -> SharedCache:
    """Return the cache at ``place``, which is a dataset's directory or its cache's.

    Raises:
        InputError: there is none, or nothing tells its number of partitions.
    """
    place = place.rstrip("/") or place
    storage.check_filesystem(place)
    parent, _, name = place.rpartition("/")
    for dataset, directory in (
        (place, storage.join(place, CACHE_NAME)),
        (parent or ".", place),
    ):
        described = storage.join(dataset, DATASET_NAME)
        if (directory == place and name != CACHE_NAME) or not storage.exists(described):
            continue
        try:
            partitions: Any = storage.read_json(described)["settings"]["partitions"]
        except (ValueError, KeyError, TypeError):
            partitions = None
        if type(partitions) is not int or partitions < 1:
            raise InputError(f"{described} can't be read, which tells the cache's partitions")
        return SharedCache(directory, partitions)
    raise InputError(
        f"{place} is neither a dataset of remint's nor its {CACHE_NAME} directory: give the "
        f"directory that has {DATASET_NAME} in it (a copied cache needs a copy of that file, too)"
    )


def find_shared_caches(places: Sequence[str], own: str) -> tuple[SharedCache, ...]:
    """Return the caches at ``places``, which are to lie beneath the one at ``own``.

    Raises:
        InputError: one is not there, is named twice, or is the run's own.
    """
    found: list[SharedCache] = []
    for place in places:
        cache = find_cache(place)
        if cache.directory == own:
            raise InputError(f"--shared-cache {place} is this dataset's own cache: leave it out")
        if cache in found:
            raise InputError(f"--shared-cache {place} is named twice")
        found.append(cache)
    return tuple(found)


def shared_records(cache: SharedCache, partition: int, partitions: int) -> Records:
    """Return what ``cache`` may hold for the items of ``partition`` out of ``partitions``.

    Loaded once for all that are at work on it in this process.

    Raises:
        OSError: a segment can't be read.
    """
    divisor = math.gcd(cache.partitions, partitions)
    name = (cache, divisor, partition % divisor)
    with _loading:
        records = _loaded.get(name)
        if records is None:
            records = Records()
            for number in range(partition % divisor, cache.partitions, divisor):
                load_folder(folder_path(cache.directory, number), records)
            _loaded[name] = records
        return records


_loaded: weakref.WeakValueDictionary[tuple[SharedCache, int, int], Records] = (
    weakref.WeakValueDictionary()
)
_loading = threading.Lock()
