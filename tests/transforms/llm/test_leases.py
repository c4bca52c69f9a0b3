"""Leases: what a lane's budget leaves to whoever takes it over."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.transforms.llm.memory_filesystem import MemoryFileSystem
from transforms.llm.admission import PendingCall
from transforms.llm.answers import Verdict
from transforms.llm.budget import LaneBudget
from transforms.llm.calls import CallClass
from transforms.llm.client import Reply
from transforms.llm.engine import engine
from transforms.llm.fake_endpoint.server import FakeEndpoint
from transforms.llm.leases import PART, Amount, LaneLeases
from transforms.llm.prices import Price
from transforms.llm.prompts import Prompt
from transforms.llm.settings import EngineSettings
from transforms.publishing import storage

Make = Callable[..., EngineSettings]

PRICES = {"fake": Price(input=1000.0, cached_input=1000.0, output=1000.0)}
OK = Reply(200, "{}", {})


def call() -> PendingCall:
    return PendingCall("key", 0, 0, 0, 80, 20, 20, "fake")


def test_a_lease_is_a_part_of_the_budget_or_what_is_needed() -> None:
    with_room = LaneLeases("testmemory://bucket/parts", 0, Amount(160, 1600))
    MemoryFileSystem.objects = {}
    assert with_room.take(Amount(1, 500)) == (Amount(0, 0), Amount(160 // PART, 500))
    assert with_room.take(Amount(1, 1)) == (Amount(0, 0), Amount(160 // PART, 1600 // PART))


def test_an_heir_has_what_its_predecessors_leave(tmp_path: Path) -> None:
    first = LaneLeases(str(tmp_path), 3, Amount(8, 0))
    for _ in range(5):
        first.take(Amount(1, 0))
    assert LaneLeases(str(tmp_path), 4, Amount(8, 0)).take(Amount(1, 0))[0] == Amount(0, 0)
    heir = LaneLeases(str(tmp_path), 3, Amount(8, 0))
    assert [heir.take(Amount(1, 0))[1].calls for _ in range(5)] == [1, 1, 1, 0, 0]
    assert first.take(Amount(1, 0)) == (Amount(3, 0), Amount(0, 0))


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 9)), max_size=40), st.integers(0, 60))
def test_all_leases_of_a_lane_are_within_its_budget(
    takes: list[tuple[int, int]], budget: int
) -> None:
    """Four workers take turns, as where runs of a bundle follow each other."""
    MemoryFileSystem.objects = {}
    workers = [LaneLeases("testmemory://bucket/run", 0, Amount(0, budget)) for _ in range(4)]
    leased = 0
    for number, least in takes:
        others, lease = workers[number].take(Amount(0, least))
        leased += lease.money
        assert lease.money == min(max(least, budget // PART), budget - (leased - lease.money))
        assert others.money <= leased
    assert leased <= budget


def test_of_two_that_lease_in_the_same_moment_none_exceeds_the_budget(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rival = LaneLeases(str(tmp_path), 0, Amount(4, 0))
    late = LaneLeases(str(tmp_path), 0, Amount(4, 0))
    write = storage.write_bytes

    def after_the_rival(path: str, data: bytes) -> None:
        monkeypatch.setattr(storage, "write_bytes", write)
        rival.take(Amount(3, 0))
        write(path, data)

    monkeypatch.setattr(storage, "write_bytes", after_the_rival)
    assert late.take(Amount(3, 0)) == (Amount(3, 0), Amount(0, 0))
    assert late.take(Amount(3, 0)) == (Amount(3, 0), Amount(1, 0))


def test_a_budget_that_was_spent_by_others_is_refused(tmp_path: Path) -> None:
    async def main() -> list[CallClass | None]:
        first = LaneBudget(None, 0.25, PRICES, str(tmp_path), 0)  # a call may cost 0.10
        heir = LaneBudget(None, 0.25, PRICES, str(tmp_path), 0)
        outcomes = [await first.admit(call())]
        outcomes.append(await heir.admit(call()))
        used = Verdict(CallClass.OK, {}, None, 20, 5, metered=True)
        first.settle(call(), OK, used)  # it took 0.025
        heir.settle(call(), OK, used)
        outcomes.append(await heir.admit(call()))  # what its own lease had left, and the rest
        heir.settle(call(), OK, used._replace(completion_tokens=20))
        outcomes.append(await heir.admit(call()))
        return outcomes

    assert asyncio.run(main()) == [None, None, None, CallClass.BUDGET]


def test_a_lease_that_cannot_be_written_fails_the_run(
    prompt: Prompt, settings: Make, tmp_path: Path
) -> None:
    (tmp_path / "work").write_text("a file where the folder were to be")
    with FakeEndpoint() as endpoint:
        given = settings(endpoint.base_url, max_calls=9, work=str(tmp_path / "work"), lanes=1)

        async def once(item: str, caller: object) -> None:
            await caller(prompt, {"situation": item})  # type: ignore[operator]

        with pytest.raises(OSError, match="work"):
            engine(given).submit(0, ["a", "b"], once).result(60)
        assert endpoint.requests == 0
