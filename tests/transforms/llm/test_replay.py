"""Work runs to its end without an event loop while nothing has to be waited for."""

from __future__ import annotations

import asyncio
import warnings
from typing import NoReturn

import pytest

from transforms.llm.replay import Miss, gather, replay


async def hit(value: int) -> int:
    return value


async def miss(value: int) -> int:
    await Miss()
    return value


async def fault() -> int:
    raise KeyError("a fault of the program")


async def nested(*coroutines: object) -> list[int]:
    return await gather(*coroutines)  # type: ignore[arg-type]


def test_hits_run_to_their_end() -> None:
    assert replay(hit(1)) == (True, 1)
    assert replay(nested(hit(1), hit(2), hit(3))) == (True, [1, 2, 3])
    assert replay(nested()) == (True, [])


def test_a_miss_closes_the_item_and_leaves_nothing_unawaited() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert replay(miss(1)) == (False, None)
        assert replay(nested(hit(1), miss(2), hit(3))) == (False, None)


def test_a_fault_is_raised() -> None:
    for coroutine in (fault(), nested(hit(1), fault(), hit(2))):
        with pytest.raises(KeyError):
            replay(coroutine)


def test_while_replaying_a_fault_lets_the_others_come_to_their_calls() -> None:
    steps: list[int] = []

    async def step(value: int) -> int:
        steps.append(value)
        return value

    async def faulty(text: str) -> NoReturn:
        raise KeyError(text)

    with pytest.raises(KeyError, match="first"):
        replay(nested(step(1), faulty("first"), step(2), faulty("second"), step(3)))
    assert steps == [1, 2, 3]


def test_in_the_event_loop_gather_runs_side_by_side_in_order() -> None:
    async def main() -> tuple[list[str], list[int]]:
        steps: list[str] = []

        async def step(name: str, ticks: int) -> int:
            steps.append(name)
            for _ in range(ticks):
                await asyncio.sleep(0)
            steps.append(name)
            return ticks

        return steps, await gather(step("slow", 5), step("quick", 1))

    steps, results = asyncio.run(main())
    assert steps == ["slow", "quick", "quick", "slow"]
    assert results == [5, 1]


def test_in_the_event_loop_a_fault_cancels_the_others() -> None:
    async def main() -> str:
        ended = ""

        async def endless() -> int:
            nonlocal ended
            try:
                await asyncio.sleep(3600)
            except asyncio.CancelledError:
                ended = "cancelled"
                raise
            return 0

        async def failing() -> NoReturn:
            await asyncio.sleep(0)
            raise KeyError("a fault of the program")

        with pytest.raises(KeyError):
            await gather(endless(), failing())
        await asyncio.sleep(0)
        return ended

    assert asyncio.run(main()) == "cancelled"
