"""Partitions stream through the Beam stage: none waits for another, none is lost."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.testing.util import assert_that, equal_to
from apache_beam.transforms.window import GlobalWindow
from apache_beam.utils.timestamp import Timestamp

from transforms.errors import OutputError
from transforms.llm.calls import Caller
from transforms.llm.fake_endpoint.latency import uniform
from transforms.llm.fake_endpoint.replies import Reply
from transforms.llm.fake_endpoint.server import FakeEndpoint
from transforms.llm.prompts import Prompt
from transforms.llm.settings import EngineSettings
from transforms.llm.streaming import CallPartitions

Make = Callable[..., EngineSettings]


@dataclass
class Lengths:
    """Asks once per word of a partition's text; yields the words whose call went well."""

    prompt: Prompt

    def items(self, partition: str) -> Sequence[str]:
        return partition.split()

    def key(self, item: str) -> str:
        return item

    async def work(self, item: str, caller: Caller) -> tuple[str, bool]:
        if item == "fault":
            raise KeyError("a fault of the program")
        answer = await caller(self.prompt, {"situation": item})
        return item, answer.ok

    def finish(
        self, partition: str, results: list[tuple[str, bool]], counts: Mapping[str, int]
    ) -> Iterator[Any]:
        yield beam.pvalue.TaggedOutput("sizes", len(results))
        for word, ok in results:
            if ok:
                yield word


def feed(function: CallPartitions[Any, Any, Any], number: int, text: str) -> list[Any]:
    return list(function.process((number, text), Timestamp(number), GlobalWindow()))


def test_a_pipeline_gives_out_every_partition(prompt: Prompt, settings: Make) -> None:
    partitions = [(number, " ".join(f"w{number}x{n}" for n in range(4))) for number in range(10)]
    expected = [word for _, text in partitions for word in text.split()]
    with FakeEndpoint(latency=uniform(0.0, 0.04)) as endpoint:
        given = settings(endpoint.base_url)
        pipeline = beam.Pipeline(runner="FnApiRunner", options=PipelineOptions([]))
        outputs = (
            pipeline
            | "partitions" >> beam.Create(partitions)
            | "calls"
            >> beam.ParDo(CallPartitions(given, Lengths(prompt), 2)).with_outputs(
                "sizes", main="words"
            )
        )
        assert_that(outputs.words, equal_to(expected), label="words")
        assert_that(outputs.sizes, equal_to([4] * 10), label="sizes")
        result = pipeline.run()
        result.wait_until_finish()
        assert endpoint.requests == 40
    counters = {
        metric.key.metric.name: metric.committed
        for metric in result.metrics().query()["counters"]
        if metric.key.metric.namespace == "remint"
    }
    assert counters["calls_sent"] == counters["class_ok"] == counters["keys_done"] == 40
    assert counters["tokens_prompt"] == endpoint.prompt_tokens
    assert counters["tokens_completion"] == endpoint.completion_tokens
    latencies = {
        metric.key.metric.name: metric.committed
        for metric in result.metrics().query()["distributions"]
        if metric.key.metric.namespace == "remint"
    }
    assert set(latencies) == {"latency_milliseconds", "utterance.v1 fake/latency_milliseconds"}
    for latency in latencies.values():
        assert latency.count == 40
        assert 0 < latency.min <= latency.max < 60_000
    assert not [name for name in counters if "latency" in name]


def test_a_slow_partition_is_overtaken_and_the_bound_holds(prompt: Prompt, settings: Make) -> None:
    gate = threading.Event()

    def script(index: int, body: Any) -> Reply | None:
        return Reply(delay=2.0) if body["messages"][-1]["content"].endswith("slow") else None

    with FakeEndpoint(script) as endpoint:
        function = CallPartitions(settings(endpoint.base_url), Lengths(prompt), 2)
        function = pickle.loads(pickle.dumps(function))
        function.setup()
        function.start_bundle()
        given_out = feed(function, 0, "slow") + feed(function, 1, "a") + feed(function, 2, "b c")
        words = [output.value for output in given_out if not hasattr(output, "tag")]
        # One of three is held still, and it is not an overtaken one.
        assert words
        assert set(words) <= {"a", "b", "c"}
        last = [output for output in function.finish_bundle() if not hasattr(output, "tag")]
        assert sorted(words + [output.value for output in last]) == ["a", "b", "c", "slow"]
        slow = next(output for output in last if output.value == "slow")
        assert slow.timestamp == Timestamp(0)
        assert slow.windows == (GlobalWindow(),)
        function.teardown()
    gate.set()


def test_a_fault_of_the_program_stops_the_run(prompt: Prompt, settings: Make) -> None:
    with FakeEndpoint() as endpoint:
        function = CallPartitions(settings(endpoint.base_url), Lengths(prompt))
        function.start_bundle()
        feed(function, 0, "a fault b")
        with pytest.raises(KeyError, match="a fault of the program"):
            list(function.finish_bundle())
        function.teardown()


def test_a_bundle_that_fails_elsewhere_breaks_off_its_calls(prompt: Prompt, settings: Make) -> None:
    gate = threading.Event()

    def script(index: int, body: Any) -> Reply | None:
        if index == 0:
            gate.wait(10)
        return Reply(delay=60.0) if body["messages"][-1]["content"].endswith("slow") else None

    with FakeEndpoint(script) as endpoint:
        function = CallPartitions(settings(endpoint.base_url, concurrency=1), Lengths(prompt))
        function.start_bundle()
        assert feed(function, 0, "a") + feed(function, 1, "slow b c") == []
        outputs = function.finish_bundle()
        gate.set()
        next(outputs)
        outputs.close()  # what comes after this step has failed
        # The slow call's place is free, and what came after it in its partition is not begun.
        function.start_bundle()
        last = feed(function, 2, "d") + list(function.finish_bundle())
        assert "d" in [getattr(output, "value", None) for output in last]
        assert endpoint.requests <= 3
        function.teardown()


@pytest.mark.parametrize("then", ["a bundle is begun", "work fails"])
def test_what_a_failed_bundle_held_is_broken_off(
    then: str, prompt: Prompt, settings: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bundle that fails before or after this step is told to this one by the next one alone."""
    with FakeEndpoint(lambda index, body: Reply(hang=True)) as endpoint:
        function = CallPartitions(settings(endpoint.base_url), Lengths(prompt))
        function.start_bundle()
        feed(function, 0, "slow slower")
        (held,) = function._held
        if then == "work fails":
            monkeypatch.delattr(Lengths, "items")
            with pytest.raises(AttributeError):
                feed(function, 1, "a")
        else:
            function.start_bundle()
        assert held.results.cancelled()
        assert list(function.finish_bundle()) == []
        function.teardown()


def test_a_partition_without_items_is_given_out_too(prompt: Prompt, settings: Make) -> None:
    with FakeEndpoint() as endpoint:
        function = CallPartitions(settings(endpoint.base_url), Lengths(prompt))
        function.start_bundle()
        (output,) = feed(function, 0, "") + list(function.finish_bundle())
        assert (output.tag, output.value.value) == ("sizes", 0)
        assert endpoint.requests == 0
        function.teardown()
    with pytest.raises(ValueError, match="at least 1"):
        CallPartitions(settings("http://localhost/v1"), Lengths(prompt), 0)


def test_a_worker_that_does_not_share_the_output_makes_no_call(
    prompt: Prompt, settings: Make, tmp_path: Path
) -> None:
    elsewhere = replace(settings("http://127.0.0.1:9/v1"), cache=str(tmp_path / "out" / "cache"))
    function = CallPartitions(elsewhere, Lengths(prompt))
    with pytest.raises(OutputError, match="on a folder that all workers share"):
        function.setup()
    (tmp_path / "out").mkdir()
    function.setup()
