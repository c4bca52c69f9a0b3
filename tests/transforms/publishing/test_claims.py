from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from typing import Any, ClassVar

import pytest

from transforms.publishing import claims, storage
from transforms.publishing.claims import HeldError, Lease, claim_once
from transforms.publishing.storage import StoredFile

DIRECTORY = "store://bucket/out/prosocial/.lock"


class Store:
    """What S3 promises: whole objects, a listing of all that is there, and its own clock.

    With ``turns``, the threads named there do one operation each in that order.
    """

    def __init__(self) -> None:
        self.objects: dict[str, tuple[bytes, float]] = {}
        self.now = 1000.0
        self.turns: list[str] = []
        self.changed = threading.Condition()
        self.refuses = False

    def turn(self) -> None:
        name = threading.current_thread().name
        with self.changed:
            if name in self.turns:
                assert self.changed.wait_for(lambda: not self.turns or self.turns[0] == name, 10)

    def done(self) -> None:
        name = threading.current_thread().name
        with self.changed:
            if name in self.turns:
                self.turns.remove(name)
            self.changed.notify_all()

    def write_bytes(self, path: str, data: bytes) -> None:
        self.turn()
        if self.refuses:
            raise OSError("refused")
        self.objects[path] = data, self.now
        self.done()

    def stored_files(self, directory: str, begin: str = "") -> dict[str, StoredFile]:
        self.turn()
        prefix = f"{directory}/"
        found = {
            path.removeprefix(prefix): StoredFile(len(data), updated)
            for path, (data, updated) in sorted(self.objects.items())
            if path.startswith(prefix + begin)
        }
        self.done()
        return found

    def remove_file(self, path: str) -> None:
        self.turn()
        self.objects.pop(path, None)
        self.done()

    def remove_stored(self, paths: list[str]) -> None:
        for path in paths:
            self.objects.pop(path, None)

    def exists(self, path: str) -> bool:
        return path in self.objects

    def read_bytes(self, path: str) -> bytes:
        return self.objects[path][0]

    def join(self, base: str, *parts: str) -> str:
        return "/".join([base, *parts])

    json_bytes = staticmethod(storage.json_bytes)
    StoredFile: ClassVar[type] = StoredFile


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Store:
    store = Store()
    monkeypatch.setattr(claims, "storage", store)
    for name, seconds in {"RENEWAL": 0.02, "_FIRST_PAUSE": 0.001, "_LONGEST_PAUSE": 0.004}.items():
        monkeypatch.setattr(claims, name, seconds)
    return store


@pytest.fixture
def leases() -> Iterator[list[Lease]]:
    taken: list[Lease] = []
    yield taken
    for lease in taken:
        lease.release()


def run_both(store: Store, turns: tuple[str, ...]) -> dict[str, bool]:
    """Let claimants a and b claim the same thing, their operations in the order of ``turns``."""
    store.objects.clear()
    store.turns = list(turns)
    won: dict[str, bool] = {}

    def claim() -> None:
        name = threading.current_thread().name
        won[name] = claim_once(DIRECTORY, "v0001.")
        while name in store.turns:  # who wins withdraws nothing
            store.done()

    threads = [threading.Thread(target=claim, name=name) for name in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return won


def test_no_order_of_their_operations_lets_two_win(store):
    orders = set(itertools.permutations("aaabbb"))
    assert len(orders) == 20
    winners = [sum(run_both(store, order).values()) for order in sorted(orders)]

    assert max(winners) == 1
    assert winners.count(1) >= 2  # where one had listed before the other began


def test_of_many_at_once_every_number_has_one_winner(store):
    numbers: list[int] = []

    def claim() -> None:
        number = 1
        while not claim_once(DIRECTORY, f"v{number:04d}."):
            number = 1 + len(numbers)
        numbers.append(number)

    threads = [threading.Thread(target=claim) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(set(numbers)) == len(numbers) == 12


def lease(body: dict[str, Any] | None = None, lost: list[str] | None = None) -> Lease:
    return Lease(
        DIRECTORY, body or {"pid": 1}, lambda: (lost if lost is not None else []).append("lost")
    )


def test_who_renews_is_named_to_the_next(store, leases):
    leases.append(lease({"pid": 7}))
    leases[0].take()

    def tick(path: str, data: bytes, write: Any = store.write_bytes) -> None:
        store.now += 1
        write(path, data)

    store.write_bytes = tick
    with pytest.raises(HeldError) as held:
        lease().take()
    assert held.value.body == {"pid": 7}


def test_what_was_given_up_is_free(store):
    for _ in range(2):
        one = lease()
        one.take()
        one.release()
    assert not store.objects


def test_a_dead_holders_claim_expires_by_the_stores_clock(store, leases):
    dead = f"{DIRECTORY}/dead"
    store.write_bytes(dead, b"{}")
    store.now += claims.EXPIRY + 1

    leases.append(lease())
    leases[0].take()

    assert dead not in store.objects
    assert len(store.objects) == 1


def test_a_silent_claim_is_waited_for(store, leases):
    store.write_bytes(f"{DIRECTORY}/silent", b"{}")
    waited = threading.Event()

    def tick(path: str, data: bytes, write: Any = store.write_bytes) -> None:
        store.now += 20  # with each try of the claimant
        waited.set()
        write(path, data)

    store.write_bytes = tick
    leases.append(lease())
    leases[0].take()

    assert waited.is_set()
    assert f"{DIRECTORY}/silent" not in store.objects


def test_a_holder_whose_claim_was_removed_is_told(store):
    lost: list[str] = []
    one = lease(lost=lost)
    one.take()
    store.objects.clear()
    for thread in one._threads:
        thread.join(10)
    assert lost == ["lost"]


def test_a_holder_that_cannot_renew_in_time_is_told(store, monkeypatch):
    monkeypatch.setattr(claims, "DEADLINE", 0.2)
    lost: list[str] = []
    one = lease(lost=lost)
    one.take()
    store.refuses = True
    for thread in one._threads:
        thread.join(10)
    assert lost == ["lost"]


def test_a_store_that_does_not_list_what_was_written_is_refused(store):
    store.stored_files = lambda directory, begin="": {}
    with pytest.raises(OSError, match="is not listed"):
        lease().take()
