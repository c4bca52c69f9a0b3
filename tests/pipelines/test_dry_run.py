"""A dry run against the run that follows it: calls, tokens and money, by the endpoint's account."""

from __future__ import annotations

import hashlib
import json
import random
import socket
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from pipelines.cli import main
from pipelines.metricinstruct import command as metricinstruct
from pipelines.metricinstruct.options import MetricInstructOptions, metricinstruct_parser
from pipelines.metricinstruct.sources.samples import sample_files
from pipelines.option_parsing import parse
from pipelines.prosocial import command as prosocial
from pipelines.prosocial.options import ProsocialOptions, prosocial_parser
from transforms.llm.estimates import Estimate
from transforms.llm.fake_endpoint.answers import answer
from transforms.llm.fake_endpoint.replies import Reply, completion
from transforms.llm.fake_endpoint.server import FakeEndpoint
from transforms.llm.tokens import token_counter
from transforms.publishing.publish import Status

ROOT = Path(__file__).resolve().parents[2]
SAMPLES = ROOT / "pipelines" / "prosocial" / "samples"
SEEDS = (
    f"socialchemistry={SAMPLES}/social-chem-101.sample.tsv",
    f"sbic={SAMPLES}/SBIC.v2.sample.*.csv",
    f"ethics={SAMPLES}/cm_*.csv",
)
#: A model whose encoding is known, and one that nothing is known of.
KNOWN, UNKNOWN = "gpt-4o-mini", "some-model"


@pytest.fixture(autouse=True)
def _offline(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)


class OtherRuler:
    """An endpoint's script that counts by another encoding than the dry run takes."""

    def __init__(self) -> None:
        pytest.importorskip("bpe_openai", reason="the extra 'tokens' is not installed")
        self.count = token_counter("gpt-4").count
        self.used: Counter[str] = Counter()

    def __call__(self, index: int, body: Mapping[str, Any]) -> Reply:
        texts = [message["content"] for message in body["messages"]]
        schema = body["response_format"]["json_schema"]["schema"]
        source = random.Random(hashlib.sha256(texts[-1].encode()).digest())
        content = json.dumps(answer(schema, source), separators=(",", ":"))
        usage = {
            "prompt_tokens": sum(map(self.count, texts)) + 5 * len(texts),
            "completion_tokens": self.count(content),
        }
        self.used.update(usage)
        self.used["calls"] += 1
        reply = json.loads(completion(content))
        reply["usage"] = usage
        return Reply(body=json.dumps(reply))


class Used(NamedTuple):
    """What an endpoint has served so far."""

    calls: int
    prompt_tokens: int
    completion_tokens: int

    @classmethod
    def by(cls, endpoint: FakeEndpoint) -> Used:
        return cls(endpoint.requests, endpoint.prompt_tokens, endpoint.completion_tokens)

    def since(self, before: Used) -> Used:
        return Used(*(now - then for now, then in zip(self, before, strict=True)))


def assert_near(found: Estimate, used: Used) -> None:
    """Calls are exact, and tokens within the issue's 5 %."""
    assert found.calls == used.calls
    assert found.prompt_tokens == pytest.approx(used.prompt_tokens, rel=0.05)
    total = used.prompt_tokens + used.completion_tokens
    assert found.prompt_tokens + found.completion_tokens == pytest.approx(total, rel=0.05)


@pytest.fixture
def endpoint() -> Iterator[FakeEndpoint]:
    with FakeEndpoint(models=(KNOWN, UNKNOWN)) as running:
        yield running


def prosocial_options(endpoint: FakeEndpoint, output: Path, *more: str) -> ProsocialOptions:
    given = ["--seeds", *SEEDS, "--output", str(output), "--partitions", "4", "--crowd", "llm"]
    model = ["--model", UNKNOWN] if "--model" not in more else []
    given += [*model, "--base-url", endpoint.base_url, *more]
    return parse(prosocial_parser(), ProsocialOptions, given)


def metricinstruct_options(
    endpoint: FakeEndpoint, output: Path, *more: str
) -> MetricInstructOptions:
    given = ["--output", str(output), "--partitions", "2"]
    for file in sample_files():
        given += ["--sources" if file.channel == "real" else "--synthetic"]
        given += [f"{file.source}={file.path}"]
        given += [part for path in file.outputs for part in ("--outputs", f"{file.source}={path}")]
    model = ["--model", UNKNOWN] if "--model" not in more else []
    given += [*model, "--base-url", endpoint.base_url, *more]
    return parse(metricinstruct_parser(), MetricInstructOptions, given)


def calls_by_prompt(result: Any) -> dict[str, int]:
    ledger = json.loads((Path(result.path) / "ledger.json").read_text())
    return {row["prompt"]: row["calls_sent"] for row in ledger["calls"] if row.get("calls_sent")}


def told(found: Estimate) -> dict[str, int]:
    return {one.prompt: one.calls for one in found.prompts if one.calls}


@pytest.mark.parametrize("model", [KNOWN, UNKNOWN])
def test_dialogues_cold_and_half_warm(endpoint: FakeEndpoint, tmp_path: Path, model: str) -> None:
    given = ("--model", model)
    cold = prosocial.estimate(prosocial_options(endpoint, tmp_path / "o", *given))
    assert endpoint.requests == 0
    assert not (tmp_path / "o").exists()

    half = prosocial.mint(prosocial_options(endpoint, tmp_path / "o", *given, "--limit", "30"))
    assert half.status is Status.PUBLISHED
    before = Used.by(endpoint)
    warm = prosocial.estimate(prosocial_options(endpoint, tmp_path / "o", *given))
    assert Used.by(endpoint) == before
    assert sorted(path.name for path in (tmp_path / "o" / "prosocial").glob("v*")) == ["v0001"]

    whole = prosocial.mint(prosocial_options(endpoint, tmp_path / "o", *given))
    assert_near(warm, Used.by(endpoint).since(before))
    assert told(warm) == calls_by_prompt(whole)
    assert warm.cached == before.calls
    assert_near(cold, Used.by(endpoint))

    ledger = json.loads((Path(whole.path) / "ledger.json").read_text())
    medians = [row["latency"]["p50"] for row in ledger["calls"] if row["latency"]]
    done = prosocial.estimate(prosocial_options(endpoint, tmp_path / "o", *given))
    assert (done.calls, done.prompt_tokens, done.completion_tokens) == (0, 0, 0)
    assert done.cached == endpoint.requests
    assert min(medians) <= done.time.latency <= max(medians)


@pytest.mark.parametrize("model", [KNOWN, UNKNOWN])
def test_analyses_cold_and_half_warm(endpoint: FakeEndpoint, tmp_path: Path, model: str) -> None:
    given = ("--model", model)
    cold = metricinstruct.estimate(metricinstruct_options(endpoint, tmp_path / "o", *given))
    metricinstruct.mint(metricinstruct_options(endpoint, tmp_path / "o", *given, "--limit", "20"))
    before = Used.by(endpoint)
    warm = metricinstruct.estimate(metricinstruct_options(endpoint, tmp_path / "o", *given))
    assert Used.by(endpoint) == before
    metricinstruct.mint(metricinstruct_options(endpoint, tmp_path / "o", *given))
    assert_near(warm, Used.by(endpoint).since(before))
    assert_near(cold, Used.by(endpoint))


def test_verified_analyses_are_near_though_errors_are_not_known(
    endpoint: FakeEndpoint, tmp_path: Path
) -> None:
    """One call for each error that will be found: their number is an expectation."""
    given = ("--model", KNOWN, "--verify", "record")
    found = metricinstruct.estimate(metricinstruct_options(endpoint, tmp_path / "o", *given))
    result = metricinstruct.mint(metricinstruct_options(endpoint, tmp_path / "o", *given))
    sent = calls_by_prompt(result)
    fixes = sent.pop("verify_fix.v1")
    estimated = told(found)
    assert estimated.pop("verify_fix.v1") == pytest.approx(fixes, rel=0.25)
    assert estimated == sent


def test_another_ruler_is_learnt_from_cached_answers(tmp_path: Path) -> None:
    ruler = OtherRuler()
    with FakeEndpoint(ruler, models=(UNKNOWN,)) as endpoint:
        prosocial.mint(prosocial_options(endpoint, tmp_path / "o", "--limit", "30"))
        before = ruler.used.copy()
        warm = prosocial.estimate(prosocial_options(endpoint, tmp_path / "o"))
        prosocial.mint(prosocial_options(endpoint, tmp_path / "o"))
    ruler.used.subtract(before)
    assert warm.calls == ruler.used["calls"]
    assert warm.prompt_tokens == pytest.approx(ruler.used["prompt_tokens"], rel=0.02)
    assert warm.completion_tokens == pytest.approx(ruler.used["completion_tokens"], rel=0.05)


def test_the_command_tells_it_and_makes_no_connection(
    endpoint: FakeEndpoint,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    connections: list[Any] = []
    connect = socket.socket.connect

    def watched(self: socket.socket, address: Any) -> None:
        if isinstance(address, tuple) and f":{address[1]}/" in endpoint.base_url:
            connections.append(address)
        connect(self, address)

    monkeypatch.setattr(socket.socket, "connect", watched)
    arguments = [
        *("prosocial", "--seeds", *SEEDS, "--output", str(tmp_path / "o"), "--crowd", "llm"),
        *("--model", KNOWN, "--base-url", endpoint.base_url, "--dry-run"),
        *("--rpm", "60", "--max-calls", "10", "--max-cost", "0.001"),
    ]
    assert main(arguments) == 0
    told = capsys.readouterr().out
    assert "of input suit --partitions 16" in told
    assert "dry run: nobody is called, nothing is written" in told
    assert f"tokens are counted by {KNOWN}: o200k_base" in told
    assert "bound by 60 calls a minute" in told
    assert "--max-calls 10 would end the run before it is complete" in told
    assert "--max-cost 0.001 would end the run before it is complete" in told
    assert (connections, endpoint.requests) == ([], 0)
    assert not (tmp_path / "o").exists()


def test_an_unknown_price_is_said(
    endpoint: FakeEndpoint, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = prosocial.estimate(prosocial_options(endpoint, tmp_path / "o", "--limit", "3"))
    assert found.cost is None
    prices = tmp_path / "prices.yaml"
    prices.write_text(f"models: {{{UNKNOWN}: {{input: 2, output: 8}}}}")
    more = ("--limit", "3", "--prices", str(prices))
    priced = prosocial.estimate(prosocial_options(endpoint, tmp_path / "o", *more))
    expected = (2 * priced.prompt_tokens + 8 * priced.completion_tokens) / 1e6
    assert priced.cost == pytest.approx(expected)


def test_the_embedded_model_need_not_be_there(tmp_path: Path) -> None:
    """Its weights and its runtime are not looked for."""
    arguments = ["--seeds", *SEEDS, "--output", str(tmp_path / "o"), "--limit", "2"]
    found = prosocial.estimate(parse(prosocial_parser(), ProsocialOptions, arguments))
    assert found.calls > 0
    assert found.cost == 0


def test_bad_input_stops_a_dry_run_like_a_run(
    endpoint: FakeEndpoint, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["prosocial", "--seeds", f"mine={tmp_path}/none.csv", "--output", str(tmp_path)]
    assert main([*arguments, "--dry-run"]) == 2
    assert "none.csv" in capsys.readouterr().err
