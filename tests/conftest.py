"""What tests share: the way to the real rows of the sources, where they are present."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import settings

# How long a case takes says how busy the machine is.
settings.register_profile("remint", deadline=None)
settings.load_profile("remint")

SHARED_DATA = Path(__file__).resolve().parents[2] / "shared" / "data"


@pytest.fixture(scope="session")
def shared_data() -> Callable[[str], Path]:
    """Return a function from a path below the shared data to its place; skips where it is not."""

    def find(relative: str) -> Path:
        path = SHARED_DATA / relative
        if not path.exists():
            pytest.skip(f"real rows not present: shared/data/{relative}")
        return path

    return find
