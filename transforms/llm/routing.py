"""Routing: an item's calls go to the endpoints that the run's routes name.

What a run does about a prompt with a fallback is decided by what is cached, so that it is the same
whenever it is run again: first the answers of all its endpoints are looked for in the cache, in
their order, and one that is not to be passed over is taken, whichever endpoint gave it. Only where
there is none, those are called that have not answered yet, in the same order. One has answered when
all that its answer takes is cached: its larger retry or its correction, where it needs them, too.
"""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from typing import Any

from transforms.llm.calls import Answer, Caller
from transforms.llm.item_caller import ItemCaller
from transforms.llm.prompts import Prompt
from transforms.llm.replay import is_replaying
from transforms.llm.request import RequestForms
from transforms.llm.routes import Route
from transforms.llm.settings import EngineSettings

#: From an endpoint's number and request forms to what calls it for one item.
MakeCaller = Callable[[int, RequestForms], ItemCaller]


class Routing:
    """The endpoints and routes of one engine, and the request forms of each endpoint."""

    def __init__(self, settings: EngineSettings) -> None:
        self.forms = [RequestForms(each) for each in settings.endpoints]
        self._routes = {route.prompt: route for route in settings.routes}
        self._locks: weakref.WeakValueDictionary[tuple[int, str], asyncio.Lock] = (
            weakref.WeakValueDictionary()
        )

    def caller(self, partition: int, key: Callable[[], str], make: MakeCaller) -> Caller:
        """Return the caller of an item.

        Args:
            partition: the item's.
            key: returns the item's, which draws among endpoints that share a prompt.
            make: makes the caller of one endpoint.
        """
        if not self._routes:
            return make(0, self.forms[0])
        return RoutedCaller(self, partition, key(), make)

    def route(self, prompt: Prompt) -> Route:
        """Return the route of ``prompt``.

        Raises:
            KeyError: it has none: a fault of the program.
        """
        return self._routes[prompt.id]

    def lock(self, partition: int, request: str) -> asyncio.Lock:
        """Return what lets one item of a partition at a time ask for ``request``.

        Of two items with the same question the second one finds what the first one was answered,
        by whichever endpoint: a later run would find just that.
        """
        return self._locks.setdefault((partition, request), asyncio.Lock())


class RoutedCaller:
    """The ``Caller`` of one item whose prompts are answered by several endpoints."""

    def __init__(self, routing: Routing, partition: int, key: str, make: MakeCaller) -> None:
        self._routing, self._partition, self._key, self._make = routing, partition, key, make
        self._callers: dict[int, ItemCaller] = {}
        self._progress = 0

    async def __call__(
        self, prompt: Prompt, variables: Mapping[str, Any], *, sample: int = 0
    ) -> Answer:
        """Return the answer to ``prompt`` filled with ``variables``; see ``Caller``."""
        (answer,) = await self.samples(prompt, variables, (sample,))
        return answer

    async def samples(
        self, prompt: Prompt, variables: Mapping[str, Any], samples: Sequence[int]
    ) -> list[Answer]:
        """Return independent answers to the same request; see ``Caller``."""
        route = self._routing.route(prompt)
        callers = [self._caller(number) for number in route.order(self._key)]
        if len(callers) == 1:
            answers = await callers[0].samples(prompt, variables, samples)
        else:
            async with self._turn(callers[0], prompt, variables):
                found = await _first_answers(callers, route, prompt, variables, samples)
            answers = [found[sample] for sample in samples]
        self._progress += len(answers)
        return answers

    def _turn(
        self, first: ItemCaller, prompt: Prompt, variables: Mapping[str, Any]
    ) -> AbstractAsyncContextManager[Any]:
        if is_replaying():  # which makes no call, and in a thread to which no lock belongs
            return nullcontext()
        return self._routing.lock(self._partition, first.request(prompt, variables, 0))

    def _caller(self, number: int) -> ItemCaller:
        found = self._callers.get(number)
        if found is None:
            found = self._callers[number] = self._make(number, self._routing.forms[number])
        found.progress = self._progress
        return found


async def _first_answers(
    callers: Sequence[ItemCaller],
    route: Route,
    prompt: Prompt,
    variables: Mapping[str, Any],
    samples: Sequence[int],
) -> dict[int, Answer]:
    found: dict[int, Answer] = {}
    failed: dict[int, dict[int, Answer]] = {sample: {} for sample in samples}

    def take(sample: int, place: int, answer: Answer) -> None:
        if route.falls_back(answer):
            failed[sample][place] = answer
        else:
            found[sample] = answer

    for place, caller in enumerate(callers):
        for sample in [each for each in failed if each not in found]:
            known = caller.known(prompt, variables, sample)
            if known is not None:
                take(sample, place, known)
    for place, caller in enumerate(callers):
        wanted = [each for each in failed if each not in found and place not in failed[each]]
        answers = await caller.samples(prompt, variables, wanted)
        for sample, answer in zip(wanted, answers, strict=True):
            take(sample, place, answer)
    told = {
        sample: _telling([failures[place] for place in sorted(failures)])
        for sample, failures in failed.items()
        if sample not in found
    }
    return {**found, **told}


def _telling(failed: Sequence[Answer]) -> Answer:
    """Return the failure that tells best what is to become of the item: the first one.

    Before it one goes that another run may mend, and before that one that a later run is to call.
    """
    return max(failed, key=lambda answer: (answer.call_class.awaited, answer.call_class.transient))
