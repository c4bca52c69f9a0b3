"""The Flex Template: its metadata against the options there are, and its launcher."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from pipelines.metricinstruct.options import MetricInstructOptions
from pipelines.option_parsing import parse
from pipelines.options import RunOptions
from pipelines.prosocial.options import ProsocialOptions
from runner_configs.dataflow import launcher
from runner_configs.dataflow.launcher import NOT_IN_TEMPLATES, PARSERS, options_of, remint_arguments
from transforms.errors import OptionError

FOLDER = Path(launcher.__file__).parent
PARAMETERS = json.loads((FOLDER / "metadata.json").read_text(encoding="utf-8"))["parameters"]
BY_NAME: dict[str, Any] = {one["name"]: one for one in PARAMETERS}
CLASSES: dict[str, type[RunOptions]] = {
    "prosocial": ProsocialOptions,
    "metricinstruct": MetricInstructOptions,
}
JOB = ("--runner=DataflowRunner", "--project=p", "--region=r", "--temp_location=gs://bucket/temp")
#: A value of every parameter that is checked by a form.
VALUES = {
    "dataset": "prosocial",
    "output": "gs://bucket/out",
    "api_key": "gcp-secret:projects/p/secrets/key/versions/3",
    "base_url": "https://gateway.example/v1",
    "model_for": "vote=small respond=large",
    "structured": "none",
    "shared_cache": "gs://bucket/team s3://bucket/archive",
    "seeds": "ethics=gs://bucket/cm_*.csv mine=gs://bucket/m.jsonl",
    "field_map": "mine:situation=text,split=part",
    "crowd": "llm",
    "responses": "gs://bucket/responses-*.jsonl",
    "sources": "gsm8k=gs://bucket/g.jsonl",
    "synthetic": "dart=gs://bucket/d.json",
    "outputs": "gsm8k=gs://bucket/g.txt",
    "inputs": "quintd=gs://bucket/q.json",
    "instruction": "mine='Write a summary.'",
    "choice": "gsm8k=all",
    "metric": "bleu",
    "analysis": "one_step",
    "answer_form": "edits",
    "free_form_share": "0.25",
    "verify": "drop",
    "max_cost": "12.50",
}


def value_of(name: str) -> str:
    return VALUES.get(name, "7")


def test_every_option_stands_in_the_metadata_and_nothing_else() -> None:
    options = {name for parser in PARSERS.values() for name in options_of(parser())}
    assert options - set(NOT_IN_TEMPLATES) | {"dataset"} == BY_NAME.keys()
    assert len(PARAMETERS) == len(BY_NAME)


def test_only_what_a_run_cannot_do_without_is_needed() -> None:
    assert {name for name, one in BY_NAME.items() if not one.get("isOptional")} == {
        *("dataset", "output", "model")
    }


@pytest.mark.parametrize("name", BY_NAME)
def test_a_parameter_is_described_and_its_regexes_take_what_the_options_take(name: str) -> None:
    parameter = BY_NAME[name]
    assert parameter.keys() <= {"name", "label", "helpText", "paramType", "isOptional", "regexes"}
    assert parameter["label"]
    assert parameter["helpText"].endswith(".")
    for regex in parameter.get("regexes", ()):
        assert re.fullmatch(regex, value_of(name))
        assert not re.fullmatch(regex, "")
        assert not re.fullmatch(regex, "?")


@pytest.mark.parametrize("dataset", PARSERS)
def test_all_parameters_of_a_dataset_make_its_options(dataset: str) -> None:
    parser = PARSERS[dataset]()
    names = [name for name in options_of(parser) if name in BY_NAME]
    arguments = [f"--{name}={value_of(name)}" for name in names]
    command, *made = remint_arguments([f"--dataset={dataset}", *arguments, *JOB], {})
    assert command == dataset
    # What Beam checks of the job's flags is in tests/pipelines/test_beam_flags.py.
    options = parse(parser, CLASSES[dataset], [one for one in made if one not in JOB])
    assert made[-len(JOB) :] == list(JOB)
    assert options.model == "7"
    assert options.rpm == 7
    assert options.shared_cache == ("gs://bucket/team", "s3://bucket/archive")
    if isinstance(options, MetricInstructOptions):
        assert options.instruction == ("mine=Write a summary.",)


def test_the_workers_get_the_image_of_the_launcher() -> None:
    image = {launcher.IMAGE: "r/remint:1"}
    parameters = ["--dataset=prosocial", *JOB]
    assert "--sdk_container_image=r/remint:1" in remint_arguments(parameters, image)
    chosen = remint_arguments([*parameters, "--sdk_container_image=r/other:2"], image)
    assert [one for one in chosen if "image" in one] == ["--sdk_container_image=r/other:2"]


@pytest.mark.parametrize("name", NOT_IN_TEMPLATES)
def test_what_has_no_meaning_in_a_template_is_refused(name: str) -> None:
    with pytest.raises(OptionError, match="is none of a template"):
        remint_arguments(["--dataset=prosocial", f"--{name}=1"], {})


def test_a_template_needs_to_know_the_dataset(capsys: pytest.CaptureFixture[str]) -> None:
    assert launcher.main(["--dataset=dialogues"]) == 2
    assert "there are prosocial, metricinstruct" in capsys.readouterr().err


def test_the_image_has_what_the_template_starts() -> None:
    image = (FOLDER / "Dockerfile").read_text(encoding="utf-8")
    root = FOLDER.parents[1]
    (file,) = re.findall(r"FLEX_TEMPLATE_PYTHON_PY_FILE=/opt/remint/(\S+)", image)
    assert (root / file).resolve() == Path(launcher.__file__)
    assert f"ENV {launcher.IMAGE}=" in image
    (beam,) = re.findall(r"^FROM apache/beam_python3\.11_sdk:(\S+)$", image, re.MULTILINE)
    minor = beam.rpartition(".")[0]
    assert f'"apache-beam>={minor},' in (root / "setup.py").read_text(encoding="utf-8")
    extras = set(re.findall(r"remint\[([\w,]+)\]", image)[0].split(","))
    setup = (root / "setup.py").read_text(encoding="utf-8")
    assert all(f'"{extra}": [' in setup for extra in extras)
