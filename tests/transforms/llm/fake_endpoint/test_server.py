"""The server counts, limits and fails; plain HTTP, without the engine."""

from __future__ import annotations

import http.client
import json
import threading
import time
from collections import Counter
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import pytest

from transforms.llm.fake_endpoint.faults import FaultPlan
from transforms.llm.fake_endpoint.replies import Reply
from transforms.llm.fake_endpoint.server import FakeEndpoint
from transforms.llm.fake_endpoint.windows import RateLimits
from transforms.llm.rate_headers import rate_report


def ask(
    endpoint: FakeEndpoint, question: str, timeout: float = 20, **more: Any
) -> tuple[int, dict[str, str], dict[str, Any]]:
    body = {"model": "fake", "messages": [{"role": "user", "content": question}], **more}
    return post(endpoint, json.dumps(body), timeout)


def post(
    endpoint: FakeEndpoint, body: str, timeout: float = 20
) -> tuple[int, dict[str, str], dict[str, Any]]:
    place = urlsplit(endpoint.base_url)
    connection = http.client.HTTPConnection(place.netloc, timeout=timeout)
    try:
        connection.request("POST", f"{place.path}/chat/completions", body)
        response = connection.getresponse()
        headers = {name.lower(): value for name, value in response.getheaders()}
        return response.status, headers, json.loads(response.read())
    finally:
        connection.close()


def admin(endpoint: FakeEndpoint, page: str) -> dict[str, Any]:
    connection = http.client.HTTPConnection(urlsplit(endpoint.base_url).netloc, timeout=20)
    try:
        connection.request("GET", f"/admin/{page}")
        found: dict[str, Any] = json.loads(connection.getresponse().read())
        return found
    finally:
        connection.close()


def test_the_admin_pages_tell_what_came() -> None:
    with FakeEndpoint() as endpoint:
        replies = [ask(endpoint, question) for question in ("a", "b", "a")]
        assert replies[0][2] == replies[2][2] != replies[1][2]
        counts = admin(endpoint, "counts")
        assert counts == endpoint.counts()
        assert (counts["requests"], counts["answered"]) == (3, 3)
        assert counts["bodies"] == {"distinct": 2, "most_often_seen": 2, "completed_again": 1}
        usage = [reply[2]["usage"] for reply in replies]
        assert counts["tokens"]["prompt"] == sum(each["prompt_tokens"] for each in usage)
        assert counts["tokens"]["completion"] == sum(each["completion_tokens"] for each in usage)
        assert sorted(admin(endpoint, "bodies").values()) == [[1, 1], [2, 2]]


def test_rates_are_kept_and_told() -> None:
    with FakeEndpoint(limits=RateLimits(requests=2, seconds=600)) as endpoint:
        replies = [ask(endpoint, str(number)) for number in range(4)]
        assert [status for status, *_ in replies] == [200, 200, 429, 429]
        left = [rate_report(headers).requests for _, headers, _ in replies]
        assert [each.remaining if each else None for each in left] == [1, 0, 0, 0]
        assert 590 < int(replies[2][1]["retry-after"]) <= 600
        counts = endpoint.counts()
        assert counts["window"]["requests"] == {"limit": 2, "greatest": 4}
        assert counts["faults"] == {"limit": 2}
        assert counts["statuses"] == {"200": 2, "429": 2}


def test_tokens_count_with_their_answers() -> None:
    with FakeEndpoint(limits=RateLimits(tokens=100, seconds=600)) as endpoint:
        status, _, reply = ask(endpoint, "a")
        assert status == 200
        used = reply["usage"]["total_tokens"]
        assert endpoint.counts()["window"]["tokens"]["greatest"] == used
        while ask(endpoint, "a")[0] == 200:
            used += reply["usage"]["total_tokens"]
        assert used <= 100 < used + reply["usage"]["total_tokens"]


def test_faults_are_met_in_the_same_places_again() -> None:
    plan = FaultPlan({"500": 0.3, "429_seconds": 0.3})
    runs = []
    for seed in (0, 0, 1):
        with FakeEndpoint(faults=plan, seed=seed) as endpoint:
            runs.append([ask(endpoint, str(number % 20))[0] for number in range(40)])
            assert Counter(runs[-1])[500] == endpoint.met["500"] > 0
    assert runs[0] == runs[1] != runs[2]
    assert runs[0][:20] != runs[0][20:]


def test_cut_hung_and_slow_answers() -> None:
    with FakeEndpoint(faults=FaultPlan({"cut": 1.0})) as endpoint:
        with pytest.raises(http.client.IncompleteRead):
            ask(endpoint, "a")
        assert (endpoint.requests, endpoint.answered) == (1, 0)
    with FakeEndpoint(faults=FaultPlan({"hang": 1.0})) as endpoint:
        with pytest.raises(TimeoutError):
            ask(endpoint, "a", timeout=0.1)
        assert endpoint.answered == 0
    with FakeEndpoint(faults=FaultPlan({"slow": 1.0}, slow=0.05)) as endpoint:
        status, _, reply = ask(endpoint, "a")
        assert status == 200
        assert reply["choices"]


@pytest.mark.parametrize("body", ["", "[]", "{}", '{"messages": []}', '{"messages": ["x"]}'])
def test_what_is_no_request_is_refused(body: str) -> None:
    with FakeEndpoint() as endpoint:
        status, _, reply = post(endpoint, body)
        assert status == 400
        assert reply["error"]["code"] == "invalid_request_error"
        assert ask(endpoint, "a")[0] == 200


def test_work_begins_where_requests_overlap() -> None:
    def hang(index: int, body: Mapping[str, Any]) -> Reply | None:
        return Reply(hang=True) if index == 2 else None

    def left_hanging() -> None:
        with pytest.raises((OSError, http.client.HTTPException)):
            ask(endpoint, "hangs")

    with FakeEndpoint(hang) as endpoint:
        ask(endpoint, "tries")
        first = endpoint.began
        ask(endpoint, "tries again")
        assert endpoint.began == first > 0
        hanging = threading.Thread(target=left_hanging)
        hanging.start()
        while not endpoint.in_work:
            time.sleep(0.01)
        assert endpoint.began == first
        ask(endpoint, "beside it")
        began = endpoint.began
        assert began > first
        ask(endpoint, "beside it, too")
        assert endpoint.began == began
        assert endpoint.counts()["seconds"] == round(endpoint.ended - began, 4) > 0
    hanging.join()


def test_the_same_messages_meet_the_same_latency_however_they_are_worded() -> None:
    drawn: list[float] = []

    def latency(draw: float) -> float:
        drawn.append(draw)
        return 0.0

    with FakeEndpoint(latency=latency) as endpoint:
        ask(endpoint, "a", temperature=0.5)
        ask(endpoint, "a", max_tokens=7)
        messages = [{"content": "a", "role": "user"}]
        post(endpoint, json.dumps({"messages": messages, "model": "fake"}, indent=1))
        ask(endpoint, "b")
    assert drawn[0] == drawn[1] == drawn[2] != drawn[3]
