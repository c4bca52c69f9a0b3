"""Several models and endpoints in one run, from the command line to the rows' provenance."""

from __future__ import annotations

import json
import logging
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from pipelines.cli import main
from pipelines.endpoints import called_endpoints
from pipelines.metricinstruct.command import mint as mint_metricinstruct
from pipelines.metricinstruct.options import MetricInstructOptions, metricinstruct_parser
from pipelines.option_parsing import parse
from pipelines.prosocial.command import estimate
from pipelines.prosocial.command import mint as mint_prosocial
from pipelines.prosocial.options import ProsocialOptions, prosocial_parser
from transforms.errors import EndpointError, OptionError
from transforms.llm.fake_endpoint.faults import FaultPlan
from transforms.llm.fake_endpoint.server import FakeEndpoint
from transforms.publishing.publish import PublishResult, Status

PIPELINES = Path(__file__).resolve().parents[2] / "pipelines"
MODELS = ("strong", "cheap")


@pytest.fixture(autouse=True)
def _no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "OTHER_KEY"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def endpoint() -> Iterator[FakeEndpoint]:
    with FakeEndpoint(models=MODELS) as running:
        yield running


@pytest.fixture
def other() -> Iterator[FakeEndpoint]:
    with FakeEndpoint(models=MODELS, key="sk-other") as running:
        yield running


def prosocial_options(endpoint: FakeEndpoint, output: Path, *more: str) -> ProsocialOptions:
    seeds = PIPELINES / "prosocial/samples/social-chem-101.sample.tsv"
    arguments = ["--seeds", f"socialchemistry={seeds}", "--crowd", "llm", "--limit", "16"]
    arguments += [*_common(endpoint, output), *more]
    return parse(prosocial_parser(), ProsocialOptions, arguments)


def prosocial(endpoint: FakeEndpoint, output: Path, *more: str) -> PublishResult:
    return mint_prosocial(prosocial_options(endpoint, output, *more))


def metricinstruct(endpoint: FakeEndpoint, output: Path, *more: str) -> PublishResult:
    samples = PIPELINES / "metricinstruct/samples"
    arguments = ["--sources", f"mixinstruct={samples}/mixinstruct_sample_prepared.jsonl"]
    arguments += ["--synthetic", f"dart={samples}/dart-sample.json", "--verify", "record"]
    arguments += [*_common(endpoint, output), *more]
    return mint_metricinstruct(parse(metricinstruct_parser(), MetricInstructOptions, arguments))


def _common(endpoint: FakeEndpoint, output: Path) -> list[str]:
    given = ["--output", str(output), "--partitions", "2"]
    return [*given, "--model", "strong", "--base-url", endpoint.base_url, "--retries", "0"]


def written(folder: Path, **content: Any) -> str:
    """Write a file of endpoints; return its option and path."""
    path = folder / "endpoints.yaml"
    path.write_text(json.dumps(content))  # JSON is YAML
    return str(path)


def entry_of(
    other: FakeEndpoint, monkeypatch: pytest.MonkeyPatch, key: str = "sk-other"
) -> dict[str, str]:
    """Return the entry of an endpoint with a key of its own, and put that into the environment."""
    monkeypatch.setenv("OTHER_KEY", key)
    return {"base_url": other.base_url, "model": "cheap", "api_key": "env:OTHER_KEY"}


def rows(result: PublishResult, configuration: str) -> pl.DataFrame:
    assert result.status is Status.PUBLISHED, result.message
    return pl.read_parquet(sorted(Path(result.path).glob(f"{configuration}/*.parquet")))


def shards(result: PublishResult) -> dict[str, bytes]:
    return {
        str(file.relative_to(result.path)): file.read_bytes()
        for file in sorted(Path(result.path).rglob("*.parquet"))
    }


def asked(endpoint: FakeEndpoint) -> Counter[tuple[str, str]]:
    """Return how often which model was asked by which prompt."""
    return Counter(
        (body["response_format"]["json_schema"]["name"].rpartition("_")[0], body["model"])
        for body in endpoint.bodies
    )


def test_votes_go_to_the_cheap_model_and_rows_say_so(
    endpoint: FakeEndpoint, tmp_path: Path
) -> None:
    given = ("--model-for", "vote=cheap")
    dry = estimate(prosocial_options(endpoint, tmp_path, *given))
    assert endpoint.requests == 0
    result = prosocial(endpoint, tmp_path, *given)
    counts = asked(endpoint)
    assert {model for (step, model) in counts if step == "vote"} == {"cheap"}
    assert {model for (step, model) in counts if step != "vote"} == {"strong"}
    assert {(one.prompt.partition(".")[0], one.model): one.calls for one in dry.prompts} == counts
    assert set(rows(result, "annotations")["model"]) == {"cheap"}
    provenance = rows(result, "provenance")
    assert set(provenance["model"]) == {"strong"}
    manifest = json.loads((Path(result.path) / "manifest.json").read_text())
    assert manifest["run"]["models"] == ["strong", "cheap"]
    assert manifest["run"]["options"]["routes"]["vote.v1"]["share"] == [["cheap", 1.0]]
    ledger = json.loads((Path(result.path) / "ledger.json").read_text())
    assert {(row["prompt"], row["model"]) for row in ledger["calls"]} == {
        (f"{step}.v1", model) for step, model in counts
    }
    before = endpoint.requests
    assert prosocial(endpoint, tmp_path, *given).status is Status.UNCHANGED
    assert endpoint.requests == before


def test_each_analysis_names_the_model_of_each_of_its_steps(
    endpoint: FakeEndpoint, tmp_path: Path
) -> None:
    result = metricinstruct(endpoint, tmp_path, "--model-for", "itemise=cheap", "verify_fix=cheap")
    provenance = rows(result, "provenance")
    for row in provenance.iter_rows(named=True):
        for prompt, model in zip(row["prompt_ids"], row["models"], strict=True):
            assert model == ("cheap" if prompt.startswith("itemise") else "strong")
        for verdict in row["verdicts"]:
            expected = "cheap" if verdict["check"] == "fix" else "strong"
            assert verdict["model"] in (expected, None)
            assert (verdict["model"] is None) == (verdict["request_hash"] is None)
    assert {len(set(models)) for models in provenance["models"]} >= {1, 2}


def test_endpoints_share_dialogues_by_weight_and_keep_them(
    endpoint: FakeEndpoint, other: FakeEndpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    second = entry_of(other, monkeypatch)
    file = written(
        tmp_path,
        endpoints={"second": second},
        steps={"others": {"share": {"main": 1, "second": 2}}},
    )
    result = prosocial(endpoint, tmp_path / "o", "--endpoints", file)
    provenance = rows(result, "provenance")
    by_dialogue = provenance.group_by("key").agg(pl.col("model").unique())
    assert set(by_dialogue["model"].list.len()) == {1}
    shares = Counter(model for (model,) in by_dialogue["model"])
    assert shares["cheap"] > shares["strong"] > 0
    assert {body["model"] for body in endpoint.bodies} == {"strong"}
    assert {body["model"] for body in other.bodies} == {"cheap"}
    again = prosocial(endpoint, tmp_path / "p", "--endpoints", file)
    assert shards(again) == shards(result)


def test_a_fallback_is_asked_where_the_first_fails_and_stays(
    other: FakeEndpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    second = entry_of(other, monkeypatch)
    file = written(
        tmp_path,
        endpoints={"second": second},
        steps={"others": {"share": "main", "fallback": ["second"]}},
        fallback_on=["server", "refused"],
    )
    faults = FaultPlan({"500": 0.2, "refusal": 0.1})
    with FakeEndpoint(models=MODELS, faults=faults) as endpoint:
        result = prosocial(endpoint, tmp_path / "o", "--endpoints", file)
        failed = endpoint.met["500"] + endpoint.met["refusal"]
        assert failed
        assert other.requests == failed
        assert set(rows(result, "provenance")["model"]) == {"strong", "cheap"}
        assert not list(Path(result.path).glob("dead/*.parquet"))
        before = endpoint.requests, other.requests
        # Not even those are called again that failed: the other one's answer is in the cache.
        made = shards(result)
        shutil.rmtree(result.path)
        again = prosocial(endpoint, tmp_path / "o", "--endpoints", file)
        assert shards(again) == made
        assert (endpoint.requests, other.requests) == before


@pytest.mark.parametrize(
    ("more", "content", "message"),
    [
        (("--model-for", "votes=cheap"), None, "no step 'votes'; there are continuation, question"),
        (("--model-for", "vote"), None, "write STEP=MODEL"),
        ((), {"steps": {"vote": "nobody"}}, "no endpoint 'nobody'; there are main"),
        ((), {"steps": {"vote": {"share": {"main": 0}}}}, "steps.vote.share.main"),
        ((), {"endpoints": {"main": {"model": "x"}}}, "main is the endpoint of --model"),
        ((), {"endpoints": {"a": {"model": "x", "bse_url": "y"}}}, "endpoints.a.bse_url"),
        ((), {"endpoints": {"a": {"model": "x", "extra_body": {"n": 3}}}}, "can't hold n"),
        (
            (),
            {"endpoints": {"a": {"model": "x", "extra_body": {"max_tokens": "512"}}}},
            "max_tokens must be a whole, positive number",
        ),
        (
            ("--max-cost", "1"),
            {
                "endpoints": {"a": {"model": "gpt-5", "extra_body": {"max_tokens": None}}},
                "steps": {"others": "a"},
            },
            "bound on the length of answers, and endpoint a takes away max_tokens",
        ),
        ((), {"endpoints": {"a": {"model": "x", "rpm": float("inf")}}}, "endpoints.a.rpm"),
        ((), {"fallback_on": ["batch"]}, "classes of failures alone"),
        ((), ["endpoints"], "valid dictionary"),
        (
            (),
            {
                "endpoints": {"a": {"model": "x", "api_key": "env:OTHER_KEY"}},
                "steps": {"vote": "a"},
            },
            "endpoint a .* needs a key, and there is none in env:OTHER_KEY",
        ),
        (
            (),
            {
                "endpoints": {"a": {"model": "x", "base_url": "https://api.openai.com/v1"}},
                "steps": {"vote": "a"},
            },
            "needs a key, and there is none in env:OPENAI_API_KEY",
        ),
        (
            (),
            {"endpoints": {"a": {"model": "strong"}}, "steps": {"vote": "a"}},
            "main and a are one",
        ),
        (
            (),
            {
                "endpoints": {
                    "a": {"model": "strong", "base_url": "http://h/v1", "extra_body": {"seed": 1}}
                },
                "steps": {"vote": "a"},
            },
            "'strong' with different extra_body",
        ),
        (
            ("--batch",),
            {
                "endpoints": {"a": {"model": "cheap", "api_key": "file:/a/key"}},
                "steps": {"vote": "a"},
            },
            "main and a have one base URL and different keys",
        ),
        (
            ("--max-cost", "1"),
            {"endpoints": {"a": {"model": "gpt-5"}}, "steps": {"others": "a", "vote": "main"}},
            "needs the price of 'strong'",
        ),
    ],
)
def test_what_cannot_be_used_is_refused_before_a_call(
    endpoint: FakeEndpoint, tmp_path: Path, more: tuple[str, ...], content: Any, message: str
) -> None:
    if content is not None:
        path = tmp_path / "endpoints.yaml"
        path.write_text(json.dumps(content))
        more = (*more, "--endpoints", str(path))
    with pytest.raises(OptionError, match=message):
        prosocial(endpoint, tmp_path / "o", *more)
    assert endpoint.requests == 0
    assert not (tmp_path / "o").exists()


PUBLIC, GATEWAY = "https://api.openai.com/v1", "https://gateway.example/v1"


@pytest.mark.parametrize(
    ("main_url", "entry", "source"),
    [
        (GATEWAY, {}, "env:MAIN_KEY"),
        (GATEWAY, {"base_url": GATEWAY + "/"}, "env:MAIN_KEY"),
        (GATEWAY, {"base_url": PUBLIC}, "env:OPENAI_API_KEY"),
        (GATEWAY, {"base_url": "http://other/v1"}, ""),
        (GATEWAY, {"base_url": PUBLIC, "api_key": "env:OTHER_KEY"}, "env:OTHER_KEY"),
        (None, {"base_url": PUBLIC}, "env:MAIN_KEY"),
        (None, {"base_url": GATEWAY}, ""),
    ],
)
def test_a_key_goes_to_nobody_whom_it_is_not_meant_for(
    main_url: str | None,
    entry: dict[str, str],
    source: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("OPENAI_API_KEY", "MAIN_KEY", "OTHER_KEY"):
        monkeypatch.setenv(name, f"sk-{name}")
    entries = {"second": {"model": "cheap", **entry}}
    options = ProsocialOptions(
        seeds=("socialchemistry=seeds.tsv",),
        output=str(tmp_path / "o"),
        crowd="llm",
        model="strong",
        base_url=main_url,
        api_key="env:MAIN_KEY",
        endpoints=written(tmp_path, endpoints=entries, steps={"vote": "second"}),
    )
    steps = {"vote": ("vote.v1",), "respond": ("respond.v1",)}
    made = called_endpoints(options, str(tmp_path / "cache"), (), steps)
    assert {own.model: own.key_source for own in made.endpoints} == {
        "strong": "env:MAIN_KEY",
        "cheap": source,
    }


def test_every_endpoint_and_model_is_looked_at_first(
    endpoint: FakeEndpoint, other: FakeEndpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(EndpointError, match="has no model 'huge'"):
        prosocial(endpoint, tmp_path / "o", "--model-for", "vote=huge")
    second = entry_of(other, monkeypatch, key="sk-wrong")
    file = written(tmp_path, endpoints={"second": second}, steps={"vote": "second"})
    with pytest.raises(EndpointError, match="set env:OTHER_KEY to one that is valid"):
        prosocial(endpoint, tmp_path / "o", "--endpoints", file)
    assert endpoint.requests == other.requests == 0


def test_endpoints_alone_need_no_model(endpoint: FakeEndpoint, tmp_path: Path) -> None:
    entry = {"base_url": endpoint.base_url, "model": "cheap"}
    file = written(tmp_path, endpoints={"only": entry}, steps={"others": "only"})
    given = ["--output", str(tmp_path / "o"), "--partitions", "1", "--endpoints", file]
    seeds = PIPELINES / "prosocial/samples/social-chem-101.sample.tsv"
    given += ["--seeds", f"socialchemistry={seeds}", "--crowd", "llm", "--limit", "2"]
    result = mint_prosocial(parse(prosocial_parser(), ProsocialOptions, given))
    assert set(rows(result, "provenance")["model"]) == {"cheap"}
    file = written(tmp_path, endpoints={"only": entry}, steps={"vote": "only"})
    with pytest.raises(OptionError, match="nobody answers continuation, question"):
        mint_prosocial(parse(prosocial_parser(), ProsocialOptions, given))


def test_one_budget_is_over_all_models(
    endpoint: FakeEndpoint, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    seeds = PIPELINES / "prosocial/samples/social-chem-101.sample.tsv"
    given = ["prosocial", "--seeds", f"socialchemistry={seeds}", "--crowd", "llm"]
    given += [*_common(endpoint, tmp_path / "o"), "--model-for", "vote=cheap"]
    prices = tmp_path / "prices.yaml"
    prices.write_text("models: {strong: {input: 10, output: 30}, cheap: {input: 1, output: 2}}\n")
    assert main([*given, "--max-cost", "0.5", "--prices", str(prices)]) == 0
    assert "the budget of 0.5000 USD is spent" in capsys.readouterr().out
    ledger = json.loads(next((tmp_path / "o").rglob("ledger.json")).read_text())
    assert 0 < sum(row["cost"] for row in ledger["calls"]) <= 0.5
    assert {row["model"] for row in ledger["calls"]} == {"strong", "cheap"}


def test_batches_go_to_each_endpoint_and_end_in_the_version_of_a_run_by_calls(
    endpoint: FakeEndpoint,
    other: FakeEndpoint,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "remint.batch")
    second = entry_of(other, monkeypatch)
    entries = {"second": second, "third": {"model": "cheap", "extra_body": {}, "rpm": 9000}}
    steps = {"vote": "second", "respond": {"share": {"main": 1, "third": 1}}}
    file = written(tmp_path, endpoints=entries, steps=steps)
    by_calls = prosocial(endpoint, tmp_path / "calls", "--endpoints", file)
    before = endpoint.requests, other.requests
    by_batch = prosocial(endpoint, tmp_path / "batch", "--endpoints", file, "--batch")
    while "run again to collect them" in caplog.text:
        caplog.clear()
        by_batch = prosocial(endpoint, tmp_path / "batch", "--endpoints", file, "--batch")
    assert shards(by_batch) == shards(by_calls)
    assert (endpoint.requests, other.requests) == before
    models = {
        (record["endpoint"], record["model"])
        for path in (tmp_path / "batch/prosocial/batches").glob("*.json")
        for record in [json.loads(path.read_text())]
    }
    assert models == {
        (endpoint.base_url, "strong"),
        (endpoint.base_url, "cheap"),
        (other.base_url, "cheap"),
    }


def test_three_votes_are_one_call(endpoint: FakeEndpoint, tmp_path: Path) -> None:
    given = ("--samples-per-call", "3", "--model-for", "vote=cheap")
    dry = estimate(prosocial_options(endpoint, tmp_path, *given))
    result = prosocial(endpoint, tmp_path, *given)
    votes = [body for body in endpoint.bodies if body["model"] == "cheap"]
    assert {body.get("n") for body in votes} == {3}
    assert len(rows(result, "annotations")) == 3 * len(rows(result, "data"))
    assert {(one.prompt.partition(".")[0], one.model): one.calls for one in dry.prompts} == asked(
        endpoint
    )
    before = endpoint.requests
    for later in (given, given[2:]):
        assert prosocial(endpoint, tmp_path, *later).status is Status.UNCHANGED
    assert endpoint.requests == before
