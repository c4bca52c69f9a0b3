"""Leases: how a lane's budget outlives the worker that spends it.

Before a lane spends, it writes down how much it may: a lease, a part of its budget. A worker that
takes the lane over finds the leases of its predecessor and has what they leave; so a run's budget
holds however many workers die, and each death forfeits at most what one lease had left. A lease is
a file whose name says all, written before the first call that needs it, so that nothing hangs on a
clock or on what a dead worker could still tell, and object stores need no more than a listing.

    <work folder>/leases/lane-00003/<calls>-<money>-<random>.lease
"""

from __future__ import annotations

import re
import uuid
from typing import NamedTuple

from transforms.llm.folders import list_folder
from transforms.publishing import storage

#: A lease is this part of a lane's budget, where nothing needs more.
PART = 16

_NAME = re.compile(r"(\d+)-(\d+)-[0-9a-f]{32}\.lease")


class Amount(NamedTuple):
    """Calls, and money in the budget's whole units."""

    calls: int
    money: int


class LaneLeases:
    """The leases that this process takes of one lane's budget; used by one thread at a time.

    Args:
        folder: the run's work folder, see ``transforms.llm.work_folder``.
        lane: the lane's number.
        budget: all that the lane may spend in this run.
    """

    def __init__(self, folder: str, lane: int, budget: Amount) -> None:
        self._folder = storage.join(folder, "leases", f"lane-{lane:05d}")
        self._budget = budget
        self._own: set[str] = set()

    def take(self, least: Amount) -> tuple[Amount, Amount]:
        """Take a lease of ``least`` or more, else of what is left; write it down.

        Returns:
            What other processes have leased in this run, and the new lease.

        Raises:
            OSError: it could not be written.
        """
        others, own = self._leased()
        lease = Amount(
            *(
                max(0, min(max(part, whole // PART), whole - theirs - ours))
                for part, whole, theirs, ours in zip(least, self._budget, others, own, strict=True)
            )
        )
        if not any(lease):
            return others, lease
        name = f"{lease.calls}-{lease.money}-{uuid.uuid4().hex}.lease"
        storage.write_bytes(storage.join(self._folder, name), name.encode())
        self._own.add(name)
        others, own = self._leased()
        if self._exceeded(others, own):
            # One that was taken for dead lives on and took a lease in the same moment.
            storage.remove_file(storage.join(self._folder, name))
            self._own.discard(name)
            return others, Amount(0, 0)
        return others, lease

    def _exceeded(self, others: Amount, own: Amount) -> bool:
        return any(
            theirs + ours > whole
            for theirs, ours, whole in zip(others, own, self._budget, strict=True)
        )

    def _leased(self) -> tuple[Amount, Amount]:
        """Return what others and what this process have leased."""
        sums = {True: Amount(0, 0), False: Amount(0, 0)}
        for name in list_folder(self._folder):
            found = _NAME.fullmatch(name)
            if found:
                ours = name in self._own
                calls, money = sums[ours]
                sums[ours] = Amount(calls + int(found[1]), money + int(found[2]))
        return sums[False], sums[True]
