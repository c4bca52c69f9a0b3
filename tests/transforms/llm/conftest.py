"""A prompt, an endpoint's settings, and engines that do not outlive their test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.transforms.llm.memory_filesystem import MemoryFileSystem
from transforms.llm.engine import close_engines
from transforms.llm.prompts import Prompt, Sampling
from transforms.llm.settings import EngineSettings

SCHEMA = {
    "type": "object",
    "properties": {"utterance": {"type": "string", "minLength": 1, "maxLength": 200}},
    "required": ["utterance"],
    "additionalProperties": False,
}


@pytest.fixture
def prompt() -> Prompt:
    return Prompt(
        id="utterance.v1",
        hash="0" * 64,
        schema=SCHEMA,
        sampling=Sampling(temperature=0.9, max_tokens=100),
        prefix=({"role": "system", "content": "You write what somebody might say."},),
        user="Situation: {{ situation }}",
    )


@pytest.fixture
def settings(tmp_path: Path) -> Iterator[Callable[..., EngineSettings]]:
    """Settings with a cache of the test's own; ``base_url`` is all that must be given."""

    def make(base_url: str, **changes: Any) -> EngineSettings:
        given: dict[str, Any] = {"model": "fake", "cache": str(tmp_path / "cache"), "retries": 2}
        return EngineSettings(base_url=base_url, **{**given, **changes})

    yield make
    close_engines()


@pytest.fixture
def memory() -> Iterator[type[MemoryFileSystem]]:
    """The filesystem of testmemory://, empty; what it was told to refuse ends with the test."""
    MemoryFileSystem.objects = {}
    MemoryFileSystem.refusals = 0
    yield MemoryFileSystem
    MemoryFileSystem.refusals = 0
