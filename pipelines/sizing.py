"""Sizing: partitions, lanes and memory for an input, told by a dry run; docs/scale.md has the why.

The figures were measured (``benchmarks/assemble.py`` at a tenth and at the whole of the released
size): what a byte of input takes once it is worked on, answers and published rows included.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pipelines.options import DEFAULT_PARTITIONS, MAX_PARTITIONS
from transforms.frames import MAX_FRAME_BYTES
from transforms.llm.lanes import lanes_for
from transforms.llm.settings import EngineSettings
from transforms.reading.files import PARQUET, compression_of, extension_of, stored_size

#: Of a partition's input: then each of its frames is a single one, of 8 MB at most.
PARTITION_BYTES = MAX_FRAME_BYTES
#: Runners deal partitions and lanes to workers by a hash; with fewer of each some would go idle.
PARTITIONS_PER_WORKER = 8
LANES_PER_WORKER = 4
#: Bytes of memory for a byte of input that is being worked on.
MEMORY_PER_BYTE = {"prosocial": 3.0, "metricinstruct": 7.0}
#: A worker with nothing to do: interpreter, Beam, Polars, Great Expectations.
BASE_BYTES = 600_000_000
#: Lanes that the worker has to which the hash deals most, by their mean.
UNEVEN = 2
#: Partitions of a lane in work, and those of a worker that are being finished, see ``streaming``.
LANE_PARTITIONS, FINISHING = 2, 2
#: Text compresses to about a quarter.
_COMPRESSED = 4


@dataclass(frozen=True)
class Sizing:
    """What suits an input.

    Attributes:
        input_bytes: of all input, decompressed.
        workers: worker processes.
        partitions: of a dataset that is begun with it.
        lanes: parts of the limits; None where one process makes all calls.
        memory: bytes that each worker process needs.
    """

    input_bytes: int
    workers: int
    partitions: int
    lanes: int | None
    memory: int


def input_size(paths: Iterable[str]) -> int:
    """Return the bytes of all files, those that are compressed taken for what they will be.

    Raises:
        InputError: a file is not there.
    """
    return sum(stored_size(path) * (_COMPRESSED if _is_compressed(path) else 1) for path in paths)


def _is_compressed(path: str) -> bool:
    return compression_of(path) is not None or extension_of(path) in PARQUET


def recommend(
    dataset: str,
    input_bytes: int,
    workers: int,
    engine: EngineSettings,
    partitions: int | None = None,
) -> Sizing:
    """Return what suits an input; the more of it, the more partitions, and never less memory.

    Args:
        dataset: whose memory was measured.
        input_bytes: of all input, decompressed.
        workers: worker processes; with one, it holds everything in memory (the local runner does).
        engine: with the limits of the whole job, of which every lane needs enough.
        partitions: of the dataset, where it has been begun: memory is told for these.
    """
    wanted = max(-(-input_bytes // PARTITION_BYTES), PARTITIONS_PER_WORKER * workers)
    chosen = min(max(_power_of_two(wanted), DEFAULT_PARTITIONS), MAX_PARTITIONS)
    per_byte = MEMORY_PER_BYTE[dataset]
    if workers == 1:
        memory = BASE_BYTES + per_byte * input_bytes
        return Sizing(input_bytes, workers, chosen, None, round(memory))
    there = partitions or chosen
    lanes = lanes_for(LANES_PER_WORKER * workers, there, engine)
    most = min(UNEVEN * -(-lanes // workers), lanes)
    in_work = min(LANE_PARTITIONS * most + FINISHING, there)
    memory = BASE_BYTES + input_bytes * per_byte * in_work / there
    return Sizing(input_bytes, workers, chosen, lanes, round(memory))


def _power_of_two(least: int) -> int:
    """Return the smallest power of two from ``least`` on.

    Caches of datasets share answers the quicker, the greater the common divisor of their numbers.
    """
    return 1 << max(0, (least - 1).bit_length())


def render_sizing(found: Sizing, partitions: int, begun: bool) -> str:
    """Return a sizing as a line of a dry run.

    Args:
        found: the sizing.
        partitions: that the run has.
        begun: whether they are fixed, because the dataset is there.
    """
    said = f"size: {_size(found.input_bytes)} of input suit --partitions {found.partitions}"
    if partitions != found.partitions:
        said += f" (this dataset {'was begun with' if begun else 'would have'} {partitions})"
    if found.lanes is None:
        return f"{said}; this process needs about {found.memory / 1e9:,.1f} GB of memory"
    return (
        f"{said} and --lanes {found.lanes}; each of {found.workers} worker processes needs about "
        f"{found.memory / 1e9:,.1f} GB of memory"
    )


def _size(number: int) -> str:
    return f"{number / 1e9:,.1f} GB" if number >= 1e9 else f"{number / 1e6:,.1f} MB"
