"""Where the made-up inputs of a benchmark stand, for either dataset."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

from pipelines.options import DEFAULT_PARTITIONS
from transforms.publishing.versions import read_dataset


@dataclass(frozen=True)
class Inputs:
    """The inputs of one size.

    Attributes:
        dataset: its name.
        directory: where the files stand.
        base_url: the endpoint whose answers the cache holds.
    """

    dataset: str
    directory: Path
    base_url: str

    @property
    def partitions(self) -> int:
        """The number of the dataset's partitions."""
        place, defaults = str(self.output / self.dataset), {"partitions": DEFAULT_PARTITIONS}
        number: int = read_dataset(place, self.dataset, defaults, {})["partitions"]
        return number

    @property
    def output(self) -> Path:
        """What a run is given as ``--output``; its dataset has the warm cache."""
        return self.directory / "output"

    @property
    def cache(self) -> Path:
        """The warm cache."""
        return self.output / self.dataset / "cache"

    @property
    def plain(self) -> Path:
        """Where the plain script writes."""
        return self.directory / "plain"


def partitions_of(size: int, released: int) -> int:
    """Return a dataset's partitions at a size, whose default is for the size of the release."""
    return max(DEFAULT_PARTITIONS, 2 ** math.ceil(math.log2(DEFAULT_PARTITIONS * size / released)))
