"""The engine: one event loop per process that works on the items of many partitions at once.

The unit of work is an item (one key): a coroutine that makes as many dependent calls as it needs.
There is no barrier, neither of batches nor of partitions: a slow answer holds up its own item.
"""

from __future__ import annotations

import asyncio
import atexit
import concurrent.futures
import functools
import gc
import os
import threading
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar, cast

from transforms.llm.admission import Admission, AdmissionChain
from transforms.llm.batch.missing import MissingCalls
from transforms.llm.budget import Budgets
from transforms.llm.cache import PartitionCache
from transforms.llm.calling import EndpointCalls
from transforms.llm.client import Client
from transforms.llm.job import Job, KeyOf, Work
from transforms.llm.lanes import lane_of, share
from transforms.llm.layers import layered_cache
from transforms.llm.limits import Limits
from transforms.llm.replay import replay
from transforms.llm.routing import Routing
from transforms.llm.settings import EngineSettings
from transforms.llm.statistics import KEYS, KEYS_BEGUN, PARTITIONS_BEGUN, statistics
from transforms.llm.worker_reports import WorkerReport

T = TypeVar("T")
R = TypeVar("R")

#: Items of a lane that are started at once, as a multiple of its calls that may be in flight:
#: enough that none of the places stays empty while items work, few enough that a partition of
#: 100,000 items is not 100,000 tasks.
ITEMS_PER_CALL = 2


class Engine:
    """Works on the items of partitions; made by ``engine``, closed when the process ends."""

    def __init__(self, settings: EngineSettings, api_keys: Sequence[str]) -> None:
        self._settings = settings
        self._routing = Routing(settings)
        limited = {each.limits: each for each in settings.endpoints}
        admissions = _admissions(settings, limited)
        self._calls = [
            EndpointCalls(each, Client(each, key), admissions[each.limits])
            for each, key in zip(settings.endpoints, api_keys, strict=True)
        ]
        self._bounds = [
            ITEMS_PER_CALL * sum(share(lane, each).concurrency for each in limited.values())
            for lane in range(settings.lane_count)
        ]
        self._started = [0 for _ in self._bounds]
        self._queues: list[deque[tuple[Job[Any, Any], int]]] = [deque() for _ in self._bounds]
        self._closing = False
        self._jobs: set[Job[Any, Any]] = set()
        self._caches: dict[int, tuple[PartitionCache, int]] = {}
        self._report = WorkerReport(settings.work)
        self._lock = threading.Lock()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="remint-calls", daemon=True
        )
        # What is there by now (Beam alone is some 100 MB) stays: collecting it again and again
        # would cost more than the calls do.
        gc.collect()
        gc.freeze()
        self._thread.start()

    def submit(
        self,
        partition: int,
        items: Sequence[T],
        work: Work[T, R],
        counts: Counter[str] | None = None,
        key_of: KeyOf[T] = str,
    ) -> concurrent.futures.Future[list[R]]:
        """Work on ``items`` of ``partition`` and return the future of the results, in their order.

        Items whose calls are all in the cache are done when this returns. An exception of ``work``
        is a fault of the program: it ends the job's other items and is what the future raises.
        ``counts`` is filled with what the job's calls came to (see ``transforms.llm.statistics``),
        and is complete when the future is done. ``key_of`` returns an item's key, by which
        endpoints share the items. Safe to call from several threads.
        """
        job = Job(partition, items, work, self._acquire(partition), Counter(), key_of)
        if counts is not None:
            job.counts = counts
        try:
            job.cache.load()
            missing = self._replay(job) if self._settings.batch is None else self._take_down(job)
        except Exception as error:  # of whatever kind: it belongs to who waits for the future
            self._release(partition)
            job.future.set_exception(error)
            return job.future
        begun = {KEYS_BEGUN: len(items), PARTITIONS_BEGUN: 1}
        if self._settings.batch is None:
            statistics.add({**job.counts, **begun})
        else:  # whose calls were counted one by one
            statistics.add({KEYS: len(items), **begun})
        if missing:
            job.missing = len(missing)
            self._report.begin()
            self._loop.call_soon_threadsafe(self._enqueue, job, missing)
        else:
            self._release(partition)
            job.future.set_result(cast("list[R]", job.results))
        return job.future

    def _replay(self, job: Job[Any, Any]) -> list[int]:
        if not len(job.cache):
            return list(range(len(job.items)))
        missing = []
        for index in range(len(job.items)):
            counts: Counter[str] = Counter()
            done, result = replay(job.coroutine(index, None, self._routing, counts))
            if done:
                job.results[index] = result
                # Of an item that misses an answer, the hits are counted when it is worked on.
                for name, number in counts.items():
                    job.counts[name] += number
            else:
                missing.append(index)
        job.counts[KEYS] += len(job.items) - len(missing)
        return missing

    def _take_down(self, job: Job[Any, Any]) -> list[int]:
        """Work through all items without a call, and write down which ones they miss."""
        calls = [MissingCalls() for _ in self._settings.endpoints]
        for index in range(len(job.items)):
            coroutine = job.coroutine(index, calls, self._routing, job.counts)
            done, job.results[index] = replay(coroutine)
            if not done:
                raise RuntimeError("an item waits for something else than its calls")
        for each, missing in zip(self._settings.endpoints, calls, strict=True):
            assert each.batch is not None  # noqa: S101 - tells the type checker
            missing.write(each.batch.missing, job.partition)
        job.counts[KEYS] += len(job.items)
        return []

    def _enqueue(self, job: Job[Any, Any], missing: list[int]) -> None:
        def abandon(future: concurrent.futures.Future[Any]) -> None:
            if future.cancelled() and not self._loop.is_closed():
                self._loop.call_soon_threadsafe(self._abandon, job)

        job.future.add_done_callback(abandon)
        self._jobs.add(job)
        lane = lane_of(job.partition, self._settings.lane_count)
        self._queues[lane].extend((job, index) for index in missing)
        self._start(lane)

    def _start(self, lane: int) -> None:
        queue = self._queues[lane]
        while queue and self._started[lane] < self._bounds[lane]:
            job, index = queue.popleft()
            if job.over:
                continue
            task = self._loop.create_task(
                job.coroutine(index, self._calls, self._routing, job.counts)
            )
            self._started[lane] += 1
            job.tasks.add(task)
            task.add_done_callback(functools.partial(self._ended, job, index))

    def _ended(self, job: Job[Any, Any], index: int, task: asyncio.Task[Any]) -> None:
        lane = lane_of(job.partition, self._settings.lane_count)
        self._started[lane] -= 1
        job.tasks.discard(task)
        if not task.cancelled():
            error = task.exception()
            if error is not None:
                self._finish(job, error)
            else:
                job.results[index] = task.result()
                job.missing -= 1
                job.counts[KEYS] += 1
                statistics.add({KEYS: 1})
                if not job.missing:
                    self._finish(job, None)
        elif not job.over:
            self._finish(job, RuntimeError("an item was cancelled from within its work"))
        self._start(lane)

    def _abandon(self, job: Job[Any, Any]) -> None:
        self._finish(job, concurrent.futures.CancelledError())

    def _finish(self, job: Job[Any, Any], error: BaseException | None) -> None:
        if job.over:
            return
        job.over = True
        self._jobs.discard(job)
        for task in job.tasks:
            task.cancel()
        if self._closing:
            self._settle(job, error)
        else:
            # Closing the cache may write the rest of a segment to an object store.
            threading.Thread(target=self._settle, args=(job, error)).start()

    def _settle(self, job: Job[Any, Any], error: BaseException | None) -> None:
        try:
            try:
                self._release(job.partition)
            finally:
                self._report.end()
        except Exception as fault:  # of whatever kind: who waits for the future must be told
            error = error or fault
        if not job.future.set_running_or_notify_cancel():
            return
        if error is None:
            job.future.set_result(job.results)
        else:
            job.future.set_exception(error)

    def _acquire(self, partition: int) -> PartitionCache:
        with self._lock:
            cache, users = self._caches.get(partition, (None, 0))
            if cache is None:
                cache = layered_cache(self._settings, partition)
            self._caches[partition] = cache, users + 1
            return cache

    def _release(self, partition: int) -> None:
        with self._lock:
            cache, users = self._caches[partition]
            if users > 1:
                self._caches[partition] = cache, users - 1
                return
            del self._caches[partition]
        cache.close()

    def close(self) -> None:
        """Break off what is in work, close the connections and end the loop."""
        if self._thread.is_alive():
            asyncio.run_coroutine_threadsafe(self._wind_up(), self._loop).result()
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
        self._loop.close()
        self._report.close()

    async def _wind_up(self) -> None:
        self._closing = True
        tasks = [task for job in self._jobs for task in job.tasks]
        for job in list(self._jobs):
            self._abandon(job)
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._loop.shutdown_default_executor()  # which may be writing down a lease
        for each in self._calls:
            await each.close()


def _admissions(
    settings: EngineSettings, limited: Mapping[int, EngineSettings]
) -> dict[int, Admission]:
    """Return the admission to each of the ``limited`` endpoints: one budget is over all."""
    limits = {number: Limits(each) for number, each in limited.items()}
    if settings.max_calls is None and settings.max_cost is None:
        return {**limits}
    budgets = Budgets(settings)
    return {number: AdmissionChain(budgets, each) for number, each in limits.items()}


_engines: dict[EngineSettings, Engine] = {}
_engines_lock = threading.Lock()


def engine(settings: EngineSettings) -> Engine:
    """Return this process's engine for ``settings``, making it where there is none yet.

    Raises:
        EndpointError: this process can't read the endpoint's key, which the run has.
    """
    with _engines_lock:
        found = _engines.get(settings)
        if found is None:
            found = Engine(settings, [each.api_key() for each in settings.endpoints])
            _engines[settings] = found
        return found


def close_engines() -> None:
    """Close the engines of this process; the next use makes new ones."""
    with _engines_lock:
        engines = list(_engines.values())
        _engines.clear()
    for each in engines:
        each.close()


def _forget_engines() -> None:
    """In a forked child: the loops' threads stayed behind, so do the engines."""
    global _engines_lock
    _engines_lock = threading.Lock()
    _engines.clear()


atexit.register(close_engines)
os.register_at_fork(after_in_child=_forget_engines)
