"""The command from end to end: real files, a real server on loopback, real parquet."""

from __future__ import annotations

import csv
import json
import random
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from pipelines.cli import main
from pipelines.option_parsing import parse
from pipelines.prosocial.command import mint
from pipelines.prosocial.options import ProsocialOptions, prosocial_parser
from tests.runs import cached_calls, killed_after, ledger_of, rows, shard_bytes
from transforms.errors import EndpointError, InputError, OptionError, OutputError
from transforms.llm.fake_endpoint.latency import constant
from transforms.llm.fake_endpoint.replies import Reply, completion, failure
from transforms.llm.fake_endpoint.server import FakeEndpoint
from transforms.publishing.publish import PublishResult, Status

ROOT = Path(__file__).resolve().parents[3]
SAMPLES = ROOT / "pipelines" / "prosocial" / "samples"
SEEDS = (
    f"socialchemistry={SAMPLES}/social-chem-101.sample.tsv",
    f"sbic={SAMPLES}/SBIC.v2.sample.*.csv",
    f"ethics={SAMPLES}/cm_*.csv",
)
CONFIGURATIONS = ("default", "provenance", "annotations", "rejected", "dead", "waiting")


@pytest.fixture(scope="module")
def endpoint() -> Iterator[FakeEndpoint]:
    with FakeEndpoint() as running:
        yield running


@pytest.fixture(autouse=True)
def _offline(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")


def arguments(endpoint: FakeEndpoint, output: Path, *more: str) -> list[str]:
    return [
        *("--seeds", *SEEDS, "--output", str(output), "--partitions", "2"),
        *("--model", "fake", "--base-url", endpoint.base_url, *more),
    ]


def minted(endpoint: FakeEndpoint, output: Path, *more: str) -> PublishResult:
    return mint(parse(prosocial_parser(), ProsocialOptions, arguments(endpoint, output, *more)))


@pytest.fixture(scope="module")
def published(
    endpoint: FakeEndpoint, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, PublishResult]:
    output = tmp_path_factory.mktemp("published")
    return output, minted(endpoint, output, "--crowd", "llm")


def test_the_ledger_tells_how_the_calls_of_each_prompt_went(
    published: tuple[Path, PublishResult],
) -> None:
    ledger = json.loads((Path(published[1].path) / "ledger.json").read_text())
    entries = {entry["prompt"]: entry for entry in ledger["calls"]}
    assert set(entries) >= {"utterance.v1", "question.v1", "continuation.v1", "vote.v1"}
    for entry in entries.values():
        assert entry["class_shares"] == {"ok": 1.0}
        latency = entry["latency"]
        assert 0 < latency["p50"] <= latency["p90"] <= latency["p99"] < 60
        assert not [name for name in entry if name.startswith("latency_")]


def test_every_configuration_of_a_version_loads(
    published: tuple[Path, PublishResult], tmp_path: Path
) -> None:
    import datasets

    _, result = published
    assert result.status is Status.PUBLISHED
    sizes = {}
    # Nothing died and nothing waits; datasets can't load what has no rows, so it is no part of it.
    for name in CONFIGURATIONS[:-2]:
        loaded = datasets.load_dataset(result.path, name, cache_dir=str(tmp_path))
        sizes[name] = {split: len(part) for split, part in loaded.items()}
    assert set(sizes["default"]) == {"train", "validation", "test"}
    total = {name: sum(parts.values()) for name, parts in sizes.items()}
    assert total["provenance"] == 2 * total["default"]
    assert total["annotations"] == 3 * total["default"]
    assert total["default"] > 100
    assert total["rejected"] > 20


def test_the_ledger_accounts_for_every_row_of_every_seed_file(
    published: tuple[Path, PublishResult],
) -> None:
    ledger = ledger_of(published[1])
    lines = 0
    for file in SAMPLES.glob("*.[ct]sv"):
        with file.open(newline="") as opened:
            records = list(csv.reader(opened, delimiter="\t" if file.suffix == ".tsv" else ","))
        lines += len(records) - ("ambig" not in file.name)  # that one has no header
    assert ledger["input_rows"]["in"] == lines
    assert ledger["dialogues"]["out"]["published"] > 30


def test_released_rows_have_contiguous_ids_and_end_once(
    published: tuple[Path, PublishResult],
) -> None:
    for split in ("train", "validation", "test"):
        frame = pl.read_parquet(Path(published[1].path) / "data" / f"{split}-*.parquet")
        ids = frame["dialogue_id"].unique().sort().to_list()
        assert ids == list(range(len(ids)))
        last = frame.group_by("dialogue_id").agg(
            pl.col("response_id").sort(), pl.col("episode_done").sort_by("response_id")
        )
        for turns, done in zip(last["response_id"], last["episode_done"], strict=True):
            assert turns.to_list() == list(range(len(turns)))
            assert done.to_list() == [False] * (len(turns) - 1) + [True]


def test_running_again_makes_no_call_and_no_version(
    endpoint: FakeEndpoint, published: tuple[Path, PublishResult]
) -> None:
    output, first = published
    before = endpoint.requests
    again = minted(endpoint, output, "--crowd", "llm")
    assert again.status is Status.UNCHANGED
    assert again.path == first.path
    assert endpoint.requests == before
    assert sorted(path.name for path in (output / "prosocial").glob("v*")) == ["v0001"]


@pytest.mark.parametrize(
    "more",
    [
        pytest.param((), id="shuffled inputs"),
        pytest.param(
            ("--direct_running_mode=multi_processing", "--direct_num_workers=2"),
            id="two processes",
        ),
        pytest.param(("--direct_num_workers=2",), id="two workers"),
    ],
)
def test_the_same_inputs_give_the_same_bytes(
    endpoint: FakeEndpoint,
    published: tuple[Path, PublishResult],
    tmp_path: Path,
    more: tuple[str, ...],
) -> None:
    output, first = published
    (tmp_path / "prosocial").mkdir()
    for name in ("cache", "dataset.json"):
        source = output / "prosocial" / name
        copy = shutil.copytree if source.is_dir() else shutil.copy
        copy(source, tmp_path / "prosocial" / name)
    before = endpoint.requests
    options = arguments(endpoint, tmp_path, "--crowd", "llm", *more)
    end = options.index("--output")
    files = [
        f"{seed.partition('=')[0]}={path}"
        for seed in options[1:end]
        for path in Path(SAMPLES).glob(Path(seed.partition("=")[2]).name)
    ]
    random.Random(5).shuffle(files)
    options[1:end] = files
    second = mint(parse(prosocial_parser(), ProsocialOptions, options))
    assert second.status is Status.PUBLISHED
    assert endpoint.requests == before
    assert shard_bytes(second) == shard_bytes(first)


def test_a_limit_takes_the_smallest_keys_and_leaves_the_others_waiting(
    endpoint: FakeEndpoint, published: tuple[Path, PublishResult], tmp_path: Path
) -> None:
    result = minted(endpoint, tmp_path, "--crowd", "llm", "--limit", "7")
    waiting = rows(result, "waiting")
    assert set(waiting["waits_for"]) == {"limit"}
    ledger = ledger_of(result)
    assert ledger["dialogues"]["in"] == 7
    whole = ledger_of(published[1])["dialogues"]["in"]
    assert waiting.height == whole - 7
    taken = rows(result, "provenance")["key"].unique()
    assert max(taken) < min(waiting["key"])
    raised = minted(endpoint, tmp_path, "--crowd", "llm", "--limit", "9")
    assert ledger_of(raised)["dialogues"]["in"] == 9
    assert raised.version == 2


def test_seed_files_without_rows_come_to_an_end(endpoint: FakeEndpoint, tmp_path: Path) -> None:
    seeds = tmp_path / "seeds.csv"
    seeds.write_text("situation,split\n")
    output = tmp_path / "out"
    options = ["--output", str(output), "--model", "fake", "--base-url", endpoint.base_url]
    parsed = parse(prosocial_parser(), ProsocialOptions, ["--seeds", f"mine={seeds}", *options])
    result = mint(parsed)
    assert result.status is Status.INCOMPLETE
    assert ledger_of(result)["input_rows"]["in"] == 0


@pytest.mark.parametrize(
    ("reply", "error_class"),
    [
        (Reply(body=completion('{"text": "cut o')), "bad_json"),
        (Reply(status=503, body="<html>busy</html>"), "server"),
    ],
)
def test_the_same_calls_failing_again_make_no_version(
    tmp_path: Path, reply: Reply, error_class: str
) -> None:
    fails = 0

    def script(index: int, body: Mapping[str, Any]) -> Reply | None:
        nonlocal fails
        # The question itself, or the one that is followed by its malformed answer.
        if not any("cake" in message["content"] for message in body["messages"][-3:]):
            return None
        fails += 1
        return replace(reply, status=500) if reply.status == 503 and fails > 1 else reply

    with FakeEndpoint(script) as failing:
        options = ("--crowd", "llm", "--retries", "0")
        first = minted(failing, tmp_path, *options)
        dead = rows(first, "dead")
        assert set(dead["error_class"]) == {error_class}
        again = minted(failing, tmp_path, *options)
        assert (again.status, again.path) == (Status.UNCHANGED, first.path)


def test_a_key_that_becomes_invalid_ends_one_run_alone(tmp_path: Path) -> None:
    def script(index: int, body: Mapping[str, Any]) -> Reply | None:
        return failure(401, "invalid_api_key") if valid == 0 and index >= 20 else None

    valid = 0
    with FakeEndpoint(script) as locking:
        options = ("--crowd", "llm", "--concurrency", "4", "--limit", "6")
        first = minted(locking, tmp_path, *options)
        assert first.status is Status.INCOMPLETE
        assert set(rows(first, "dead")["error_class"]) == {"auth"}
        assert locking.requests <= 20 + 4
        valid = 1
        second = minted(locking, tmp_path, *options)
        assert second.status is Status.PUBLISHED
        assert not (Path(second.path) / "dead").exists()


def write_lines(path: Path, objects: list[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(item) + "\n" for item in objects))


def crowd_work(waiting: pl.DataFrame) -> list[dict[str, Any]]:
    """Return what a crowd would answer to the rows that wait for responses."""
    return [
        {
            "key": row["key"],
            "turn": row["turn"],
            "annotator": index % 3,
            "response": f"I see why number {index} bothers you, but there is a kinder way to go.",
            "rots": row["rots"][:1] or ["It's good to be kind to other people."],
        }
        for index, row in enumerate(waiting.iter_rows(named=True))
        if row["waits_for"] == "response"
    ]


def test_crowd_rounds_converge_on_a_version(endpoint: FakeEndpoint, tmp_path: Path) -> None:
    output = tmp_path / "out"
    files: list[str] = []
    seen = []
    result = minted(endpoint, output)
    for number in range(2):
        assert result.status is Status.INCOMPLETE
        waiting = rows(result, "waiting")
        assert set(waiting["waits_for"]) >= {"response"}
        assert (waiting["utterances"].list.len() >= 3).all()
        seen.append(waiting.height)
        write_lines(tmp_path / f"responses-{number}.jsonl", crowd_work(waiting))
        files = ["--responses", f"{tmp_path}/responses-*.jsonl"]
        result = minted(endpoint, output, *files)
    waiting = rows(result, "waiting")
    assert set(waiting["waits_for"]) == {"annotations"}
    assert seen[0] == waiting.height == ledger_of(result)["dialogues"]["in"]
    votes = [
        {"key": row["key"], "turn": turn, "annotator": f"w{voter}", "vote": "needs caution"}
        for row in waiting.iter_rows(named=True)
        for turn in range(len(row["utterances"]) // 2)
        for voter in range(3)
    ]
    write_lines(tmp_path / "annotations.jsonl", [{**vote, "reason": "It hurts."} for vote in votes])
    before = endpoint.requests
    result = minted(endpoint, output, *files, "--annotations", f"{tmp_path}/annotations.jsonl")
    assert endpoint.requests == before
    assert result.status is Status.PUBLISHED
    assert result.version == 1
    stages = ledger_of(result)
    assert stages["annotations"]["in"] == len(votes)
    assert set(rows(result, "default")["safety_label"]) == {"__needs_caution__"}
    assert set(rows(result, "annotations")["author"]) == {"crowd"}


def test_sample_crowd_files_are_joined_and_the_model_does_the_rest(
    endpoint: FakeEndpoint, tmp_path: Path
) -> None:
    crowd = [
        *("--responses", f"{SAMPLES}/crowd/responses-*.jsonl"),
        *("--annotations", f"{SAMPLES}/crowd/annotations-*.jsonl"),
    ]
    result = minted(endpoint, tmp_path, "--crowd", "llm", "--limit", "14", *crowd)
    assert result.status is Status.PUBLISHED
    authors = rows(result, "annotations")["author"].value_counts()
    assert dict(authors.iter_rows()) == {
        "crowd": len((SAMPLES / "crowd/annotations-sample.jsonl").read_text().splitlines()),
        "model": authors.filter(pl.col("author") == "model")["count"].item(),
    }
    provenance = rows(result, "provenance")
    assert provenance.filter(pl.col("edited"))["raw_text"].is_not_null().all()
    assert set(provenance["author"]) == {"seed", "model", "crowd", "model as annotator"}


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (("--seeds", "sbic=/nowhere/a.csv"), InputError, "/nowhere/a.csv: no such file"),
        (("--seeds", "sbic=/nowhere/*.csv"), InputError, "no file matches"),
        (("--seeds", f"sbic={SAMPLES}/cm_train.sample.csv"), InputError, "no column"),
        (("--seeds", "sbic"), OptionError, "write NAME=PATH"),
        (("--responses", "/nowhere/*.jsonl"), InputError, "no file matches"),
        (
            ("--annotations", f"{SAMPLES}/crowd/responses-sample.jsonl"),
            InputError,
            "no field vote",
        ),
        (("--filters", "/nowhere.yaml"), InputError, "/nowhere.yaml: no such file"),
        (("--base-url", "http://127.0.0.1:9/v1"), EndpointError, "http://127.0.0.1:9/v1"),
        (("--model", "other"), EndpointError, "no model 'other'"),
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
    with pytest.raises(error, match=message.replace("*", r"\*")):
        minted(endpoint, tmp_path, *change)
    assert endpoint.requests == before
    assert not list(tmp_path.glob("prosocial/v*"))


def test_a_rejected_key_stops_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-wrong")
    with FakeEndpoint(key="sk-right") as locked:
        with pytest.raises(EndpointError, match="key was rejected") as raised:
            minted(locked, tmp_path)
        assert "sk-wrong" not in str(raised.value)
        assert locked.requests == 0


def test_an_output_that_is_not_ours_is_refused(endpoint: FakeEndpoint, tmp_path: Path) -> None:
    (tmp_path / "prosocial").mkdir()
    (tmp_path / "prosocial" / "thesis.tex").write_text("precious")
    with pytest.raises(OutputError, match="not an output of remint"):
        minted(endpoint, tmp_path)
    assert (tmp_path / "prosocial" / "thesis.tex").read_text() == "precious"


def test_other_partitions_than_the_datasets_own_are_refused(
    endpoint: FakeEndpoint, published: tuple[Path, PublishResult]
) -> None:
    with pytest.raises(OutputError, match="partitions"):
        minted(endpoint, published[0], "--partitions", "3")


def test_the_command_line_says_what_is_wrong_in_one_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    code = main(["prosocial", "--seeds", "sbic=/nowhere.csv", "--output", str(tmp_path)])
    captured = capsys.readouterr()
    assert code == 2
    assert captured.err == "remint prosocial: /nowhere.csv: no such file; check the path\n"
    assert main(["prosocail"]) == 2
    assert "unknown command 'prosocail'" in capsys.readouterr().err


def test_versions_and_validate_see_what_was_published(
    published: tuple[Path, PublishResult], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    output, result = published
    assert main(["versions", str(output)]) == 0
    assert result.path in capsys.readouterr().out
    assert main(["validate", result.path]) == 0
    assert "sound" in capsys.readouterr().out
    copy = tmp_path / "copy"
    shutil.copytree(result.path, copy)
    shard = next(copy.glob("data/*.parquet"))
    shard.write_bytes(shard.read_bytes()[:-1] + b"?")
    assert main(["validate", str(copy)]) == 1
    assert shard.name in capsys.readouterr().out


def test_a_killed_run_repeats_no_finished_call_and_ends_in_the_same_bytes(tmp_path: Path) -> None:
    in_flight = 6
    with FakeEndpoint(latency=constant(0.03)) as endpoint:
        killed, crowd = tmp_path / "killed", ("--crowd", "llm")
        concurrency = ("--concurrency", str(in_flight))
        killed_after(
            150, endpoint, ["prosocial", *arguments(endpoint, killed, *crowd, *concurrency)]
        )
        answered = endpoint.answered
        result = minted(endpoint, killed, *crowd)
        assert result.status is Status.PUBLISHED
        assert endpoint.requests > answered
        needed = cached_calls(killed / "prosocial")
        assert endpoint.requests - needed <= in_flight
        before = endpoint.requests
        undisturbed = minted(endpoint, tmp_path / "undisturbed", *crowd)
        assert endpoint.requests - before == needed
        assert shard_bytes(result) == shard_bytes(undisturbed)
