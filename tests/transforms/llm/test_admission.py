"""The chain of admissions: what is taken is given back by whoever does not go on."""

from __future__ import annotations

import asyncio

import pytest

from transforms.llm.admission import AdmissionChain, PendingCall
from transforms.llm.answers import Verdict
from transforms.llm.calls import CallClass
from transforms.llm.client import Reply

CALL = PendingCall("key", 0, 0, 0, 100, 20, 50, "fake")


class Counting:
    """Lets calls through, or refuses them, when its gate is open; counts what is taken."""

    def __init__(self, refused: CallClass | None = None) -> None:
        self.refused = refused
        self.gate = asyncio.Event()
        self.gate.set()
        self.taken = self.settled = 0

    async def admit(self, call: PendingCall) -> CallClass | None:
        await self.gate.wait()
        if self.refused is None:
            self.taken += 1
        return self.refused

    def withdraw(self, call: PendingCall) -> None:
        self.taken -= 1

    def settle(self, call: PendingCall, reply: Reply | None, verdict: Verdict | None) -> None:
        self.taken -= 1
        self.settled += 1


def test_who_passes_all_has_taken_of_all_until_it_is_settled_or_withdrawn() -> None:
    async def main() -> None:
        first, second = Counting(), Counting()
        chain = AdmissionChain(first, second)
        assert await chain.admit(CALL) is None
        assert await chain.admit(CALL) is None
        assert (first.taken, second.taken) == (2, 2)
        chain.settle(CALL, None, Verdict(CallClass.OK))
        chain.withdraw(CALL)
        assert (first.taken, second.taken) == (0, 0)
        assert (first.settled, second.settled) == (1, 1)

    asyncio.run(main())


def test_one_that_fails_at_it_keeps_the_outcome_from_no_other() -> None:
    class Failing(Counting):
        def settle(self, call: PendingCall, reply: Reply | None, verdict: Verdict | None) -> None:
            raise OverflowError

    first, last = Counting(), Counting()
    with pytest.raises(OverflowError):
        AdmissionChain(first, Failing(), last).settle(CALL, None, None)
    assert (first.settled, last.settled) == (1, 1)


def test_who_is_refused_gives_back_what_earlier_admissions_gave() -> None:
    async def main() -> None:
        links = Counting(), Counting(), Counting(CallClass.BUDGET), Counting()
        assert await AdmissionChain(*links).admit(CALL) is CallClass.BUDGET
        assert [link.taken for link in links] == [0, 0, 0, 0]

    asyncio.run(main())


def test_who_is_broken_off_while_it_waits_gives_back_too() -> None:
    async def main() -> None:
        first, second = Counting(), Counting()
        second.gate.clear()
        task = asyncio.create_task(AdmissionChain(first, second).admit(CALL))
        await asyncio.sleep(0)
        assert first.taken == 1
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert (first.taken, second.taken) == (0, 0)

    asyncio.run(main())
