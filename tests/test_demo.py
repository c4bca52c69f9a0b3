"""``make demo`` with an endpoint that answers at once in place of the embedded model."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path

import datasets
import pyarrow.parquet as pq
import pytest
import yaml

from pipelines.cli import main
from transforms.llm.fake_endpoint.server import FakeEndpoint

ROOT = Path(__file__).resolve().parents[1]


def demo_commands(output: Path) -> list[list[str]]:
    """Return the words behind ``remint`` of each command of the demo, as make expands them."""
    made = subprocess.run(
        ["make", "--dry-run", "--no-print-directory", "demo", f"OUTPUT={output}"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    lines = made.stdout.replace("\\\n", " ").splitlines()
    commands = [shlex.split(line) for line in lines if "/remint " in line]
    return [words[1:] for words in commands if words[0].endswith("/remint")]


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    output = tmp_path_factory.mktemp("demo")
    minting = [words for words in demo_commands(output) if words[0] != "validate"]
    assert [words[0] for words in minting] == ["prosocial", "metricinstruct"]
    with pytest.MonkeyPatch.context() as patch, FakeEndpoint() as endpoint:
        patch.chdir(ROOT)
        patch.setenv("HF_HUB_OFFLINE", "1")
        for words in minting:
            assert main([*words, "--model", "fake", "--base-url", endpoint.base_url]) == 0
    return output


@pytest.mark.parametrize("dataset", ["prosocial", "metricinstruct"])
def test_datasets_loads_every_configuration_of_the_demo(
    demo: Path, tmp_path: Path, dataset: str
) -> None:
    (version,) = (demo / dataset).glob("v*")
    card = next(yaml.safe_load_all((version / "README.md").read_text()))
    names = [configuration["config_name"] for configuration in card["configs"]]
    folders = {path.parent.name for path in version.glob("*/*.parquet")}
    assert {"data" if name == "default" else name for name in names} == folders
    assert len(names) > 4
    for name in names:
        loaded = datasets.load_dataset(str(version), name, cache_dir=str(tmp_path))
        for split, part in loaded.items():
            files = version.glob(f"{'data' if name == 'default' else name}/{split}-*.parquet")
            assert part.num_rows == sum(pq.read_metadata(file).num_rows for file in files) > 0


def test_the_demo_ends_with_a_check_of_what_it_published(
    demo: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (check,) = [words for words in demo_commands(demo) if words[0] == "validate"]
    paths = [str(path) for path in sorted(demo.glob("*/v*"))]
    assert check[1:] == [f"{demo}/*/v*"]  # the shell's to expand
    assert len(paths) == 2
    assert main(["validate", *paths]) == 0
    said = capsys.readouterr().out
    assert all(f"{path}: " in said for path in paths)
    assert said.count(": sound") == 2
