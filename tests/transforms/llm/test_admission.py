"""Places in flight: who gets them, and that none is ever lost or invented."""

from __future__ import annotations

import asyncio

from transforms.llm.admission import InFlightAdmission, PendingCall
from transforms.llm.answers import Verdict
from transforms.llm.calls import CallClass

OK = Verdict(CallClass.OK)


def call(progress: int = 0) -> PendingCall:
    return PendingCall(key="", partition=0, progress=progress, size=100, completion_tokens=20)


async def ticks() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def test_calls_of_items_in_progress_go_first_then_in_order_of_arrival() -> None:
    async def main() -> list[str]:
        admission = InFlightAdmission(1)
        assert await admission.admit(call()) is None
        order: list[str] = []

        async def wait(name: str, progress: int) -> None:
            assert await admission.admit(call(progress)) is None
            order.append(name)
            admission.settle(call(progress), None, OK)

        waiting = [
            asyncio.create_task(wait(name, progress))
            for name, progress in (("new", 0), ("newer", 0), ("begun", 1), ("nearly done", 4))
        ]
        await ticks()
        assert order == []
        admission.settle(call(), None, OK)
        await asyncio.gather(*waiting)
        return order

    assert asyncio.run(main()) == ["nearly done", "begun", "new", "newer"]


def test_a_cancelled_call_passes_its_place_on() -> None:
    async def main() -> None:
        admission = InFlightAdmission(1)
        await admission.admit(call())
        early, late = (asyncio.create_task(admission.admit(call())) for _ in range(2))
        third = asyncio.create_task(admission.admit(call()))
        await ticks()
        early.cancel()  # while it waits
        await ticks()
        admission.settle(call(), None, OK)  # the place is late's from now on
        late.cancel()  # before it could take note
        assert await third is None
        admission.settle(call(), None, OK)
        assert await admission.admit(call()) is None

    asyncio.run(asyncio.wait_for(main(), 10))


def test_a_final_class_ends_those_that_wait_and_those_that_come() -> None:
    async def main() -> None:
        admission = InFlightAdmission(1)
        await admission.admit(call())
        waiting = [asyncio.create_task(admission.admit(call())) for _ in range(3)]
        await ticks()
        admission.settle(call(), None, Verdict(CallClass.BUDGET))
        assert await asyncio.gather(*waiting) == [CallClass.BUDGET] * 3
        assert await admission.admit(call()) is CallClass.BUDGET

    asyncio.run(asyncio.wait_for(main(), 10))
