"""Great Expectations, without working out the same configuration some seventy times a check.

``Expectation.configuration`` is a property that turns the expectation's fields into an
``ExpectationConfiguration``, and every metric of every check asks for it several times: a third of
what a suite takes. An expectation doesn't change while it is evaluated, so what was worked out
first is kept that long.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any


class _Kept(threading.local):
    """What this thread has worked out: by an expectation's identity, itself and the value."""

    configurations: dict[int, tuple[Any, Any]] | None = None


_kept = _Kept()
_lock = threading.Lock()


@contextlib.contextmanager
def kept_configurations() -> Iterator[None]:
    """Keep, in this thread, the configurations of expectations until the block ends."""
    _install()
    _kept.configurations = {}
    try:
        yield
    finally:
        _kept.configurations = None


def _install() -> None:
    """Put a property that looks for kept ones in the place of Great Expectations' own, once."""
    from great_expectations.expectations.expectation import Expectation

    with _lock:
        work_out = Expectation.configuration.fget
        if work_out.__module__ == __name__:
            return

        def configuration(self: Any) -> Any:
            kept = _kept.configurations
            if kept is None:
                return work_out(self)
            # The expectation is kept as well, so that its identity stays its own.
            found = kept.get(id(self))
            if found is None:
                found = kept[id(self)] = (self, work_out(self))
            return found[1]

        Expectation.configuration = property(configuration)
