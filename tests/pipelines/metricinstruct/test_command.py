"""The command from end to end: sample files, a real server on loopback, real parquet."""

from __future__ import annotations

import hashlib
import json
import random
import shutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from pipelines.cli import main
from pipelines.metricinstruct.command import draft_settings, mint
from pipelines.metricinstruct.options import MetricInstructOptions, metricinstruct_parser
from pipelines.metricinstruct.schema import CONFIGURATIONS, TASKS
from pipelines.metricinstruct.sources.hub import hub_fingerprint
from pipelines.metricinstruct.sources.samples import FOLDER, sample_files
from pipelines.option_parsing import parse
from tests.runs import cached_calls, killed_after, ledger_of, rows, shard_bytes
from transforms.errors import EndpointError, InputError, OptionError
from transforms.llm.fake_endpoint.latency import constant
from transforms.llm.fake_endpoint.replies import Reply, completion, failure
from transforms.llm.fake_endpoint.server import FakeEndpoint
from transforms.publishing.publish import PublishResult, Status


@pytest.fixture(scope="module")
def endpoint() -> Iterator[FakeEndpoint]:
    with FakeEndpoint() as running:
        yield running


@pytest.fixture(autouse=True)
def _offline(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")


def sample_arguments(shuffled: int | None = None) -> list[str]:
    """Return the options that name the samples, in another order where ``shuffled`` says so."""
    named: dict[str, list[str]] = {"--sources": [], "--synthetic": [], "--outputs": []}
    for file in sample_files():
        option = "--sources" if file.channel == "real" else "--synthetic"
        named[option].append(f"{file.source}={file.path}")
        named["--outputs"] += [f"{file.source}={path}" for path in file.outputs]
    if shuffled is not None:
        for texts in named.values():
            random.Random(shuffled).shuffle(texts)
    return [part for option, texts in named.items() for part in (option, *texts)]


def arguments(
    endpoint: FakeEndpoint, output: Path, *more: str, shuffled: int | None = None
) -> list[str]:
    return [
        *(*sample_arguments(shuffled), "--output", str(output), "--partitions", "2"),
        *("--model", "fake", "--base-url", endpoint.base_url, *more),
    ]


def minted(
    endpoint: FakeEndpoint, output: Path, *more: str, shuffled: int | None = None
) -> PublishResult:
    given = arguments(endpoint, output, *more, shuffled=shuffled)
    return mint(parse(metricinstruct_parser(), MetricInstructOptions, given))


def statistics_of(result: PublishResult) -> dict[str, Any]:
    tables: dict[str, Any] = json.loads((Path(result.path) / "statistics.json").read_text())
    return tables


@pytest.fixture(scope="module")
def published(
    endpoint: FakeEndpoint, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, PublishResult]:
    output = tmp_path_factory.mktemp("published")
    return output, minted(endpoint, output)


def test_every_configuration_with_rows_loads(
    published: tuple[Path, PublishResult], tmp_path: Path
) -> None:
    import datasets

    _, result = published
    assert result.status is Status.PUBLISHED
    sizes = {}
    for name in ("default", "structured", "sft", "provenance", "human", "rejected"):
        loaded = datasets.load_dataset(result.path, name, cache_dir=str(tmp_path))
        sizes[name] = sum(len(part) for part in loaded.values())
    assert sizes["default"] > 25
    assert sizes["default"] == sizes["structured"] == sizes["sft"] == sizes["provenance"]
    assert sizes["human"] > 5
    assert sizes["rejected"] > 20


def test_the_ledger_accounts_for_every_row_example_error_and_annotation(
    published: tuple[Path, PublishResult],
) -> None:
    _, result = published
    stages = ledger_of(result)
    assert set(stages) == {
        *("input_rows", "beside_rows", "examples", "analyses", "errors", "human_annotations")
    }
    structured, rejected = rows(result, "structured"), rows(result, "rejected")
    assert stages["analyses"]["out"]["published"] == structured.height
    assert stages["errors"]["out"]["published"] == structured["error_count"].sum()
    assert stages["human_annotations"]["out"]["published"] == rows(result, "human").height
    refused = rejected.filter(pl.col("unit") == "analysis").height
    assert stages["analyses"]["in"] == structured.height + refused


def test_all_tasks_and_both_channels_are_published(published: tuple[Path, PublishResult]) -> None:
    tables = statistics_of(published[1])
    assert {row["task"]: row["rows"] > 0 for row in tables["tasks"]} == dict.fromkeys(TASKS, True)
    assert all(row["n"] > 5 for row in tables["channels"])
    card = (Path(published[1].path) / "README.md").read_text()
    assert "| `mixinstruct` | " in card
    assert card.count(" | MIT |") >= 2
    assert tables["version"][0]["sources"] == len({file.source for file in sample_files()})


def test_released_rows_are_what_the_structured_ones_say(
    published: tuple[Path, PublishResult],
    client: Callable[[str], dict[str, Any] | None],
) -> None:
    _, result = published
    default, structured = rows(result, "default"), rows(result, "structured")
    assert default["hypo_output"].to_list() == structured["hypo_output"].to_list()
    assert default.columns == CONFIGURATIONS["default"].names
    for text, row in zip(default["errors"], structured.iter_rows(named=True), strict=True):
        read = client(text)
        assert read is not None
        assert read["num_errors"] == row["error_count"]
        assert [error["location"] for error in read["errors"]] == [
            error["location"] for error in row["errors"]
        ]
        for error in row["errors"]:
            assert row["hypo_output"][error["start"] : error["end"]] == error["location"]
        assert sum(error["score_reduction"] for error in row["errors"]) == row["score_reduction"]
    assert rows(result, "sft")["completion"].to_list() == default["errors"].to_list()


def test_provenance_leads_back_to_the_file_and_to_the_requests(
    endpoint: FakeEndpoint, published: tuple[Path, PublishResult]
) -> None:
    output, result = published
    provenance = rows(result, "provenance")
    assert provenance["id"].to_list() == rows(result, "structured")["id"].to_list()
    assert all(Path(file).parent == FOLDER for file in provenance["file"])
    real = provenance.filter(pl.col("channel") == "real")
    assert set(real["prompt_ids"].list.len()) == {2}
    cached = b"".join(path.read_bytes() for path in (output / "metricinstruct/cache").rglob("*.*"))
    hashes = provenance["request_hashes"].explode().drop_nulls()
    assert all(request.encode() in cached for request in hashes)


def test_agreement_with_human_annotators_stands_in_statistics_and_card(
    published: tuple[Path, PublishResult],
) -> None:
    _, result = published
    pairs = {(row["first"], row["second"]): row for row in statistics_of(result)["agreement"]}
    ours = pairs[("fake", "wmt_mqm en-de: rater1")]
    between = pairs[("wmt_mqm en-de: rater1", "wmt_mqm en-de: rater2")]
    assert ours["segments"] >= between["segments"] > 2
    assert 0 <= ours["character_f1_severity"] <= ours["character_f1"] <= 1
    groups = {
        (row["first"], row["second"]): row for row in statistics_of(result)["agreement_of_groups"]
    }
    people = "wmt_mqm en-de: people"
    assert groups[people, people]["segments"] == between["segments"]
    assert groups["fake", people]["segments"] == ours["segments"] + sum(
        row["segments"]
        for (first, second), row in pairs.items()
        if first == "fake" and second.startswith("wmt_mqm") and second != "wmt_mqm en-de: rater1"
    )
    card = (Path(result.path) / "README.md").read_text()
    assert f"| {people} | {people} |" in card
    assert f"| fake | wmt_mqm en-de: rater1 | {ours['segments']} |" in card
    human = rows(result, "human")
    structured = rows(result, "structured").filter(pl.col("channel") == "real")
    joined = human.join(structured, on="id")
    assert joined.height == human.height
    marked = joined.filter(pl.col("side") == "output")
    assert marked.height > 3
    for row in marked.iter_rows(named=True):
        assert row["hypo_output"][row["start"] : row["end"]] == row["text"]


def test_a_run_tells_how_its_model_answered(
    endpoint: FakeEndpoint,
    published: tuple[Path, PublishResult],
    capsys: pytest.CaptureFixture[str],
) -> None:
    output, result = published
    tables = statistics_of(result)
    assert [row["channel"] for row in tables["answers"]] == ["real", "synthetic"]
    for row in tables["answers"]:
        assert row["parsed_share"] == row["parsed"] / row["answers"] > 0.9
        assert row["verbatim_share"] == row["verbatim"] / row["errors"] > 0.9
        assert 0.5 < row["passed_share"] == row["passed"] / row["answers"] <= 1
    assert main(["metricinstruct", *arguments(endpoint, output)]) == 0
    real = tables["answers"][0]
    line = f"answers, real: {real['answers']}; {real['parsed_share']:.1%} parse, "
    assert line in capsys.readouterr().out
    card = (Path(result.path) / "README.md").read_text()
    assert f"| real | {real['answers']} | {real['parsed_share']:.3f} | {real['errors']} |" in card


def test_running_again_makes_no_call_and_no_version(
    endpoint: FakeEndpoint, published: tuple[Path, PublishResult]
) -> None:
    output, first = published
    before = endpoint.requests
    again = minted(endpoint, output)
    assert again.status is Status.UNCHANGED
    assert again.path == first.path
    assert endpoint.requests == before
    assert sorted(path.name for path in (output / "metricinstruct").glob("v*")) == ["v0001"]


@pytest.mark.parametrize(
    "more",
    [
        pytest.param((), id="shuffled inputs"),
        pytest.param(
            ("--direct_running_mode=multi_processing", "--direct_num_workers=2"),
            id="two processes",
        ),
    ],
)
def test_the_same_inputs_give_the_same_bytes(
    endpoint: FakeEndpoint,
    published: tuple[Path, PublishResult],
    tmp_path: Path,
    more: tuple[str, ...],
) -> None:
    output, first = published
    (tmp_path / "metricinstruct").mkdir()
    shutil.copytree(output / "metricinstruct/cache", tmp_path / "metricinstruct/cache")
    shutil.copy(output / "metricinstruct/dataset.json", tmp_path / "metricinstruct")
    before = endpoint.requests
    second = minted(endpoint, tmp_path, *more, shuffled=5)
    assert second.status is Status.PUBLISHED
    assert endpoint.requests == before
    assert shard_bytes(second) == shard_bytes(first)


def test_a_limit_takes_the_smallest_keys_and_leaves_the_others_waiting(
    endpoint: FakeEndpoint, published: tuple[Path, PublishResult], tmp_path: Path
) -> None:
    result = minted(endpoint, tmp_path, "--limit", "12")
    waiting = rows(result, "waiting")
    assert set(waiting["waits_for"]) == {"limit"}
    stages = ledger_of(result)
    assert stages["analyses"]["in"] == 12
    assert waiting.height == ledger_of(published[1])["analyses"]["in"] - 12
    assert max(rows(result, "provenance")["key"]) <= min(waiting["key"])
    raised = minted(endpoint, tmp_path, "--limit", "14")
    assert ledger_of(raised)["analyses"]["in"] == 14
    assert raised.version == 2


def test_a_sample_keeps_so_many_rows_of_each_source(endpoint: FakeEndpoint, tmp_path: Path) -> None:
    result = minted(endpoint, tmp_path, "--sample", "2")
    stages = ledger_of(result)
    assert stages["examples"]["reasons"]["rejected"]["not_sampled"] > 20
    provenance = rows(result, "provenance")
    assert provenance.group_by("source", "channel").len()["len"].max() <= 2


def test_labelled_answers_and_verification_are_published_with_their_verdicts(
    endpoint: FakeEndpoint, tmp_path: Path
) -> None:
    common = ("--answer-form", "labelled", "--analysis", "one_step")
    recorded = minted(endpoint, tmp_path / "record", *common, "--verify", "record")
    provenance = rows(recorded, "provenance")
    corrupted = provenance.filter(pl.col("kind") == "corrupted")
    assert set(corrupted["form"]) == {"labelled"}
    assert set(provenance.filter(pl.col("channel") == "real")["prompt_ids"].list.len()) == {1}
    verdicts = provenance.explode("verdicts", empty_as_null=False)["verdicts"].struct.unnest()
    assert set(verdicts["check"]) == {"fix", "analysis"}
    assert statistics_of(recorded)["verdicts"]
    dropped = minted(endpoint, tmp_path / "drop", *common, "--verify", "drop")
    reasons = ledger_of(dropped)["analyses"]["reasons"]["rejected"]
    assert reasons["analysis_not_confirmed"] > 0
    assert rows(dropped, "default").height < rows(recorded, "default").height


@pytest.mark.parametrize(
    ("flags", "analysis", "form"),
    [
        ((), "own_answer_first", "edits"),
        (("--model", "fake", "--base-url", "http://127.0.0.1:9/v1"), "two_step", "structured"),
        (("--analysis", "one_step", "--answer-form", "labelled"), "one_step", "labelled"),
    ],
)
def test_the_model_is_asked_in_the_way_that_suits_it(
    tmp_path: Path, flags: tuple[str, ...], analysis: str, form: str
) -> None:
    arguments = [*sample_arguments(), "--output", str(tmp_path), *flags]
    settings = draft_settings(parse(metricinstruct_parser(), MetricInstructOptions, arguments))
    assert (settings.analysis, settings.corruption.form) == (analysis, form)


def test_evaluation_inputs_are_left_out(endpoint: FakeEndpoint, tmp_path: Path) -> None:
    excluded = next(file for file in sample_files() if file.source == "summeval").path
    beside, output = tmp_path / "beside", tmp_path / "output"
    beside.mkdir()
    ids, filters = beside / "ids.txt", beside / "filters.yaml"
    items = {json.loads(line)["id"] for line in Path(excluded).read_text().splitlines()}
    ids.write_text("\n".join(sorted(items)))
    filters.write_text("empty_explanation: {level: warning}\n")
    given = ("--exclude", f"summeval={excluded}#{ids}", "--filters", str(filters))
    result = minted(endpoint, output, *given)
    assert ledger_of(result)["examples"]["reasons"]["rejected"]["evaluation_input"] == 8
    assert "summeval" not in set(rows(result, "provenance")["source"])
    manifest = json.loads((Path(result.path) / "manifest.json").read_text())
    read = {one["path"]: one["sha256"] for one in manifest["run"]["inputs"]}
    for path in (excluded, ids, filters):
        assert read[str(path)] == hashlib.sha256(Path(path).read_bytes()).hexdigest()


def test_a_source_of_ones_own_and_loosened_filters(endpoint: FakeEndpoint, tmp_path: Path) -> None:
    own = tmp_path / "mine.train.jsonl"
    texts = [f"The harbour of town {n} was closed for {n} days by a storm." for n in range(2, 14)]
    own.write_text(
        "".join(
            json.dumps({"text": text, "out": f"A storm closed harbour {n}.", "who": "birch"}) + "\n"
            for n, text in enumerate(texts)
        )
    )
    filters = tmp_path / "filters.yaml"
    filters.write_text(
        "location_not_in_output: {level: warning}\nmentions_reference: {level: off}\n"
        "error_free_share: {level: off}\nseverity_band: {level: warning}\n"
        "near_duplicate: {level: off}\n"
    )
    arguments = [
        *("--sources", f"mine={own}", "--output", str(tmp_path / "out"), "--partitions", "1"),
        *("--field-map", "mine:task=summarization,input_context=text,hypothesis=out,system=who"),
        *("--instruction", "mine=Write a summary of the text.", "--filters", str(filters)),
        *("--model", "fake", "--base-url", endpoint.base_url, "--choice", "mine=all"),
    ]
    result = mint(parse(metricinstruct_parser(), MetricInstructOptions, arguments))
    assert result.status is Status.PUBLISHED
    structured = rows(result, "structured")
    assert structured.height == len(texts)
    assert set(structured["instruction"]) == {"Write a summary of the text."}


def test_a_dataset_of_the_hub_is_a_source_and_its_content_stands_in_the_manifest(
    endpoint: FakeEndpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "owner/name"
    folder.mkdir(parents=True)
    (folder / "test.jsonl").write_text(
        "".join(
            json.dumps({"text": f"Town {n} has {n} gates.", "gold": f"It has {n} gates."}) + "\n"
            for n in range(2, 20)
        )
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", tmp_path / "cache")
    given = [
        *("--synthetic", "mine=hub:owner/name:default:test", "--output", str(tmp_path / "out")),
        *("--field-map", "mine:task=summarization,input_context=text,reference=gold"),
        *("--instruction", "mine=Write a summary of the text.", "--partitions", "1"),
        *("--model", "fake", "--base-url", endpoint.base_url),
    ]
    result = mint(parse(metricinstruct_parser(), MetricInstructOptions, given))
    assert result.status is Status.PUBLISHED
    assert ledger_of(result)["input_rows"]["in"] == 18
    assert set(rows(result, "provenance")["file"]) == {"hub:owner/name:default:test"}
    manifest = json.loads((Path(result.path) / "manifest.json").read_text())
    (one,) = manifest["run"]["inputs"]
    assert one == hub_fingerprint("hub:owner/name:default:test")
    assert len(one["sha256"]) == 64


def test_own_annotations_by_several_people_give_agreement_in_version_and_card(
    endpoint: FakeEndpoint, tmp_path: Path
) -> None:
    own, more = tmp_path / "mine.jsonl", tmp_path / "more.jsonl"
    ratings = tmp_path / "ratings.jsonl"
    texts = [f"A storm closed harbour {n} for a whole week." for n in range(12)]
    lines = [
        json.dumps({"n": n, "text": f"Harbour {n} was closed.", "out": text, "who": "birch"}) + "\n"
        for n, text in enumerate(texts)
    ]
    own.write_text("".join(lines[:6]))
    more.write_text("".join(lines[6:]))
    marked = {"category": "Relevance", "severity": "Major", "text": "whole week"}
    ratings.write_text(
        "".join(
            json.dumps({"id": n, "system": "birch", "annotator": who, "errors": errors}) + "\n"
            for n in range(13)  # there is no output 12
            for who, errors in (("ann", [marked]), ("bo", [marked] if n % 2 else []))
        )
    )
    columns = "input_context=text,hypothesis=out,system=who,id=n"
    given = [
        *(
            "--sources",
            f"mine={own}",
            f"mine={more}",
            "--annotations",
            f"mine={ratings}",
            "--choice",
            "mine=all",
        ),
        *("--field-map", f"mine:task=summarization,{columns}", "--partitions", "1"),
        *("--instruction", "mine=Write a summary of the text.", "--output", str(tmp_path / "out")),
        *("--model", "fake", "--base-url", endpoint.base_url),
    ]
    result = mint(parse(metricinstruct_parser(), MetricInstructOptions, given))
    assert ledger_of(result)["human_annotations"]["in"] == 24
    beside = ledger_of(result)["beside_rows"]
    assert (beside["in"], beside["out"]) == (26, {"joined": 24, "rejected": 2})
    left = rows(result, "rejected").filter(unit="annotation")
    assert left.select("rule", "value", "field", "line").sort("line").rows() == [
        ("no_such_output", "12", "id", 25),
        ("no_such_output", "12", "id", 26),
    ]
    assert set(left["file"]) == {str(ratings)}
    tables = statistics_of(result)
    pairs = {(row["first"], row["second"]): row for row in tables["agreement"]}
    assert set(pairs) == {("fake", "mine: ann"), ("fake", "mine: bo"), ("mine: ann", "mine: bo")}
    between = pairs["mine: ann", "mine: bo"]
    assert between["segments"] == pairs["fake", "mine: bo"]["segments"] > 6
    assert 0.5 < between["character_f1"] < 1
    groups = {(row["first"], row["second"]): row for row in tables["agreement_of_groups"]}
    assert groups["fake", "mine: people"]["segments"] == 2 * between["segments"]
    assert groups["mine: people", "mine: people"]["character_f1"] == between["character_f1"]
    card = (Path(result.path) / "README.md").read_text()
    assert f"| mine: ann | mine: bo | {between['segments']} |" in card
    manifest = json.loads((Path(result.path) / "manifest.json").read_text())
    assert [Path(one["path"]).name for one in manifest["run"]["inputs"]] == [
        *(own.name, more.name, ratings.name)
    ]


def test_failed_calls_end_as_dead_or_waiting_and_a_later_run_carries_on(tmp_path: Path) -> None:
    def failing(index: int, body: Mapping[str, Any]) -> Reply | None:
        question = body["messages"][-1]["content"]
        if "Translate" in question:
            return failure(503, "overloaded")
        if "Summar" in question or "summary" in question:
            return Reply(body=completion(None, refusal="No."))
        return None

    with FakeEndpoint(failing) as endpoint:
        first = minted(endpoint, tmp_path, "--retries", "0")
        assert first.status is Status.PUBLISHED
        stages = ledger_of(first)
        dead, waiting = rows(first, "dead"), rows(first, "waiting")
        assert set(dead["error_class"]) == {"refused"}
        assert set(waiting["waits_for"]) == {"call"}
        assert set(waiting["task"]) == {"translation"}
        assert stages["analyses"]["out"]["dead"] == dead.height
        assert stages["analyses"]["out"]["waiting"] == waiting.height
        endpoint.script = lambda index, body: None
        before = endpoint.requests
        second = minted(endpoint, tmp_path, "--retries", "0")
        assert second.version == 2
        assert endpoint.requests - before == 2 * waiting.height
        assert ledger_of(second)["analyses"]["out"].get("waiting", 0) == 0


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (("--sources", "wmt_mqm=/nowhere/*.tsv"), InputError, "no file matches"),
        (("--sources", f"gsm8k={FOLDER}/dolly-sample.jsonl"), InputError, "not a file of gsm8k"),
        (("--sources", "gsm8k"), OptionError, "write NAME=PATH"),
        (("--choice", "gsm8k=finest"), OptionError, "no choice finest"),
        (("--choice", "eli5=all"), OptionError, "no source of this run"),
        (("--metric", "bertscore"), OptionError, "no metric bertscore"),
        (("--filters", "/nowhere.yaml"), InputError, "/nowhere.yaml: no such file"),
        (("--exclude", "/nowhere.txt"), InputError, "/nowhere.txt: no such file"),
        (("--verify", "maybe"), OptionError, "--verify"),
        (("--analysis", "three_step"), OptionError, "--analysis"),
        (("--answer-form", "prose"), OptionError, "--answer-form"),
        (("--base-url", "http://127.0.0.1:9/v1"), EndpointError, "http://127.0.0.1:9/v1"),
    ],
)
def test_what_cannot_be_used_stops_the_run_before_a_call(
    endpoint: FakeEndpoint,
    tmp_path: Path,
    change: tuple[str, str],
    error: type[Exception],
    message: str,
) -> None:
    before = endpoint.requests
    with pytest.raises(error, match=message):
        minted(endpoint, tmp_path, *change)
    assert endpoint.requests == before
    assert not list(tmp_path.glob("metricinstruct/v*"))


def test_the_command_needs_a_source(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["metricinstruct", "--output", str(tmp_path)]) == 2
    assert "give --sources" in capsys.readouterr().err


def test_versions_and_validate_see_what_was_published(
    published: tuple[Path, PublishResult], capsys: pytest.CaptureFixture[str]
) -> None:
    output, result = published
    assert main(["versions", str(output)]) == 0
    assert f"{result.path}  " in capsys.readouterr().out
    assert main(["validate", result.path]) == 0
    assert "sound" in capsys.readouterr().out


def test_a_killed_run_repeats_no_finished_call_and_ends_in_the_same_bytes(tmp_path: Path) -> None:
    in_flight = 6
    with FakeEndpoint(latency=constant(0.03)) as endpoint:
        killed = tmp_path / "killed"
        concurrency = ("--concurrency", str(in_flight))
        killed_after(25, endpoint, ["metricinstruct", *arguments(endpoint, killed, *concurrency)])
        answered = endpoint.answered
        assert not list((killed / "metricinstruct").glob("v*/manifest.json"))
        result = minted(endpoint, killed)
        assert result.status is Status.PUBLISHED
        assert endpoint.requests > answered
        needed = cached_calls(killed / "metricinstruct")
        assert endpoint.requests - needed <= in_flight
        before = endpoint.requests
        undisturbed = minted(endpoint, tmp_path / "undisturbed")
        assert endpoint.requests - before == needed
        assert shard_bytes(result) == shard_bytes(undisturbed)
