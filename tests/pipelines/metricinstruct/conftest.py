"""What tests of MetricInstruct share: the released text's client, real answers, the samples."""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from pipelines.metricinstruct import stages
from pipelines.metricinstruct.choice import ChoiceSettings
from pipelines.metricinstruct.corruption import CorruptionSettings
from pipelines.metricinstruct.drafting import DraftAnalyses, DraftSettings
from pipelines.metricinstruct.drafts import Draft
from pipelines.metricinstruct.filter_settings import load_filters
from pipelines.metricinstruct.inputs import SourceInput
from pipelines.metricinstruct.profiles import count_profiles
from pipelines.metricinstruct.selection import SelectionSettings
from pipelines.metricinstruct.sources.registry import DEFAULT_CHOICES
from pipelines.metricinstruct.sources.samples import sample_files
from pipelines.metricinstruct.task_prompts import load_task_prompts
from transforms.llm.calls import Answer, CallClass
from transforms.llm.fake_endpoint.answers import answered
from transforms.llm.prompts import Prompt
from transforms.partitions import Frames

_HEADER = re.compile(
    r"The model-generated output contains (\d+) errors, with a total score reduction of (\d+)"
)
_FIELDS = {
    "location": re.compile(r"Error location \d+: *(\S[^\n]*)"),
    "aspect": re.compile(r"Error aspect \d+: *(\S[^\n]*)"),
    "explanation": re.compile(r"Explanation \d+: *(\S[^\n]*)"),
    "severity": re.compile(r"Severity \d+: *(\S[^\n]*)"),
    "score_reduction": re.compile(r"Score reduction \d+: *(\d+(?:\.\d+)?)"),
}


def read_as_client(text: str) -> dict[str, Any] | None:
    """Read a released text by the rules of TIGERScore's parser, as the facts state them.

    A header with the count and the total as an integer; each field up to the end of its line,
    wherever a label stands; as many of each of the five as the others. None where one fails.
    """
    header = _HEADER.search(text)
    values = {
        name: [found.strip() for found in pattern.findall(text)]
        for name, pattern in _FIELDS.items()
    }
    if header is None or len({len(found) for found in values.values()}) != 1:
        return None
    return {
        "num_errors": int(header[1]),
        "score": -float(header[2]),
        "errors": [
            dict(zip(values, row, strict=True)) for row in zip(*values.values(), strict=True)
        ],
    }


@pytest.fixture(scope="session")
def client() -> Callable[[str], dict[str, Any] | None]:
    """Return the parser of the released text by the client's rules."""
    return read_as_client


@pytest.fixture(scope="session")
def model_answers(shared_data: Callable[[str], Path]) -> list[dict[str, Any]]:
    """Return 500 real analyses of TIGERScore-7B, with what its own parser made of each."""
    path = shared_data("tigerscore/tigerscore7b_500_metricinstruct_outputs.json.gz")
    answers: list[dict[str, Any]] = json.loads(gzip.decompress(path.read_bytes()))
    return answers


@pytest.fixture(scope="session")
def chatgpt_answers(shared_data: Callable[[str], Path]) -> list[dict[str, Any]]:
    """Return 48 real answers of ChatGPT (192 errors): fields input, text, answer, id."""
    path = shared_data("tigerscore/example_result.json.gz")
    return [
        {
            "key": item["id"],
            "id": f"{item['id']}-{candidate['model']}",
            "input": item["input"],
            "text": candidate["text"],
            "answer": candidate["messages_records"][-1]["content"],
        }
        for item in json.loads(gzip.decompress(path.read_bytes()))
        for candidate in item["candidates"]
    ]


class JudgeCaller:
    """Answers every call as the fake endpoint does, without one."""

    async def __call__(
        self, prompt: Prompt, variables: Mapping[str, Any], *, sample: int = 0
    ) -> Answer:
        form = {"json_schema": {"schema": prompt.schema}}
        body = {"messages": prompt.messages(variables), "response_format": form}
        digest = hashlib.sha256(json.dumps(body, sort_keys=True).encode()).digest()
        content = answered(body, digest).choices[0].content
        return Answer(CallClass.OK, digest.hex(), json.loads(content or ""), model="judge")


def chosen_samples() -> Frames:
    """Return the samples as one partition, once the outputs of each input were chosen."""
    parts: dict[str, list[pl.DataFrame]] = {}
    for file in sample_files():
        for name, frame in stages.read_source(SourceInput(file)):
            parts.setdefault(name, []).append(frame)
    frames = {name: pl.concat(frames) for name, frames in parts.items()}
    chosen = stages.choose_examples(frames, ChoiceSettings(DEFAULT_CHOICES), [])
    settings = SelectionSettings(ChoiceSettings(DEFAULT_CHOICES), {})
    return stages.select_examples(chosen, None, settings)


def drafted_samples(chosen: Frames, settings: DraftSettings) -> Frames:
    """Return the chosen samples with what the judge made of them."""
    work = stages.AnalyseExamples(DraftAnalyses(load_task_prompts(), settings))

    async def drafts() -> list[Draft]:
        return [await work.work(item, JudgeCaller()) for item in work.items((0, chosen))]

    ((_, frames),) = work.finish((0, chosen), asyncio.run(drafts()), {})
    return frames


@pytest.fixture(scope="session")
def chosen() -> Frames:
    """Return the samples' frames before the model sees them."""
    return chosen_samples()


@pytest.fixture(scope="session")
def drafted(chosen: Frames) -> Frames:
    """Return the samples' frames with verified analyses."""
    corruption = CorruptionSettings(paraphrase_share=0.2, reference_share=0.2)
    return drafted_samples(chosen, DraftSettings(corruption=corruption, verification="record"))


@pytest.fixture(scope="session")
def filtered(drafted: Frames) -> Frames:
    """Return the samples' frames after the filters."""
    profiles = count_profiles(drafted["analyses"])
    return stages.filter_analyses(drafted, profiles, load_filters())


@pytest.fixture(scope="session")
def finished(filtered: Frames) -> Frames:
    """Return the samples' frames ready to be published."""
    return stages.finish_partition(filtered, 0.8)
