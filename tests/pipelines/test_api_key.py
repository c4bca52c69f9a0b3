"""The key's way: to the endpoint, and nowhere else."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from pipelines.option_parsing import parse
from pipelines.prosocial.options import ProsocialOptions, prosocial_parser
from transforms.errors import OptionError
from transforms.llm.fake_endpoint.server import FakeEndpoint

ROOT = Path(__file__).resolve().parents[2]
SEEDS = ROOT / "pipelines" / "prosocial" / "samples" / "social-chem-101.sample.tsv"
KEY = "sk-remint-test-9c8b7a"


def run(base_url: str, output: Path, *more: str, **environment: str) -> str:
    """Run the command and return all that it says."""
    arguments = ["--seeds", f"socialchemistry={SEEDS}", "--output", str(output), "--partitions=2"]
    arguments += ["--crowd", "llm", "--model", "fake", "--base-url", base_url, *more]
    known = {name: value for name, value in os.environ.items() if not name.startswith("OPENAI_")}
    done = subprocess.run(
        [sys.executable, "-m", "pipelines.cli", "prosocial", *arguments],
        cwd=ROOT,
        env={**known, "PYTHONPATH": str(ROOT), **environment},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    told = done.stdout + done.stderr
    assert done.returncode == 0, told
    return told


def written(output: Path) -> str:
    """Return all that a run has written, parquet as text, with the files' names."""
    parts = []
    for path in sorted(filter(Path.is_file, output.rglob("*"))):
        parts.append(str(path))
        if path.suffix == ".parquet":
            parts.append(repr(pl.read_parquet(path).to_dicts()))
        else:
            parts.append(path.read_bytes().decode("utf-8", "replace"))
    return "\n".join(parts)


def test_the_key_is_nowhere_but_in_the_requests(tmp_path: Path) -> None:
    (tmp_path / "key").write_text(f"{KEY}\n")
    with FakeEndpoint(key=KEY) as endpoint:
        by_environment = run(
            endpoint.base_url, tmp_path / "environment", "--limit=3", OPENAI_API_KEY=KEY
        )
        by_file = run(
            endpoint.base_url, tmp_path / "file", "--limit=3", f"--api-key=file:{tmp_path}/key"
        )
        assert endpoint.answered > 0
        assert set(endpoint.statuses) == {200}
    for told, name in ((by_environment, "environment"), (by_file, "file")):
        assert "published version 1" in told
        assert KEY not in told
        found = written(tmp_path / name)
        assert "manifest.json" in found
        assert KEY not in found


def test_the_options_of_the_job_know_nothing_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    from pipelines.runners import pipeline_options

    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    options = parse_with()
    told: dict[str, Any] = pipeline_options(options.beam, "out/prosocial").get_all_options()
    assert KEY not in repr(told)
    assert KEY not in repr(options)


def test_a_key_in_the_place_of_its_source_is_refused_unseen() -> None:
    for arguments in ([f"--api-key={KEY}"], ["--api-key", KEY], [f"--api_key={KEY}"]):
        with pytest.raises(OptionError) as told:
            parse_with(*arguments)
        assert KEY not in str(told.value)
        assert "api-key" in str(told.value) or "api_key" in str(told.value)


def parse_with(*more: str) -> ProsocialOptions:
    arguments = ["--seeds", f"socialchemistry={SEEDS}", "--output", "out", "--model", "fake"]
    arguments += ["--base-url", "http://127.0.0.1:1/v1", *more]
    return parse(prosocial_parser(), ProsocialOptions, arguments)
