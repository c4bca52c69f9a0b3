"""Runs by batches against a server that has files and batches: every way in which they end."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.transforms.llm.batch.conftest import REQUESTS, STEPS, Dataset
from transforms.errors import EndpointError, OutputError
from transforms.llm.batch import submission
from transforms.llm.batch.endpoint import BatchEndpoint, BatchNotMadeError
from transforms.llm.batch.missing import MissingRequest
from transforms.llm.batch.records import BatchRecord, BatchRecords, BatchState
from transforms.llm.batch.submission import BatchBudget
from transforms.llm.cache import PartitionCache
from transforms.llm.calls import CallClass
from transforms.llm.fake_endpoint.batches import Fate
from transforms.llm.fake_endpoint.replies import Reply, completion, failure
from transforms.llm.fake_endpoint.server import FakeEndpoint
from transforms.llm.prices import Price
from transforms.publishing import storage


def waiting(results: list[tuple[CallClass, str]]) -> int:
    return sum(call_class is CallClass.BATCH for call_class, _ in results)


def outcome(record: BatchRecord) -> tuple[int, ...]:
    return tuple(record.counts[name] for name in ("answered", "refused", "unanswered"))


def run_to_the_end(dataset: Dataset, most: int = 30) -> list[tuple[CallClass, str]]:
    for _ in range(most):
        results = dataset.run()
        if not waiting(results):
            return results
    raise AssertionError("it does not come to an end")


def paid_once(endpoint: FakeEndpoint, requests: int = REQUESTS) -> bool:
    counts = endpoint.batches.answered
    return len(counts) == requests == counts.total()


def test_dependent_calls_advance_a_step_a_run_and_end_as_by_calls(
    endpoint: FakeEndpoint, dataset: Dataset, tmp_path: Path
) -> None:
    sizes = []
    for _ in range(STEPS):
        assert waiting(dataset.run()) == 5
        sizes.append(sum(record.requests for record in dataset.records() if record.open))
    results = dataset.run()
    assert sizes == [5, 5, 10]
    assert paid_once(endpoint)
    assert endpoint.requests == 0
    assert results == dataset.by_calls(tmp_path / "other")
    assert {call_class for call_class, _ in results} == {CallClass.OK}
    # Nothing is left but the records, nothing is submitted again.
    assert dataset.run() == results
    assert len(endpoint.batches.shown()) == STEPS
    assert {Path(name).suffix for name in os.listdir(dataset.directory)} <= {".json", ""}
    assert [record.state for record in dataset.records()] == [BatchState.COLLECTED] * STEPS
    assert [outcome(record) for record in dataset.records()] == [(size, 0, 0) for size in sizes]
    assert all(record.counts["completion_tokens"] > record.requests for record in dataset.records())


def test_input_files_are_what_the_api_asks_for(endpoint: FakeEndpoint, dataset: Dataset) -> None:
    dataset.run()
    (batch,) = endpoint.batches.shown()
    lines = [json.loads(line) for line in endpoint.batches.files["file-1"].splitlines()]
    assert len({line["custom_id"] for line in lines}) == 5
    for line in lines:
        assert len(line["custom_id"]) == 64
        assert (line["method"], line["url"]) == ("POST", "/v1/chat/completions")
        assert line["body"]["model"] == "fake"
        assert line["body"]["messages"][-1]["content"].startswith("Situation: ")
    assert batch["metadata"] == {"remint_batch": dataset.records()[0].name}


def test_what_is_in_progress_is_waited_for(endpoint: FakeEndpoint, dataset: Dataset) -> None:
    endpoint.batches.seconds = 3600
    assert waiting(dataset.run()) == 5
    dataset.items[1].append("f")
    assert waiting(dataset.run()) == 6
    assert waiting(dataset.run()) == 6
    assert [batch["status"] for batch in endpoint.batches.shown()] == ["validating"] * 2
    assert [record.requests for record in dataset.records()] == [5, 1]
    endpoint.batches.seconds = 0
    run_to_the_end(dataset)
    assert paid_once(endpoint, REQUESTS + 4)


@pytest.mark.parametrize("bound", ["requests", "bytes"])
def test_files_keep_the_bounds(
    bound: str, endpoint: FakeEndpoint, dataset: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    if bound == "requests":
        monkeypatch.setattr(submission, "MOST_REQUESTS", 2)
        endpoint.batches.most_requests = 2
    else:
        monkeypatch.setattr(submission, "MOST_BYTES", 1700)
        endpoint.batches.most_bytes = 1700
    dataset.run()
    assert [record.requests for record in dataset.records()] == [2, 2, 1]
    run_to_the_end(dataset)
    assert paid_once(endpoint)


def test_of_what_is_missing_one_file_is_held_at_a_time(
    dataset: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(submission, "MOST_REQUESTS", 3)
    taken = 0

    def missing() -> Iterator[MissingRequest]:
        nonlocal taken
        for taken in range(1, 11):
            key = f"{taken % 9:064x}"  # the last one is the first one's, in another partition
            yield MissingRequest(taken, key, "utterance.v1", b'{"model":"fake"}')

    records = BatchRecords(dataset.directory)
    planned = submission.plan(missing(), "e", [], records, BatchBudget(dataset.settings))
    assert [(record.requests, taken) for record in planned] == [(3, 4), (3, 7), (3, 10)]
    first, second, third = records.load()
    assert not any(record.alone for record in (first, second, third))
    assert list(records.requests(first).values()) == [
        ("utterance.v1", partitions) for partitions in ([1, 10], [2], [3])
    ]
    assert records.input(third).count(b"\n") == 3


@pytest.mark.parametrize("status", ["expired", "cancelled"])
def test_of_a_batch_that_ends_early_only_the_rest_is_submitted_again(
    status: str, endpoint: FakeEndpoint, dataset: Dataset
) -> None:
    endpoint.batches.fate = lambda number: Fate(status, 0.4) if number < 4 else Fate()
    run_to_the_end(dataset)
    assert paid_once(endpoint)
    first, second, *_ = dataset.records()
    assert outcome(first) == (2, 0, 3)
    assert (first.status, second.requests) == (status, 3 + 2)  # and the next step of the others


def test_a_batch_that_was_cancelled_by_hand(endpoint: FakeEndpoint, dataset: Dataset) -> None:
    import openai

    endpoint.batches.seconds = 3600
    endpoint.batches.fate = lambda number: Fate(share=0.6)
    dataset.run()
    with openai.OpenAI(api_key="key", base_url=endpoint.base_url) as client:
        client.batches.cancel(dataset.records()[0].batch_id)
    endpoint.batches.seconds = 0
    endpoint.batches.fate = lambda number: Fate()
    run_to_the_end(dataset)
    assert outcome(dataset.records()[0]) == (3, 0, 2)
    assert paid_once(endpoint)


def test_a_failed_batch_is_told_of_and_submitted_again(
    endpoint: FakeEndpoint, dataset: Dataset, caplog: pytest.LogCaptureFixture
) -> None:
    endpoint.batches.fate = lambda number: Fate("failed", code="odd") if not number else Fate()
    run_to_the_end(dataset)
    assert paid_once(endpoint)
    assert "failed (odd); 0 answered, 0 refused, 5 without an answer" in caplog.text


def test_where_too_much_waits_batches_go_one_by_one_and_get_smaller(
    endpoint: FakeEndpoint, dataset: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(submission, "MOST_REQUESTS", 4)
    endpoint.batches.most_waiting = 2
    results = run_to_the_end(dataset)
    assert {call_class for call_class, _ in results} == {CallClass.OK}
    assert paid_once(endpoint)
    sizes = [record.requests for record in dataset.records()]
    assert sizes[:4] == [4, 1, 4, 2]  # of two at once neither was alone; then the half of 4
    assert set(sizes[4:]) <= {1, 2}


def test_what_the_endpoint_refuses_dies_and_is_not_submitted_again(
    endpoint: FakeEndpoint, dataset: Dataset
) -> None:
    tries: list[int] = []

    def script(index: int, body: Any) -> Reply | None:
        asked = body["messages"][-1]["content"]
        if asked == "Situation: a":
            return failure(400, "context_length_exceeded")
        if asked == "Situation: b":
            return failure(400, "content_filter")
        if asked == "Situation: c":
            tries.append(index)
            return failure(500, "server_error") if len(tries) < 3 else None
        return None

    endpoint.script = script
    results = run_to_the_end(dataset)
    assert [call_class for call_class, _ in results] == [
        CallClass.REQUEST,
        CallClass.CONTENT_FILTER,
        *[CallClass.OK] * 3,
    ]
    assert paid_once(endpoint, 3 * 4)
    batches = len(endpoint.batches.shown())
    assert dataset.run() == results
    assert len(endpoint.batches.shown()) == batches
    # Run by calls the refused one is tried once more; what a filter stopped stays stopped.
    endpoint.script = lambda index, body: None
    by_calls = dataset.results(dataset.settings)
    assert [call_class for call_class, _ in by_calls[:2]] == [
        CallClass.OK,
        CallClass.CONTENT_FILTER,
    ]


def test_what_holds_no_answer_is_paid_for_once(endpoint: FakeEndpoint, dataset: Dataset) -> None:
    empty = '{"choices":[],"usage":{"prompt_tokens":70,"completion_tokens":30}}'
    dataset.items = {0: ["a"]}
    endpoint.script = lambda index, body: Reply(body=empty)
    results = run_to_the_end(dataset)
    assert [call_class for call_class, _ in results] == [CallClass.SERVER]
    assert len(endpoint.batches.shown()) == 1
    (record,) = dataset.records()
    assert (record.counts["refused"], record.counts["prompt_tokens"]) == (1, 70)
    endpoint.script = lambda index, body: None
    by_calls = dataset.results(dataset.settings)
    assert [call_class for call_class, _ in by_calls] == [CallClass.OK]


def test_a_cut_answer_gets_its_larger_retry_by_a_further_batch(
    endpoint: FakeEndpoint, dataset: Dataset
) -> None:
    def script(index: int, body: Any) -> Reply | None:
        return None if body["max_tokens"] > 100 else Reply(body=completion("{", "length"))

    endpoint.script = script
    results = run_to_the_end(dataset)
    assert {call_class for call_class, _ in results} == {CallClass.OK}
    assert len(endpoint.batches.shown()) == 2 * STEPS
    assert paid_once(endpoint, 2 * REQUESTS)


def test_one_request_of_two_partitions_is_submitted_once(
    endpoint: FakeEndpoint, dataset: Dataset
) -> None:
    dataset.items = {0: ["a"], 1: ["a"]}
    endpoint.batches.seconds = 3600
    dataset.run()
    dataset.items[2] = ["a"]  # and one that comes while it is open
    dataset.run()
    endpoint.batches.seconds = 0
    results = run_to_the_end(dataset)
    assert [call_class for call_class, _ in results] == [CallClass.OK] * 3
    assert paid_once(endpoint, 4)


def test_who_waits_for_a_batch_is_known_although_the_next_one_was_refused(
    endpoint: FakeEndpoint, dataset: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(submission, "MOST_REQUESTS", 1)
    create = BatchEndpoint.create

    def refused(self: BatchEndpoint, name: str, file: str) -> Any:
        if endpoint.batches.shown():
            raise BatchNotMadeError("refused")
        return create(self, name, file)

    dataset.items = {0: ["a", "b"], 1: ["a"]}
    with monkeypatch.context() as patched:
        patched.setattr(BatchEndpoint, "create", refused)
        with pytest.raises(EndpointError, match="1 batches are submitted"):
            dataset.run()
    results = run_to_the_end(dataset)
    assert [call_class for call_class, _ in results] == [CallClass.OK] * 3
    assert paid_once(endpoint, 8)


def test_a_budget_bounds_what_a_run_submits(endpoint: FakeEndpoint, dataset: Dataset) -> None:
    whole = dataset.settings
    dataset.settings = replace(whole, max_calls=3)
    dataset.run()
    assert [record.requests for record in dataset.records()] == [3]
    dataset.settings = replace(whole, max_cost=0.0, price=Price(1.0, 1.0, 1.0))
    dataset.run()
    assert len(dataset.records()) == 1
    # Of 100 tokens at most and some 700 bytes each, two fit.
    dataset.settings = replace(whole, max_cost=0.0018, price=Price(1.0, 1.0, 1.0))
    assert waiting(dataset.run()) == 5
    assert [record.requests for record in dataset.records()] == [3, 2]
    dataset.settings = whole
    run_to_the_end(dataset)
    assert paid_once(endpoint)


class _Killed(BaseException):
    """What ends a run where a kill would."""


@pytest.mark.parametrize("after", [False, True])
def test_broken_off_at_any_step_nothing_is_paid_twice(
    after: bool,
    endpoint: FakeEndpoint,
    dataset: Dataset,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(submission, "MOST_REQUESTS", 2)
    killed = True
    steps = 0
    while killed:
        steps += 1
        one = replace(
            dataset,
            settings=replace(dataset.settings, cache=str(tmp_path / f"{steps}" / "cache")),
            directory=str(tmp_path / f"{steps}" / "batches"),
            items={0: [f"{steps} a", f"{steps} b"], 1: [f"{steps} c", f"{steps} a"]},
        )
        one.run()
        with pytest.MonkeyPatch.context() as patched:
            left = [steps]
            for owner, name in (
                *((storage, name) for name in ("write_bytes", "remove_file", "remove_tree")),
                *((BatchEndpoint, name) for name in ("upload", "create", "retrieve", "lines")),
                (PartitionCache, "put"),
            ):
                patched.setattr(owner, name, _dying(getattr(owner, name), left, after=after))
            try:
                one.run()  # collects one step and submits the next
                killed = False
            except _Killed:
                pass
        results = run_to_the_end(one)
        assert {call_class for call_class, _ in results} == {CallClass.OK}
        assert paid_once(endpoint, steps * 12)
        assert {record.state for record in one.records()} == {BatchState.COLLECTED}
    assert steps > 15


def _dying(function: Callable[..., Any], left: list[int], *, after: bool) -> Callable[..., Any]:
    """Return ``function`` so that the call that makes ``left`` 0 dies, before or after its work."""

    def wrapped(*arguments: Any, **named: Any) -> Any:
        left[0] -= 1
        if left[0] == 0 and not after:
            raise _Killed
        result = function(*arguments, **named)
        if left[0] == 0:
            raise _Killed  # what was done is known to the endpoint, or the disk, alone
        return result

    return wrapped


def test_a_lost_reply_to_the_making_of_a_batch_is_made_up_for_by_its_metadata(
    endpoint: FakeEndpoint, dataset: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    create = BatchEndpoint.create

    def lost(self: BatchEndpoint, name: str, file: str) -> Any:
        create(self, name, file)
        raise EndpointError("no reply")

    monkeypatch.setattr(BatchEndpoint, "create", lost)
    run_to_the_end(dataset)
    assert len(endpoint.batches.shown()) == STEPS
    assert paid_once(endpoint)


@pytest.mark.parametrize("kept", ["all", "no metadata", "no date", "an hour early", "late"])
def test_a_batch_that_was_made_is_found_whatever_the_endpoint_keeps_of_it(
    kept: str, endpoint: FakeEndpoint, dataset: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    worded, listed = endpoint.batches._worded, endpoint.batches.shown
    foreign = {"id": "batch_x", "metadata": {"of": "others"}, "input_file_id": "file-x"}

    def with_foreign_first() -> list[dict[str, Any]]:
        return [{**listed()[0], **foreign}, *listed()] if listed() else []

    def changed(batch: Any) -> dict[str, Any]:
        told = worded(batch)
        changes = {
            "no metadata": {"metadata": None},
            "no date": {"created_at": None},
            "an hour early": {"created_at": told["created_at"] - 7200},
        }
        return {**told, **changes.get(kept, {})}

    monkeypatch.setattr(endpoint.batches, "_worded", changed)
    monkeypatch.setattr(endpoint.batches, "shown", with_foreign_first)
    with monkeypatch.context() as patched:
        save = BatchRecords.save

        def unsaved(self: BatchRecords, record: BatchRecord, **changes: Any) -> BatchRecord:
            if "batch_id" in changes:
                raise _Killed
            return save(self, record, **changes)

        patched.setattr(BatchRecords, "save", unsaved)
        with pytest.raises(_Killed):
            dataset.run()
    if kept == "late":
        monkeypatch.setattr(BatchEndpoint, "find", _late(BatchEndpoint.find, [2]))
    run_to_the_end(dataset)
    assert len(listed()) == STEPS
    assert paid_once(endpoint)


def _late(function: Callable[..., Any], left: list[int]) -> Callable[..., Any]:
    """Return ``function`` so that only its ``left``-th call finds anything."""

    def wrapped(*arguments: Any) -> Any:
        left[0] -= 1
        return {} if left[0] else function(*arguments)

    return wrapped


def test_a_refused_batch_is_planned_anew(
    endpoint: FakeEndpoint, dataset: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("transforms.llm.batch.endpoint.WINDOW", "48h")
    with pytest.raises(EndpointError, match=r"HTTP 400.*; 0 batches are submitted"):
        dataset.run()
    assert dataset.records() == []
    monkeypatch.undo()
    run_to_the_end(dataset)
    assert paid_once(endpoint)


def test_a_batch_that_the_endpoint_has_lost_is_not_submitted_again_unasked(
    endpoint: FakeEndpoint, dataset: Dataset
) -> None:
    dataset.run()
    dataset.run()
    (open_one,) = [record for record in dataset.records() if record.open]
    endpoint.batches.files.clear()
    endpoint.batches._batches.clear()
    with pytest.raises(EndpointError, match=rf"HTTP 404.*is not lost.*{open_one.name}\.json"):
        dataset.run()
    os.unlink(BatchRecords(dataset.directory).place(open_one.name, ".json"))
    run_to_the_end(dataset)
    assert endpoint.batches.answered.total() == REQUESTS + 5  # as was asked for


def test_a_record_that_cannot_be_read_stops_the_run(dataset: Dataset) -> None:
    dataset.run()
    (record,) = dataset.records()
    place = Path(BatchRecords(dataset.directory).place(record.name, ".json"))
    place.write_text(place.read_text().replace('"format_version": 1', '"format_version": 2'))
    with pytest.raises(OutputError, match="paid for"):
        dataset.run()


def test_an_endpoint_without_batches_is_told_of_before_the_run(
    dataset: Dataset, endpoint: FakeEndpoint
) -> None:
    dataset.settings = replace(dataset.settings, base_url=endpoint.base_url + "/nothing")
    with pytest.raises(EndpointError, match="has no offline batches"):
        dataset.run()
    dataset.settings = replace(dataset.settings, base_url="http://127.0.0.1:9/v1")
    with pytest.raises(EndpointError, match="no reply"):
        dataset.run()
