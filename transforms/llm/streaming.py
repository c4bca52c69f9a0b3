"""Model calls in a Beam stage: partitions stream through the engine, without a barrier.

``process`` hands a partition to the engine and gives out whichever partitions are done by then;
``finish_bundle`` waits for the rest. So the stragglers of one partition keep no other waiting, and
``partitions_in_flight`` bounds what is held in memory. Partitions whose calls are done are finished
in threads of their own: what is left of the work is done by Polars, which lets the interpreter go
on with the next partition's answers.
"""

from __future__ import annotations

import concurrent.futures
import os
import socket
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

import apache_beam as beam
from apache_beam.io.filesystems import FileSystems
from apache_beam.metrics import Metrics
from apache_beam.pvalue import TaggedOutput
from apache_beam.utils.windowed_value import WindowedValue

from transforms.background import threads
from transforms.errors import OutputError
from transforms.llm.calls import Caller
from transforms.llm.engine import engine
from transforms.llm.latencies import seconds_of
from transforms.llm.settings import EngineSettings

NAMESPACE = "remint"
#: The distribution of the calls' latencies, milliseconds.
LATENCY = "latency_milliseconds"
#: Partitions that are finished at once.
FINISHING = 2

P = TypeVar("P", contravariant=True)
T = TypeVar("T")
R = TypeVar("R")


class PartitionWork(Protocol[P, T, R]):
    """What is done with a partition ``P``: its items ``T`` and their results ``R``; picklable."""

    def items(self, partition: P) -> Sequence[T]:
        """Return the items of ``partition`` that need calls, in an order of their own."""
        ...  # pragma: no cover - protocol

    def key(self, item: T) -> str:
        """Return the key of an item, by which endpoints share the items."""
        ...  # pragma: no cover - protocol

    async def work(self, item: T, caller: Caller) -> R:
        """Return the result of one item, making its calls by ``caller``."""
        ...  # pragma: no cover - protocol

    def finish(self, partition: P, results: list[R], counts: Mapping[str, int]) -> Iterable[Any]:
        """Yield the stage's outputs (tagged ones too) from the results, in the items' order.

        ``counts`` are of the partition's calls, see ``transforms.llm.statistics``. Runs in other
        threads than ``items``, for several partitions at a time.
        """
        ...  # pragma: no cover - protocol


@dataclass
class _Held:
    """A partition that is being worked on: its results, and then what ``finish`` makes of them."""

    number: int
    partition: Any
    timestamp: Any
    windows: tuple[Any, ...]
    results: concurrent.futures.Future[list[Any]] = field(init=False)
    counts: Counter[str] = field(default_factory=Counter)
    outputs: concurrent.futures.Future[list[Any]] = field(default_factory=concurrent.futures.Future)


class CallPartitions(beam.DoFn, Generic[P, T, R]):  # type: ignore[misc]
    """Elements ``(partition number, partition)`` to what ``work.finish`` makes of them."""

    def __init__(
        self,
        settings: EngineSettings,
        work: PartitionWork[P, T, R],
        partitions_in_flight: int = 4,
    ) -> None:
        super().__init__()
        if partitions_in_flight < 1:
            raise ValueError("partitions_in_flight must be at least 1")
        self._settings = settings
        self._work = work
        self._bound = partitions_in_flight
        self._held: list[_Held] = []
        self._finishing: concurrent.futures.ThreadPoolExecutor | None = None

    def setup(self) -> None:
        """See that this worker has the dataset before it, where the others have it.

        Raises:
            OutputError: it has not, and what it were to write would be found by nobody.
        """
        dataset, _ = FileSystems.split(self._settings.cache)
        if FileSystems.get_scheme(dataset) is None and dataset and not os.path.isdir(dataset):
            raise OutputError(
                f"{dataset} is not there for a worker on {socket.gethostname()}; --output must be "
                "on a folder that all workers share, or on an object store"
            )

    def start_bundle(self) -> None:
        """Start with nothing held, also where the bundle before has failed somewhere else."""
        self._break_off()

    def process(
        self,
        element: tuple[int, P],
        timestamp: Any = beam.DoFn.TimestampParam,
        window: Any = beam.DoFn.WindowParam,
    ) -> Iterator[Any]:
        """Submit one partition and yield the outputs of those that are done."""
        with self._broken_off_by_failure():
            self._submit(*element, timestamp, (window,))
        yield from self._done(leave=self._bound - 1)

    def _submit(self, number: int, partition: P, timestamp: Any, windows: tuple[Any, ...]) -> None:
        held = _Held(number, partition, timestamp, windows)
        held.results = engine(self._settings).submit(
            number, self._work.items(partition), self._work.work, held.counts, self._work.key
        )
        if self._finishing is None:
            self._finishing = threads(FINISHING, "finish")
        pool = self._finishing
        held.results.add_done_callback(lambda _: pool.submit(self._finish, held))
        self._held.append(held)

    def finish_bundle(self) -> Iterator[Any]:
        """Wait for all partitions of the bundle and yield their outputs."""
        yield from self._done(leave=0)

    def teardown(self) -> None:
        """End the threads."""
        self._break_off()
        if self._finishing is not None:
            self._finishing.shutdown()
            self._finishing = None

    def _finish(self, held: _Held) -> None:
        try:
            results = held.results.result()
            outputs = list(self._work.finish(held.partition, results, held.counts))
        except BaseException as error:  # of whatever kind: it is raised where the outputs are taken
            held.outputs.set_exception(error)
        else:
            held.outputs.set_result(outputs)

    def _done(self, leave: int) -> Iterator[Any]:
        """Yield the outputs of what is done, waiting until at most ``leave`` are not."""
        done = False
        try:
            while not done:
                for held in [held for held in self._held if held.outputs.done()]:
                    self._held.remove(held)
                    self._follow(held)
                    yield from self._outputs(held)
                done = len(self._held) <= leave
                if not done:
                    concurrent.futures.wait(
                        [held.outputs for held in self._held],
                        return_when=concurrent.futures.FIRST_COMPLETED,
                    )
        finally:
            if not done:
                self._break_off()

    @contextmanager
    def _broken_off_by_failure(self) -> Iterator[None]:
        try:
            yield
        except BaseException:  # of whatever kind: the bundle has failed
            self._break_off()
            raise

    def _break_off(self) -> None:
        """End what a failed bundle has in work: another worker may begin with it any time."""
        for held in self._held:
            held.results.cancel()
        self._held = []

    def _follow(self, held: _Held) -> None:
        """Start with what had to wait until ``held`` was done."""

    def _outputs(self, held: _Held) -> Iterator[Any]:
        outputs = held.outputs.result()
        for name, count in sorted(held.counts.items()):
            _measure(name, count)
        for output in outputs:
            if isinstance(output, TaggedOutput):
                value = WindowedValue(output.value, held.timestamp, held.windows)
                yield TaggedOutput(output.tag, value)
            else:
                yield WindowedValue(output, held.timestamp, held.windows)


def _measure(name: str, count: int) -> None:
    """Add a count to the runner's metrics: a counter, or of latencies a distribution."""
    label, mark, plain = name.rpartition("/")
    seconds = seconds_of(plain)
    if seconds is None:
        Metrics.counter(NAMESPACE, name).inc(count)
        return
    latency = Metrics.distribution(NAMESPACE, f"{label}{mark}{LATENCY}")
    for _ in range(count):
        latency.update(round(1000 * seconds))
