"""A job: what the engine knows of one partition's items while it works on them."""

from __future__ import annotations

import asyncio
import concurrent.futures
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from transforms.llm.cache import PartitionCache
from transforms.llm.calling import Calls
from transforms.llm.calls import Caller
from transforms.llm.item_caller import ItemCaller
from transforms.llm.request import RequestForms
from transforms.llm.routing import Routing

T = TypeVar("T")
R = TypeVar("R")

Work = Callable[[T, Caller], Coroutine[Any, Any, R]]
KeyOf = Callable[[T], str]


@dataclass(eq=False)
class Job(Generic[T, R]):
    """A partition's items on their way through the engine."""

    partition: int
    items: Sequence[T]
    work: Work[T, R]
    cache: PartitionCache
    counts: Counter[str]
    key_of: KeyOf[T]
    future: concurrent.futures.Future[list[R]] = field(default_factory=concurrent.futures.Future)
    results: list[R | None] = field(init=False)
    missing: int = 0
    tasks: set[asyncio.Task[R]] = field(default_factory=set)
    over: bool = False

    def __post_init__(self) -> None:
        self.results = [None] * len(self.items)

    def coroutine(
        self,
        index: int,
        calls: Sequence[Calls] | None,
        routing: Routing,
        counts: Counter[str],
    ) -> Coroutine[Any, Any, R]:
        """Return the coroutine of one item; without ``calls`` it sees the cache alone.

        Args:
            index: the item's.
            calls: of each endpoint.
            routing: which of them answers.
            counts: what its calls are counted in.
        """
        item = self.items[index]

        def endpoint(number: int, forms: RequestForms) -> ItemCaller:
            own = None if calls is None else calls[number]
            return ItemCaller(forms, self.partition, self.cache, counts, own)

        caller = routing.caller(self.partition, lambda: self.key_of(item), endpoint)
        return self.work(item, caller)
