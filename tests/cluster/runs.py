"""Runs of both datasets over the bundled samples, on whatever runner."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipelines.metricinstruct import command as metricinstruct
from pipelines.metricinstruct.options import MetricInstructOptions, metricinstruct_parser
from pipelines.metricinstruct.sources.samples import sample_files
from pipelines.option_parsing import parse
from pipelines.prosocial import command as prosocial
from pipelines.prosocial.options import ProsocialOptions, prosocial_parser
from runner_configs.flink.cluster import FlinkCluster
from transforms.llm.fake_endpoint.server import FakeEndpoint
from transforms.publishing.publish import PublishResult

ROOT = Path(__file__).resolve().parents[2]
PARTITIONS = 6
#: A run on a standalone cluster of two TaskManagers.
PORTABLE = (
    *("--runner=PortableRunner", "--parallelism=2", "--environment_type=PROCESS"),
    '--environment_config={"command": "remint-worker"}',
)


@dataclass(frozen=True)
class Dataset:
    """A dataset's command, and the options that name its samples."""

    name: str
    inputs: Callable[[], Sequence[str]]
    mint: Callable[[Sequence[str]], PublishResult]

    def arguments(self, base_url: str, output: str | Path, *more: str) -> list[str]:
        """Return the command's arguments."""
        return [
            *(*self.inputs(), "--output", str(output), "--partitions", str(PARTITIONS)),
            *("--model", "fake", "--base-url", base_url, *more),
        ]


def _prosocial_inputs() -> list[str]:
    samples = ROOT / "pipelines" / "prosocial" / "samples"
    return [
        "--seeds",
        f"socialchemistry={samples}/social-chem-101.sample.tsv",
        f"sbic={samples}/SBIC.v2.sample.*.csv",
        f"ethics={samples}/cm_*.csv",
        *("--responses", f"{samples}/crowd/responses-*.jsonl"),
        *("--annotations", f"{samples}/crowd/annotations-*.jsonl"),
        *("--crowd", "llm"),
    ]


def _metricinstruct_inputs() -> list[str]:
    options = []
    for file in sample_files():
        option = "--sources" if file.channel == "real" else "--synthetic"
        options += [option, f"{file.source}={file.path}"]
        for path in file.outputs:
            options += ["--outputs", f"{file.source}={path}"]
    return options


PROSOCIAL = Dataset(
    "prosocial",
    _prosocial_inputs,
    lambda argv: prosocial.mint(parse(prosocial_parser(), ProsocialOptions, argv)),
)
METRICINSTRUCT = Dataset(
    "metricinstruct",
    _metricinstruct_inputs,
    lambda argv: metricinstruct.mint(parse(metricinstruct_parser(), MetricInstructOptions, argv)),
)


def with_cache_of(output: Path, other: Path, dataset: str) -> Path:
    """Return ``other`` as an output directory with the settings and answers of ``output``'s."""
    (other / dataset).mkdir(parents=True)
    shutil.copy(output / dataset / "dataset.json", other / dataset)
    shutil.copytree(output / dataset / "cache", other / dataset / "cache")
    return other


def shard_bytes(path: str | Path) -> dict[str, bytes]:
    """Return every shard of a version by its path."""
    return {
        str(file.relative_to(path)): file.read_bytes()
        for file in sorted(Path(path).rglob("*.parquet"))
    }


def ledger(path: str | Path) -> dict[str, Any]:
    """Return a version's ledger, without which of its answers were called for and which cached."""
    found: dict[str, Any] = json.loads((Path(path) / "ledger.json").read_text())
    assert found["closes"]
    assert found.pop("calls")
    return found


def started(
    endpoint: FakeEndpoint, output: Path, cluster: FlinkCluster, in_flight: int, *options: str
) -> subprocess.Popen[bytes]:
    """Start a run on ``cluster`` as a process of its own."""
    arguments = PROSOCIAL.arguments(
        endpoint.base_url,
        output,
        *("--concurrency", str(in_flight), *PORTABLE, *options),
        f"--job_endpoint={cluster.job_endpoint}",
        f"--flink_master={cluster.master}",
    )
    return subprocess.Popen(
        [sys.executable, "-m", "pipelines.cli", "prosocial", *arguments],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stderr=subprocess.PIPE,
    )
