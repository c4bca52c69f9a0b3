"""Statistics of a cache: what it holds, by prompt."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from transforms.llm.answers import classify
from transforms.llm.cache_verification import records_of
from transforms.llm.folders import folder_path, read_folder
from transforms.llm.parsing import parse_json
from transforms.llm.records import Record
from transforms.llm.shared_cache import SharedCache


@dataclass
class PromptStatistics:
    """The replies to one prompt: how many, their bytes, the tokens the endpoint counted."""

    records: int = 0
    bytes: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    classes: Counter[str] = field(default_factory=Counter)


@dataclass
class CacheStatistics:
    """What a cache holds.

    Attributes:
        segments: its segments, and of these the ``compacted`` ones.
        bytes: of their files.
        prompts: by the prompt's id.
        models: replies by the model that they name.
        first: when the oldest reply came, ISO 8601; "" where there is none.
        last: when the newest one came.
    """

    segments: int = 0
    compacted: int = 0
    bytes: int = 0
    prompts: dict[str, PromptStatistics] = field(default_factory=dict)
    models: Counter[str] = field(default_factory=Counter)
    first: str = ""
    last: str = ""


def cache_statistics(cache: SharedCache) -> CacheStatistics:
    """Return what ``cache`` holds; of several answers to a request the one that counts.

    Raises:
        OSError: something can't be read.
    """
    found = CacheStatistics()
    for number in range(cache.partitions):
        folder = read_folder(folder_path(cache.directory, number))
        found.segments += len(folder.segments)
        found.compacted += sum(segment.compacted for segment in folder.segments)
        found.bytes += sum(segment.size for segment in folder.segments)
        for record in records_of(folder):
            _add(found, record)
    return found


def _add(found: CacheStatistics, record: Record) -> None:
    # What its prompt's schema says of the answer is not asked: the prompt may have another by now.
    verdict = classify(record.status, record.body, lambda data: None, kept=True)
    prompt = found.prompts.setdefault(record.prompt, PromptStatistics())
    prompt.records += 1
    prompt.bytes += len(record.body)
    prompt.prompt_tokens += verdict.prompt_tokens
    prompt.completion_tokens += verdict.completion_tokens
    prompt.classes[verdict.call_class.value] += 1
    found.models[_model(record.body)] += 1
    found.first = min(found.first or record.created, record.created)
    found.last = max(found.last, record.created)


def _model(body: str) -> str:
    try:
        reply: Any = parse_json(body)
    except (ValueError, RecursionError):
        return "unknown"
    model = reply.get("model") if isinstance(reply, Mapping) else None
    return model if isinstance(model, str) else "unknown"
