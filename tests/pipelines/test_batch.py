"""Both commands by batches: the version that comes out at the end is the one of a run by calls."""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import polars as pl
import pytest

from pipelines.cli import main
from pipelines.metricinstruct.command import mint as mint_metricinstruct
from pipelines.metricinstruct.options import MetricInstructOptions, metricinstruct_parser
from pipelines.option_parsing import parse
from pipelines.prosocial.command import estimate
from pipelines.prosocial.command import mint as mint_prosocial
from pipelines.prosocial.options import ProsocialOptions, prosocial_parser
from transforms.llm.fake_endpoint.server import FakeEndpoint
from transforms.publishing.publish import PublishResult, Status

USED = ("calls_batched", "tokens_prompt", "tokens_completion")
PIPELINES = Path(__file__).resolve().parents[2] / "pipelines"


@pytest.fixture
def endpoint(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeEndpoint]:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    with FakeEndpoint() as running:
        yield running


def prosocial(endpoint: FakeEndpoint, output: Path, *more: str) -> PublishResult:
    seeds = PIPELINES / "prosocial/samples/social-chem-101.sample.tsv"
    arguments = ["--seeds", f"socialchemistry={seeds}", "--crowd", "llm", "--limit", "12"]
    arguments += [*common(endpoint, output), *more]
    return mint_prosocial(parse(prosocial_parser(), ProsocialOptions, arguments))


def metricinstruct(endpoint: FakeEndpoint, output: Path, *more: str) -> PublishResult:
    samples = PIPELINES / "metricinstruct/samples"
    arguments = ["--sources", f"mixinstruct={samples}/mixinstruct_sample_prepared.jsonl"]
    arguments += ["--synthetic", f"dart={samples}/dart-sample.json", "--verify", "record"]
    arguments += [*common(endpoint, output), *more]
    return mint_metricinstruct(parse(metricinstruct_parser(), MetricInstructOptions, arguments))


def common(endpoint: FakeEndpoint, output: Path) -> list[str]:
    return ["--output", str(output), "--model", "fake", "--base-url", endpoint.base_url]


def shard_bytes(path: str) -> dict[str, bytes]:
    return {
        str(file.relative_to(path)): file.read_bytes()
        for file in sorted(Path(path).rglob("*.parquet"))
    }


@pytest.mark.parametrize(("run", "steps"), [(prosocial, 7), (metricinstruct, 3)])
def test_runs_by_batches_end_in_the_version_of_a_run_by_calls(
    run: Callable[..., PublishResult],
    steps: int,
    endpoint: FakeEndpoint,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "remint.batch")
    first = run(endpoint, tmp_path / "batches", "--batch", "--partitions", "2")
    assert first.status is Status.INCOMPLETE
    waiting = pl.read_parquet(f"{first.path}/waiting/*.parquet")
    awaited = waiting.filter(pl.col("waits_for") != "limit")
    assert set(awaited["waits_for"]) == {"batch"}
    assert not Path(first.path, "dead").exists()
    result, taken = first, 0
    while "run again to collect them" in caplog.text:
        caplog.clear()
        result = run(endpoint, tmp_path / "batches", "--batch")
        taken += 1
    assert taken == steps
    assert result.status is Status.PUBLISHED
    assert endpoint.requests == 0
    counts = endpoint.batches.answered
    assert counts.total() == len(counts) > 30
    by_calls = run(endpoint, tmp_path / "calls", "--partitions", "2")
    assert endpoint.requests == counts.total()
    assert shard_bytes(result.path) == shard_bytes(by_calls.path)
    assert run(endpoint, tmp_path / "batches", "--batch").status is Status.UNCHANGED
    # Run by calls it finds all that batches have answered.
    assert run(endpoint, tmp_path / "batches").status is Status.UNCHANGED
    assert endpoint.requests == counts.total()


def test_what_batches_cost_is_told_estimated_and_stands_in_the_ledger(
    endpoint: FakeEndpoint, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "remint.batch")
    prices = tmp_path / "prices.yaml"
    prices.write_text("models: {fake: {input: 2, output: 8, batch: 0.5}}\n")
    output, more = tmp_path / "o", ("--batch", "--prices", str(prices), "--partitions", "1")
    seeds = PIPELINES / "prosocial/samples/social-chem-101.sample.tsv"
    arguments = ["--seeds", f"socialchemistry={seeds}", "--crowd", "llm", "--limit", "12"]
    given = [*arguments, *common(endpoint, output), *more]
    batches = estimate(parse(prosocial_parser(), ProsocialOptions, given))
    given.remove("--batch")
    calls = estimate(parse(prosocial_parser(), ProsocialOptions, given))
    assert batches.cost is not None
    assert batches.cost == pytest.approx((calls.cost or 0) / 2)
    told, cost, used = [prosocial(endpoint, output, *more)], 0.0, Counter[str]()
    while "run again to collect them" in caplog.text:
        caplog.clear()
        told.append(prosocial(endpoint, output, *more))
        for row in json.loads((Path(told[-1].path) / "ledger.json").read_text())["calls"]:
            cost += row["cost"]
            used.update({name: row.get(name, 0) for name in USED})
    assert used["calls_batched"] == endpoint.batches.answered.total() == batches.calls
    assert used["tokens_prompt"] == pytest.approx(batches.prompt_tokens, rel=0.05)
    expected = (used["tokens_prompt"] * 1 + used["tokens_completion"] * 4) / 1e6
    assert cost == pytest.approx(expected)
    assert not any("collected from batches now" in line for line in told[0].spending)
    assert any("collected from batches now" in line for line in told[1].spending)


def test_the_embedded_model_has_no_batches(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["prosocial", "--seeds", "a=b", "--output", str(tmp_path), "--batch"]
    assert main(arguments) == 2
    assert "--batch needs --model" in capsys.readouterr().err


def test_a_shared_cache_answers_for_a_dataset_of_other_partitions(
    endpoint: FakeEndpoint, tmp_path: Path
) -> None:
    theirs = prosocial(endpoint, tmp_path / "theirs", "--partitions", "2")
    made = endpoint.requests
    shared = str(Path(theirs.path).parent)
    ours = prosocial(endpoint, tmp_path / "ours", "--partitions", "3", "--shared-cache", shared)
    assert endpoint.requests == made
    assert not (tmp_path / "ours/prosocial/cache").exists()
    assert main(["cache", "compact", shared]) == 0
    again = prosocial(endpoint, tmp_path / "ours", "--shared-cache", f"{shared}/cache")
    assert (ours.status, again.status) == (Status.PUBLISHED, Status.UNCHANGED)
    assert endpoint.requests == made
