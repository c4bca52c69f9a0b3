"""Work done ahead in threads: Polars, Arrow and disks let the interpreter go on meanwhile.

Beam's local runner works through a bundle one element at a time. These helpers keep its order and
its results, and let a second core work on the next element.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

import apache_beam as beam
from apache_beam.transforms.window import GlobalWindows

T = TypeVar("T")

#: After so long a thread that runs Python lets another one in. A call of Polars takes about a
#: millisecond; with the interpreter's own 5 ms the threads that make them would mostly wait.
SWITCH_SECONDS = 0.0005

_END: Any = object()


def threads(number: int, purpose: str) -> ThreadPoolExecutor:
    """Return so many threads for work that is not the interpreter's."""
    sys.setswitchinterval(SWITCH_SECONDS)
    return ThreadPoolExecutor(number, f"remint-{purpose}")


class Ahead(Iterator[T]):
    """``items``, which a thread begins to make at once and keeps so many of ahead.

    Whatever making them raises is raised here, behind the items that came before.
    """

    def __init__(self, items: Iterable[T], most: int) -> None:
        self._items = iter(items)
        self._thread = threads(1, "ahead")
        self._coming: deque[Future[T]] = deque()
        for _ in range(most):
            self._make_next()

    def _make_next(self) -> None:
        self._coming.append(self._thread.submit(next, self._items, _END))

    def __next__(self) -> T:
        """Return the next item."""
        item = self._coming.popleft().result() if self._coming else _END
        if item is _END:
            self._coming.clear()
            self._thread.shutdown()
            raise StopIteration
        self._make_next()
        return item


class MapAhead(beam.DoFn):  # type: ignore[misc]
    """Yields ``function(element)``, which a thread works out while the one before is taken on.

    For pure functions whose work is Polars'; the elements keep their order.
    """

    def __init__(self, function: Callable[[Any], Any]) -> None:
        super().__init__()
        self._function = function
        self._thread: ThreadPoolExecutor | None = None
        self._coming: deque[Future[Any]] = deque()

    def start_bundle(self) -> None:
        """Start with nothing in work."""
        self._coming.clear()

    def process(self, element: Any) -> Iterator[Any]:
        """Start with one element, and yield what the one before gave."""
        if self._thread is None:
            self._thread = threads(1, "map")
        self._coming.append(self._thread.submit(self._function, element))
        if len(self._coming) > 1:
            yield self._coming.popleft().result()

    def finish_bundle(self) -> Iterator[Any]:
        """Yield what is left."""
        while self._coming:
            yield GlobalWindows.windowed_value(self._coming.popleft().result())

    def teardown(self) -> None:
        """End the thread."""
        if self._thread is not None:
            self._thread.shutdown()
            self._thread = None
