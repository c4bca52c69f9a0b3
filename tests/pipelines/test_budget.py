"""A run that reaches its budget: what is complete is published, the rest carries on later."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from pipelines.cli import main
from pipelines.metricinstruct.sources.samples import sample_files
from transforms.llm.fake_endpoint.server import FakeEndpoint

ROOT = Path(__file__).resolve().parents[2]
SAMPLES = ROOT / "pipelines" / "prosocial" / "samples"


@pytest.fixture
def endpoint() -> Iterator[FakeEndpoint]:
    with FakeEndpoint() as running:
        yield running


def prosocial(output: Path) -> list[str]:
    seeds = (
        f"socialchemistry={SAMPLES}/social-chem-101.sample.tsv",
        f"sbic={SAMPLES}/SBIC.v2.sample.*.csv",
        f"ethics={SAMPLES}/cm_*.csv",
    )
    given = ["--seeds", *seeds, "--output", str(output), "--partitions", "2", "--crowd", "llm"]
    return ["prosocial", *given]


def metricinstruct(output: Path) -> list[str]:
    given = ["--output", str(output), "--partitions", "2"]
    for file in sample_files():
        given += ["--sources" if file.channel == "real" else "--synthetic"]
        given += [f"{file.source}={file.path}"]
        given += [part for path in file.outputs for part in ("--outputs", f"{file.source}={path}")]
    return ["metricinstruct", *given]


def versions(output: Path, dataset: str) -> list[Path]:
    return sorted((output / dataset).glob("v*"))


def ledger_of(version: Path) -> dict[str, Any]:
    ledger: dict[str, Any] = json.loads((version / "ledger.json").read_text())
    assert ledger["closes"]
    return ledger


def shards(version: Path) -> dict[str, bytes]:
    return {
        str(file.relative_to(version)): file.read_bytes()
        for file in sorted(version.rglob("*.parquet"))
    }


@pytest.mark.parametrize(("command", "calls"), [(prosocial, 300), (metricinstruct, 45)])
def test_what_is_complete_is_published_and_the_rest_carries_on(
    command: Callable[[Path], list[str]],
    calls: int,
    endpoint: FakeEndpoint,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    dataset = command.__name__
    model = ["--model", "fake", "--base-url", endpoint.base_url, "--concurrency", "4"]
    output = tmp_path / "o"
    assert main([*command(output), *model, "--max-calls", str(calls)]) == 0
    told = capsys.readouterr().out
    assert endpoint.requests == calls
    assert f"calls: {calls:,} sent" in told
    assert "the budget is spent" in told
    (first,) = versions(output, dataset)
    waiting = pl.read_parquet(first / "waiting" / "*.parquet")
    assert set(waiting["waits_for"]) == {"budget"}
    assert not (first / "dead").exists()
    ledger = ledger_of(first)
    assert sum(row.get("calls_sent", 0) for row in ledger["calls"]) == calls

    assert main([*command(output), *model]) == 0
    told = capsys.readouterr().out
    assert "budget is spent" not in told
    both = endpoint.requests
    second = versions(output, dataset)[-1]
    assert not (second / "waiting").exists()

    assert main([*command(tmp_path / "other"), *model]) == 0
    assert endpoint.requests - both == both, "a call was repeated"
    (undisturbed,) = versions(tmp_path / "other", dataset)
    assert shards(second) == shards(undisturbed)


def test_a_budget_of_nothing_calls_nobody(
    endpoint: FakeEndpoint, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = ["--model", "fake", "--base-url", endpoint.base_url]
    assert main([*prosocial(tmp_path / "o"), *model, "--max-calls", "0"]) == 0
    assert endpoint.requests == 0
    assert "run again with more to carry on" in capsys.readouterr().out


def test_the_cost_is_told_and_stands_in_ledger_and_manifest(
    endpoint: FakeEndpoint, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    prices = tmp_path / "prices.yaml"
    prices.write_text("as_of: 2026-11-01\nsource: mine\nmodels: {fake: {input: 10, output: 50}}")
    model = ["--model", "fake", "--base-url", endpoint.base_url, "--prices", str(prices)]
    bound = ["--max-cost", "0.75", "--concurrency", "4"]
    assert main([*prosocial(tmp_path / "o"), *model, *bound]) == 0
    told = capsys.readouterr().out
    (version,) = versions(tmp_path / "o", "prosocial")
    ledger = ledger_of(version)
    cost = sum(row["cost"] for row in ledger["calls"])
    account = 10 * endpoint.prompt_tokens + 50 * endpoint.completion_tokens
    assert cost == pytest.approx(account / 1e6)
    assert 0.6 < cost <= 0.75
    assert f"cost: {cost:.4f} USD" in told
    assert "the budget of 0.7500 USD is spent" in told
    assert {row["model"] for row in ledger["calls"]} == {"fake"}
    assert {"utterance.v1", "vote.v1"} <= {row["prompt"] for row in ledger["calls"]}
    run = json.loads((version / "manifest.json").read_text())["run"]
    assert run["prices"]["fake"]["input"] == 10
    assert run["prices"]["fake"]["as_of"] == "2026-11-01"
    assert not {"max_cost", "prices", "dry_run"} & set(run["options"])


def test_a_bound_of_the_cost_needs_a_price(
    endpoint: FakeEndpoint, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = ["--model", "fake", "--base-url", endpoint.base_url, "--max-cost", "1"]
    for command in (prosocial, metricinstruct):
        assert main([*command(tmp_path / "o"), *model]) == 2
        told = capsys.readouterr().err
        assert "'fake'" in told
        assert "--prices" in told
        assert "--max-calls" in told
    assert (endpoint.requests, (tmp_path / "o").exists()) == (0, False)


def test_without_a_price_the_cost_is_said_to_be_unknown(
    endpoint: FakeEndpoint, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = ["--model", "fake", "--base-url", endpoint.base_url, "--limit", "2"]
    assert main([*prosocial(tmp_path / "o"), *model]) == 0
    assert "cost unknown: no price of fake (see --prices)" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        ("--max-calls", "-1", "greater than or equal to 0"),
        ("--max-calls", "1.5", "integer"),
        ("--max-cost", "nan", "greater than or equal to 0|finite"),
        ("--max-cost", "inf", "finite"),
        ("--max-cost", "-2", "greater than or equal to 0"),
    ],
)
def test_bounds_that_are_none_are_refused(
    option: str, value: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*prosocial(tmp_path / "o"), f"{option}={value}"]) == 2
    told = capsys.readouterr().err
    assert option in told
    assert re.search(said, told)
