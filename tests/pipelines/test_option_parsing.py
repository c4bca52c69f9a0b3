"""Options: flags over configuration file over defaults, and everything unknown refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipelines.option_parsing import parse
from pipelines.prosocial.options import ProsocialOptions, prosocial_parser
from transforms.errors import OptionError

SEEDS = ["--seeds", "ethics=cm_*.csv", "--output", "out"]


def parsed(*argv: str) -> ProsocialOptions:
    return parse(prosocial_parser(), ProsocialOptions, argv)


@pytest.fixture(autouse=True)
def _no_endpoint_in_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)


def test_defaults_use_the_embedded_model() -> None:
    options = parsed(*SEEDS)
    assert options.embedded
    assert options.seeds == ("ethics=cm_*.csv",)
    assert options.crowd == "files"


def test_seeds_may_be_repeated_and_listed() -> None:
    options = parsed(*SEEDS, "--seeds", "sbic=a.csv", "sbic=b.csv")
    assert options.seeds == ("ethics=cm_*.csv", "sbic=a.csv", "sbic=b.csv")


def test_flags_win_over_the_configuration_file(tmp_path: Path) -> None:
    config = tmp_path / "run.yaml"
    config.write_text(
        "output: elsewhere\nlimit: 7\ncrowd: llm\nresponses: one.jsonl\n"
        "seeds: {ethics: [a.csv, b.csv], mine: c.jsonl}\n"
        "direct-num-workers: 2\nstreaming: false\n"
    )
    options = parsed("--config", str(config), "--limit", "9")
    assert options.limit == 9
    assert options.output == "elsewhere"
    assert options.crowd == "llm"
    assert options.responses == ("one.jsonl",)
    assert options.seeds == ("ethics=a.csv", "ethics=b.csv", "mine=c.jsonl")
    assert options.beam == ("--direct_num_workers=2",)


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        ((*SEEDS, "--bogus", "1"), "unknown option '--bogus'"),
        ((*SEEDS, "--lim", "1"), "unknown option '--lim'"),
        (("--output", "out"), "--seeds: is needed"),
        (("--seeds", "ethics=a.csv"), "--output: is needed"),
        ((*SEEDS, "--rpm", "inf"), "--rpm: Input should be a finite number"),
        ((*SEEDS, "--limit", "0"), "--limit: Input should be greater"),
        ((*SEEDS, "--limit", "many"), "--limit: Input should be a valid integer"),
        ((*SEEDS, "--crowd", "people"), "--crowd: Input should be 'files' or 'llm'"),
        ((*SEEDS, "--base-url", "http://localhost:1"), "--base-url needs --model"),
        ((*SEEDS, "--base-url", "ftp://x", "--model", "m"), "must begin with http"),
        ((*SEEDS, "--model", "gpt-4o-mini"), "needs OPENAI_API_KEY"),
        ((*SEEDS, "--direct_num_workers=two"), "invalid int value"),
        ((*SEEDS, "--direct_running_mode=multi_threading"), "loses rows in silence"),
        ((*SEEDS, "--experiments=data_buffer_time_limit_ms=9"), "loses rows"),
        ((*SEEDS, "--config", "/nowhere/run.yaml"), "can't be read"),
        ((*SEEDS, "--limit"), "expected one argument"),
        ((*SEEDS, "--embedded-model", "gpt-9"), "--embedded-model: there are qwen2.5-coder-0.5b"),
        ((*SEEDS, "--runner", "NoSuchRunner"), "has not been tried on it"),
        ((*SEEDS, "--model", "m", "--base-url", "http://[::1"), "--base-url: is not a URL"),
        ((*SEEDS, "--model", "m", "--base-url", "http://h:99999/v1"), "--base-url: is not a URL"),
        ((*SEEDS, "--model", "m", "--base-url", "http://h/v1?key=k"), "must end with its path"),
    ],
)
def test_what_cannot_be_used_is_refused(argv: tuple[str, ...], message: str) -> None:
    with pytest.raises(OptionError, match=message.replace("(", r"\(")):
        parsed(*argv)


@pytest.mark.parametrize("content", ["- a\n- b\n", "a: [", "seeds: 3\noutput: x\n"])
def test_a_configuration_file_of_another_form_is_refused(tmp_path: Path, content: str) -> None:
    config = tmp_path / "run.yaml"
    config.write_text(content)
    with pytest.raises(OptionError):
        parsed("--config", str(config))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("limit: true", "--limit: must be a number"),
        ("timeout: false", "--timeout: must be a number"),
        ("limt: 3", "unknown option '--limt"),
        ("limt: null", "unknown option '--limt'"),
        ("limt: false", "unknown option '--limt'"),
        ("runner: NoSuchRunner", "has not been tried on it"),
    ],
)
def test_a_configuration_files_slips_are_named(tmp_path: Path, content: str, message: str) -> None:
    config = tmp_path / "run.yaml"
    config.write_text(content)
    with pytest.raises(OptionError, match=message):
        parsed(*SEEDS, "--config", str(config))


def test_endpoint_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:8000/v1")
    assert parsed(*SEEDS).embedded
    options = parsed(*SEEDS, "--model", "local")
    assert options.base_url == "http://127.0.0.1:8000/v1"
    assert not options.embedded


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("rpm", "0"),
        ("tpm", "many"),
        ("lanes", "0"),
        ("connect-timeout", "-1"),
        ("first-byte-timeout", "0"),
    ],
)
def test_limits_are_positive_numbers(option: str, value: str) -> None:
    with pytest.raises(OptionError, match=f"--{option}"):
        parsed(*SEEDS, f"--{option}", value)


def test_limits_are_read() -> None:
    options = parsed(*SEEDS, "--rpm", "90", "--tpm", "5e4", "--first-byte-timeout", "20")
    assert (options.rpm, options.tpm, options.first_byte_timeout) == (90, 50_000, 20)
    assert (parsed(*SEEDS).rpm, parsed(*SEEDS).tpm, parsed(*SEEDS).lanes) == (None, None, 8)
