"""Tests of transforms.llm.tokens."""

from __future__ import annotations

import random
import socket
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from transforms.llm import tokens
from transforms.llm.tokens import Calibration, estimated_tokens, token_counter


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """Any attempt at a connection is noted and fails; counters are chosen anew."""
    attempts: list[Any] = []

    def connect(self: socket.socket, address: Any) -> None:
        attempts.append(address)
        raise OSError("no network in this test")

    monkeypatch.setattr(socket.socket, "connect", connect)
    token_counter.cache_clear()
    yield attempts
    token_counter.cache_clear()


def test_a_model_without_a_known_encoding_is_estimated_and_says_so() -> None:
    counter = token_counter("some-local-model")
    assert not counter.exact
    assert "bytes" in counter.name
    assert counter.count("a" * 410) == 100


@pytest.mark.parametrize(
    ("model", "encoding"),
    [
        ("gpt-4o-mini", "o200k_base"),
        ("gpt-4.1-nano-2025-04-14", "o200k_base"),
        ("gpt-5", "o200k_base"),
        ("o3", "o200k_base"),
        ("ft:gpt-4o-mini-2024-07-18:org::id", "o200k_base"),
        ("openai/gpt-oss-20b", "o200k_base"),
        ("gpt-4-0613", "cl100k_base"),
        ("gpt-3.5-turbo", "cl100k_base"),
        ("o300-tiny", None),
        ("gpt-4oo", None),
        ("Qwen/Qwen3-8B", None),
    ],
)
def test_encodings_of_models(model: str, encoding: str | None) -> None:
    assert tokens._encoding_name(model) == encoding


def test_the_package_that_carries_encodings_counts_as_openai_does() -> None:
    pytest.importorskip("bpe_openai", reason="the extra 'tokens' is not installed")
    counter = token_counter("gpt-4o")
    assert counter.exact
    assert counter.name.startswith("o200k_base")
    assert counter.count("hello world") == 2
    # A control token in a text is text.
    assert counter.count("<|endoftext|>") > 1


def test_tiktoken_is_never_let_to_download(
    monkeypatch: pytest.MonkeyPatch, no_network: list[Any], tmp_path: Any
) -> None:
    pytest.importorskip("tiktoken", reason="tiktoken is not installed")
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
    monkeypatch.setitem(sys.modules, "bpe_openai", None)
    assert tokens._from_tiktoken("o200k_base") is None
    assert no_network == []
    assert list(tmp_path.iterdir()) == []


def test_an_encoding_in_tiktokens_cache_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """Seen from outside: whoever reads through ``load.read_file`` gets files and no URL."""
    seen: list[str] = []

    class Encoding:
        def encode_ordinary(self, text: str) -> list[int]:
            return [0] * len(text.split())

    load = ModuleType("tiktoken.load")
    load.read_file = lambda path: b"from disk"  # type: ignore[attr-defined]

    def get_encoding(name: str) -> Encoding:
        assert load.read_file("/cached/file") == b"from disk"
        with pytest.raises(FileNotFoundError):
            load.read_file("https://example.invalid/encoding")
        seen.append(name)
        return Encoding()

    package = ModuleType("tiktoken")
    package.load, package.get_encoding = load, get_encoding  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "tiktoken", package)
    monkeypatch.setitem(sys.modules, "tiktoken.load", load)
    monkeypatch.setattr(tokens.importlib.util, "find_spec", lambda name: True)
    counter = token_counter("gpt-4o")
    assert (counter.exact, counter.name, seen) == (True, "o200k_base (tiktoken)", ["o200k_base"])
    assert counter.count("three small words") == 3
    assert load.read_file("https://example.invalid/encoding") == b"from disk"  # put back


def test_nothing_observed_leaves_our_count_alone() -> None:
    assert Calibration().total(3, 120) == 120


@given(
    st.integers(0, 500),
    st.floats(0.5, 2.0),
    st.lists(st.integers(1, 2000), min_size=2, max_size=50, unique=True),
)
def test_a_line_is_found_again(offset: int, slope: float, counts: list[int]) -> None:
    calibration = Calibration()
    for counted in counts:
        calibration.observe(counted, round(offset + slope * counted))
    total = calibration.total(len(counts), sum(counts))
    assert total == pytest.approx(calibration.reported, abs=1e-6 * max(1, calibration.reported))


def test_equal_counts_are_corrected_by_the_offset() -> None:
    calibration = Calibration()
    for _ in range(5):
        calibration.observe(100, 130)
    assert calibration.line() == (30.0, 1.0)
    assert calibration.total(2, 210) == 270


def test_a_slope_that_no_two_encodings_have_is_not_believed() -> None:
    calibration = Calibration()
    calibration.observe(100, 1000)
    calibration.observe(101, 100)
    assert calibration.line()[1] == 1.0


def test_calibrations_do_not_depend_on_the_order_of_calls() -> None:
    pairs = [(index * 7 % 50 + 10, index * 9 % 70 + 30) for index in range(40)]
    shuffled = random.Random(1).sample(pairs, len(pairs))
    first, second = Calibration(), Calibration()
    for pair in pairs:
        first.observe(*pair)
    for pair in shuffled:
        second.observe(*pair)
    assert first == second


def test_the_estimate_counts_bytes_not_characters() -> None:
    assert estimated_tokens("ä" * 82) == 40
    assert estimated_tokens("\ud800") >= 0
