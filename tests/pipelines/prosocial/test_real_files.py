"""The whole pipeline over the real files of all three sources, in crowd rounds."""

from __future__ import annotations

import csv
import gzip
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from pipelines.option_parsing import parse
from pipelines.prosocial import schema
from pipelines.prosocial.command import mint
from pipelines.prosocial.options import ProsocialOptions, prosocial_parser
from transforms.llm.fake_endpoint.server import FakeEndpoint
from transforms.publishing.publish import PublishResult, Status

PATTERNS = {
    "socialchemistry": "social_chem_101/*_sc101.csv.gz",
    "sbic": "schema_fixtures/social_bias_frames__SBIC.v2.*.csv",
    "ethics": "ethics_commonsense/cm_*.csv.gz",
}


@pytest.fixture
def files(shared_data: Callable[[str], Path]) -> list[str]:
    return [
        f"{name}={path}"
        for name, pattern in PATTERNS.items()
        for path in sorted(shared_data(pattern.split("/")[0]).glob(pattern.split("/")[1]))
    ]


def records(path: Path) -> int:
    content = path.read_bytes()
    if path.suffix == ".gz":
        content = gzip.decompress(content)
    rows = sum(1 for row in csv.reader(io.StringIO(content.decode(), newline="")) if row)
    return rows - ("ambig" not in path.name)


def responses_to(waiting: pl.DataFrame) -> list[dict[str, Any]]:
    return [
        {
            "key": row["key"],
            "turn": row["turn"],
            "annotator": 7,
            "response": f"That sounds hard. At {row['turn']}:{index % 60} I would hear you out.",
            "rots": row["rots"][:1] or ["It's good to talk things over."],
        }
        for index, row in enumerate(waiting.iter_rows(named=True))
        if row["waits_for"] == "response"
    ]


def votes_on(waiting: pl.DataFrame) -> list[dict[str, Any]]:
    return [
        {"key": key, "turn": turn, "annotator": voter, "vote": "needs caution", "reason": "Unkind."}
        for key, utterances in waiting.select("key", "utterances").iter_rows()
        for turn in range(len(utterances) // 2)
        for voter in ("a", "b", "c")
    ]


def test_every_row_of_the_real_files_is_accounted_for(files: list[str], tmp_path: Path) -> None:
    expected = sum(records(Path(file.partition("=")[2])) for file in files)
    with FakeEndpoint() as endpoint:
        base = [
            *("--seeds", *files, "--output", str(tmp_path / "out"), "--partitions", "2"),
            *("--model", "fake", "--base-url", endpoint.base_url),
        ]

        def run(*more: str) -> tuple[PublishResult, dict[str, Any]]:
            result = mint(parse(prosocial_parser(), ProsocialOptions, [*base, *more]))
            ledger: dict[str, Any] = json.loads((Path(result.path) / "ledger.json").read_text())
            assert ledger["closes"]
            stages: dict[str, Any] = ledger["stages"]
            assert stages["input_rows"]["in"] == expected
            assert sum(stages["input_rows"]["out"].values()) == expected
            return result, stages

        def waiting(result: PublishResult) -> pl.DataFrame:
            return pl.read_parquet(Path(result.path) / "waiting" / "*.parquet")

        def write(name: str, rows: list[dict[str, Any]]) -> None:
            (tmp_path / name).write_text("".join(json.dumps(row) + "\n" for row in rows))

        result, stages = run()
        seeds = stages["dialogues"]["in"]
        assert seeds > 3000
        for number in range(2):
            assert result.status is Status.INCOMPLETE
            write(f"responses-{number}.jsonl", responses_to(waiting(result)))
            crowd = ["--responses", f"{tmp_path}/responses-*.jsonl"]
            result, stages = run(*crowd)
        votes = votes_on(waiting(result))
        write("annotations.jsonl", votes)
        calls = endpoint.requests
        result, stages = run(*crowd, "--annotations", f"{tmp_path}/annotations.jsonl")
        assert result.status is Status.PUBLISHED
        assert endpoint.requests == calls
        assert stages["annotations"]["in"] == len(votes)
        # Some situations differ by a word, and so do the endpoint's answers to them.
        ends = stages["dialogues"]["out"]
        assert set(ends) <= {"published", "duplicate"}
        assert sum(ends.values()) == seeds
        assert ends["published"] > 0.99 * seeds
        default = pl.read_parquet(Path(result.path) / "data" / "*.parquet")
        assert set(default["source"]) == set(schema.SOURCES)
