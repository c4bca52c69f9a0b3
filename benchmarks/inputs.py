"""Where the made-up inputs of a benchmark stand, for either dataset."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


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
