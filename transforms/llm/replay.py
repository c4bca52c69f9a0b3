"""Replaying work from the cache: an item's coroutine driven by hand, without an event loop.

Nearly all items of a repeated run have all their answers in the cache. Their coroutines never have
to wait, so they are run to their end right where they are, some microseconds a call; only an item
that misses an answer is closed and handed to the event loop, where it replays its hits.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Generator, Sequence
from typing import Any, TypeVar

T = TypeVar("T")


class _Mode(threading.local):
    replaying = False


_mode = _Mode()


class Miss:
    """Awaited where an answer is not in the cache: gives control back to ``replay``."""

    def __await__(self) -> Generator[None, None, None]:
        """Suspend once."""
        yield


def replay(coroutine: Coroutine[Any, Any, T]) -> tuple[bool, T | None]:
    """Run ``coroutine`` as far as it gets without waiting; may be nested.

    Returns:
        Whether it came to its end, and its result; if it did not, it has been closed.

    Raises:
        Exception: whatever the coroutine raises.
    """
    before, _mode.replaying = _mode.replaying, True
    try:
        coroutine.send(None)
    except StopIteration as end:
        return True, end.value
    finally:
        _mode.replaying = before
        coroutine.close()
    return False, None


def is_replaying() -> bool:
    """Return whether this thread runs an item without an event loop, where nothing may wait."""
    return _mode.replaying


async def gather(*coroutines: Coroutine[Any, Any, T]) -> list[T]:
    """Return the results of ``coroutines``, run side by side; for work that makes calls at once.

    Unlike ``asyncio.gather`` it also works while an item is replayed, where one is run after the
    other, and a failure cancels the others instead of leaving them to make calls for nobody.
    """
    if _mode.replaying:
        return await _one_by_one(coroutines)
    tasks = [asyncio.ensure_future(coroutine) for coroutine in coroutines]
    try:
        return list(await asyncio.gather(*tasks))
    finally:
        for task in tasks:
            task.cancel()


async def _one_by_one(coroutines: Sequence[Coroutine[Any, Any, T]]) -> list[T]:
    results: list[T] = []
    failures: list[Exception] = []
    try:
        for coroutine in coroutines:
            try:
                results.append(await coroutine)
            except Exception as failure:  # of the work: raised below
                # The others still make their calls, which a batch is to have all together.
                failures.append(failure)
    finally:
        for coroutine in coroutines:
            coroutine.close()
    if failures:
        raise failures[0]
    return results
