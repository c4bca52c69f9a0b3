"""Inputs of a MetricInstruct of the release's size, made up: source files and a warm cache.

    python -m benchmarks.metricinstruct.synthesis DIRECTORY EXAMPLES BASE_URL

Which requests are made follows from what is chosen, so the project's own stages choose here, and
every request that drafting the chosen examples makes gets an answer.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import Any

import polars as pl

from benchmarks.inputs import Inputs, partitions_of
from benchmarks.metricinstruct import answers, sources
from benchmarks.replies import MODEL, completion
from pipelines.metricinstruct.command import (
    DATASET_DEFAULTS,
    draft_settings,
    selection_settings,
)
from pipelines.metricinstruct.drafting import DraftAnalyses
from pipelines.metricinstruct.examples import Item
from pipelines.metricinstruct.inputs import SourceInput, source_inputs
from pipelines.metricinstruct.options import MetricInstructOptions, metricinstruct_parser
from pipelines.metricinstruct.publication import DATASET
from pipelines.metricinstruct.schema import ASPECTS, REAL, SYNTHETIC
from pipelines.metricinstruct.selection import candidates, selection
from pipelines.metricinstruct.stages import choose_examples, read_source, select_examples
from pipelines.metricinstruct.task_prompts import load_task_prompts
from pipelines.option_parsing import parse
from transforms.keys import partition_of
from transforms.llm.answers import classify
from transforms.llm.cache import PartitionCache
from transforms.llm.calls import Answer, CallClass
from transforms.llm.prompts import Prompt
from transforms.llm.replay import replay
from transforms.llm.request import RequestForms
from transforms.llm.settings import EngineSettings
from transforms.publishing.versions import open_dataset


def arguments(inputs: Inputs) -> list[str]:
    """Return the arguments with which remint reads ``inputs``."""
    return sources.arguments(inputs.directory)


def synthesise(directory: Path, examples: int, base_url: str) -> Inputs:
    """Write the inputs of so many examples below ``directory`` and return where they stand."""
    directory.mkdir(parents=True)
    inputs = Inputs(DATASET, directory, base_url)
    sources.write_sources(directory, examples)
    chosen = {"partitions": partitions_of(examples, sources.EXAMPLES)}
    open_dataset(str(inputs.output / DATASET), DATASET, DATASET_DEFAULTS, chosen)
    given = [*arguments(inputs), "--output", str(inputs.output), "--model", MODEL]
    options = parse(
        metricinstruct_parser(), MetricInstructOptions, [*given, "--base-url", base_url]
    )
    files = source_inputs({REAL: options.sources, SYNTHETIC: options.synthetic}, options.outputs)
    drafting = DraftAnalyses(load_task_prompts(), draft_settings(options))
    _warm(inputs, drafting, drafting.items({"chosen": _chosen(files, options)}))
    return inputs


def _chosen(files: list[SourceInput], options: MetricInstructOptions) -> pl.DataFrame:
    """Return the examples that a run works on."""
    settings = selection_settings(options, files)
    frames: dict[str, list[pl.DataFrame]] = defaultdict(list)
    for one in files:
        for name, frame in read_source(one):
            frames[name].append(frame)
    read = {name: pl.concat(parts) for name, parts in frames.items()}
    chosen = choose_examples(read, settings.choice, ())
    selected = selection([candidates(chosen["chosen"], settings)], settings)
    return select_examples(chosen, selected, settings)["chosen"]


def _warm(inputs: Inputs, drafting: DraftAnalyses, items: list[Item]) -> None:
    """Fill the cache with an answer to every request that drafting the items makes."""
    settings = EngineSettings(inputs.base_url, MODEL, str(inputs.cache))
    forms = RequestForms(settings)
    by_partition: dict[int, list[Item]] = defaultdict(list)
    partitions = inputs.partitions
    for item in items:
        by_partition[partition_of(item.key, partitions)].append(item)
    for number, members in by_partition.items():
        cache = PartitionCache(settings.cache, number)
        for item in members:
            done, _ = replay(drafting.work(item, _Answering(forms, cache, item)))
            assert done  # noqa: S101 - nothing in it waits
        cache.close()


class _Answering:
    """A ``Caller`` that makes up the answers about one item and keeps the replies in the cache."""

    def __init__(self, forms: RequestForms, cache: PartitionCache, item: Item) -> None:
        self._forms, self._cache, self._item = forms, cache, item
        made = Random(f"{item.channel} {item.id}")
        self._end = answers.end_of(made)
        self._made = made
        self._errors: list[answers.Error] = []

    async def __call__(
        self, prompt: Prompt, variables: Mapping[str, Any], *, sample: int = 0
    ) -> Answer:
        step = prompt.id.split("-")[0].split(".")[0]
        data = self._answer(step, variables)
        form = self._forms.get(prompt, room=1)
        question = form.question(variables)
        request = form.key(question, sample)
        content = json.dumps(data, ensure_ascii=False)
        if self._end == "whole" or step == "review":
            self._keep(request, prompt, completion(content))
            return Answer(CallClass.OK, request, data)
        if self._end == "cut":
            self._keep(request, prompt, completion(content[:-5], "length"))
            request = self._forms.get(prompt, room=2).key(question, sample)
            self._keep(request, prompt, completion(content[:-5], "length"))
            return Answer(CallClass.TRUNCATED, request)
        if self._end == "refused":
            self._keep(request, prompt, completion(None, refusal="I can't help with that."))
            return Answer(CallClass.REFUSED, request)
        prose = "I looked at the output and found it well made."
        body = completion(prose)
        self._keep(request, prompt, body)
        # Asked once more with its fault named, it answers the same.
        fault = classify(200, body, prompt.validate).detail or ""
        corrected = form.key(form.correction(question, prose, fault), sample)
        self._keep(corrected, prompt, body)
        return Answer(CallClass.BAD_JSON, request)

    def _answer(self, step: str, variables: Mapping[str, Any]) -> dict[str, Any]:
        item = self._item
        if step == "review":
            output, aspects = item.hypothesis or "", ASPECTS[item.task]
            self._errors = answers.found_errors(self._made, output, aspects)
            return {"analysis": answers.notes(self._made, self._errors)}
        if step == "itemise":
            return {"errors": self._errors}
        if step == "paraphrase":
            words = (item.reference or "").split(" ")
            return {"output": " ".join(["In", "short:", *words])}
        output, errors = answers.worked_in(self._made, item.reference or "", variables["aspects"])
        return {"output": output, "errors": errors}

    def _keep(self, request: str, prompt: Prompt, body: str) -> None:
        if request not in self._cache:
            self._cache.put(request, prompt.id, 200, body)


if __name__ == "__main__":
    synthesise(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
