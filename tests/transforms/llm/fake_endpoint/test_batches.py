"""The endpoint's files and batches, by the openai package: what they take, refuse and give back."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import openai
import pytest

from transforms.llm.fake_endpoint.batches import Fate
from transforms.llm.fake_endpoint.replies import Reply, failure
from transforms.llm.fake_endpoint.server import FakeEndpoint


@pytest.fixture
def endpoint() -> Iterator[FakeEndpoint]:
    with FakeEndpoint(key="sk-right") as running:
        yield running


@pytest.fixture
def client(endpoint: FakeEndpoint) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(api_key="sk-right", base_url=endpoint.base_url, max_retries=0) as client:
        yield client


def line(identity: str, model: str = "fake", **changes: Any) -> bytes:
    body = {"model": model, "messages": [{"role": "user", "content": identity}]}
    whole = {"custom_id": identity, "method": "POST", "url": "/v1/chat/completions", "body": body}
    return json.dumps({**whole, **changes}).encode() + b"\n"


def make(client: openai.OpenAI, data: bytes, name: str = "x") -> Any:
    file = client.files.create(file=("input.jsonl", data), purpose="batch")
    return client.batches.create(
        input_file_id=file.id,
        endpoint="/v1/chat/completions",
        completion_window="24h",
        metadata={"name": name},
    )


def lines_of(client: openai.OpenAI, file: str | None) -> list[dict[str, Any]]:
    assert file is not None
    return [json.loads(line) for line in client.files.content(file).content.splitlines()]


def test_answers_and_errors_come_in_files_of_their_own(
    endpoint: FakeEndpoint, client: openai.OpenAI
) -> None:
    def script(index: int, body: Any) -> Reply | None:
        return failure(400, "odd") if body["messages"][0]["content"] == "b" else None

    endpoint.script = script
    made = make(client, line("a") + line("b") + line("c"))
    assert (made.status, made.metadata) == ("validating", {"name": "x"})
    done = client.batches.retrieve(made.id)
    assert done.status == "completed"
    assert done.request_counts is not None
    assert dict(done.request_counts) == {"total": 3, "completed": 2, "failed": 1}
    answers = lines_of(client, done.output_file_id)
    assert [answer["custom_id"] for answer in answers] == ["a", "c"]
    assert answers[0]["response"]["status_code"] == 200
    assert answers[0]["response"]["body"]["choices"][0]["finish_reason"] == "stop"
    (error,) = lines_of(client, done.error_file_id)
    assert error["response"]["status_code"] == 400
    assert error["response"]["body"]["error"]["code"] == "odd"
    assert endpoint.batches.answered == {"a": 1, "c": 1}


def test_the_same_request_has_the_answer_that_a_call_has(client: openai.OpenAI) -> None:
    made = make(client, line("a"))
    (answer,) = lines_of(client, client.batches.retrieve(made.id).output_file_id)
    called = client.chat.completions.create(
        model="fake", messages=[{"role": "user", "content": "a"}]
    )
    by_batch = answer["response"]["body"]["choices"][0]["message"]["content"]
    assert json.loads(by_batch).keys() == json.loads(called.choices[0].message.content or "").keys()


def test_a_batch_goes_through_its_states(endpoint: FakeEndpoint, client: openai.OpenAI) -> None:
    endpoint.batches.seconds = 1000
    made = make(client, line("a"))
    (batch,) = endpoint.batches._batches.values()
    for elapsed, status in (
        (50, "validating"),
        (500, "in_progress"),
        (950, "finalizing"),
        (1001, "completed"),
    ):
        batch.created = made.created_at - elapsed
        found = client.batches.retrieve(made.id)
        assert found.status == status
        assert (found.output_file_id is None) is (status != "completed")


@pytest.mark.parametrize("status", ["expired", "cancelled"])
def test_what_ends_early_has_a_part_of_the_answers(
    status: str, endpoint: FakeEndpoint, client: openai.OpenAI
) -> None:
    endpoint.batches.fate = lambda number: Fate(status, 0.5)
    done = client.batches.retrieve(make(client, b"".join(map(line, "abcd"))).id)
    assert done.status == status
    assert [each["custom_id"] for each in lines_of(client, done.output_file_id)] == ["a", "b"]
    errors = lines_of(client, done.error_file_id)
    assert [each["error"]["code"] for each in errors] == [f"batch_{status}"] * 2
    assert [each["response"] for each in errors] == [None, None]


@pytest.mark.parametrize(
    ("data", "code", "number"),
    [
        (b"", "empty_file", None),
        (line("a") + b"{}\n", "invalid_json_line", 2),
        (line("a") + line("a"), "duplicate_custom_id", 2),
        (line("a") + line("b", "other"), "mismatched_model", None),
        (line("a", url="/v1/embeddings"), "mismatched_endpoint", 1),
        (b"".join(map(line, "abcd")), "too_many_requests", None),
        (line("a" * 1000), "file_too_large", None),
    ],
)
def test_an_input_that_breaks_a_rule_fails_as_a_whole(
    data: bytes, code: str, number: int | None, endpoint: FakeEndpoint, client: openai.OpenAI
) -> None:
    endpoint.batches.most_requests, endpoint.batches.most_bytes = 3, 1500
    done = client.batches.retrieve(make(client, data).id)
    assert done.status == "failed"
    assert done.errors is not None
    assert done.errors.data is not None
    assert [(error.code, error.line) for error in done.errors.data] == [(code, number)]
    assert not endpoint.batches.answered


def test_more_than_may_wait_fails(endpoint: FakeEndpoint, client: openai.OpenAI) -> None:
    endpoint.batches.seconds, endpoint.batches.most_waiting = 1000, 3
    first, second = make(client, line("a") + line("b")), make(client, line("c") + line("d"))
    assert client.batches.retrieve(first.id).status == "validating"
    assert client.batches.retrieve(second.id).status == "failed"
    assert client.batches.retrieve(make(client, line("e")).id).status == "validating"


def test_cancelling(endpoint: FakeEndpoint, client: openai.OpenAI) -> None:
    endpoint.batches.seconds = 1000
    endpoint.batches.fate = lambda number: Fate(share=0.5)
    made = make(client, line("a") + line("b"))
    client.batches.cancel(made.id)
    done = client.batches.retrieve(made.id)
    assert done.status == "cancelled"
    assert len(lines_of(client, done.output_file_id)) == 1
    assert client.batches.cancel(made.id).status == "cancelled"


def test_lists_come_in_pages_the_newest_first(client: openai.OpenAI) -> None:
    for number in range(5):
        make(client, line("a"), f"{number}")
    page = client.batches.list(limit=2)
    assert page.has_more
    names = [(batch.metadata or {})["name"] for batch in page]
    assert names == ["4", "3", "2", "1", "0"]
    assert len(list(client.files.list(limit=3))) >= 5


def test_files_can_be_looked_at_and_deleted(client: openai.OpenAI) -> None:
    file = client.files.create(file=("input.jsonl", b"abc"), purpose="batch")
    assert client.files.retrieve(file.id).bytes == 3
    assert client.files.content(file.id).content == b"abc"
    assert client.files.delete(file.id).deleted
    for ask in (client.files.retrieve, client.files.content, client.files.delete):
        with pytest.raises(openai.NotFoundError):
            ask(file.id)


def test_what_is_not_there_or_not_allowed_is_refused(
    endpoint: FakeEndpoint, client: openai.OpenAI
) -> None:
    for ask in (client.batches.retrieve, client.batches.cancel):
        with pytest.raises(openai.NotFoundError):
            ask("batch_9")
    with pytest.raises(openai.BadRequestError):
        client.files.create(file=("x", b"x"), purpose="assistants")
    with pytest.raises(openai.BadRequestError):
        client.batches.create(
            input_file_id="file-9", endpoint="/v1/chat/completions", completion_window="24h"
        )
    file = client.files.create(file=("input.jsonl", line("a")), purpose="batch")
    with pytest.raises(openai.BadRequestError):
        client.batches.create(
            input_file_id=file.id, endpoint="/v1/embeddings", completion_window="24h"
        )
    with (
        openai.OpenAI(api_key="wrong", base_url=endpoint.base_url) as stranger,
        pytest.raises(openai.AuthenticationError),
    ):
        stranger.batches.list()
