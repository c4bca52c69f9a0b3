"""Both pipelines as Dataflow gets them: translated by Beam's own dry run, without a network."""

from __future__ import annotations

import logging
import shutil
import socket
import sys
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("google.cloud.dataflow", reason="needs remint[gcp]: make test-cluster has it")

import apache_beam as beam
from apache_beam.options import pipeline_options as beam_options

from pipelines import cli
from pipelines.runners import job_name, pipeline_options
from tests.bucket import BucketFileSystem
from transforms.llm.fake_endpoint.server import FakeEndpoint
from transforms.publishing.publish import PublishResult, Status

ROOT = Path(__file__).resolve().parents[3]
SECRET = "sk-geheim-geheim-geheim"
MODEL_HOST = "model.example"
IMAGE = "europe-west1-docker.pkg.dev/p/remint/remint:0.1.0"
CONFIG = ("--config", str(ROOT / "runner_configs" / "dataflow.yaml"))
PLACE = ("--project=p-123456", "--region=europe-west1", "--temp_location=gs://bucket/temp")
DATASETS = {
    "prosocial": ["--seeds", "ethics=bucket://in/cm_*.csv"],
    "metricinstruct": ["--synthetic", "dart=bucket://in/dart.json"],
}
Translate = Callable[..., Any]


@pytest.fixture
def endpoint(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeEndpoint]:
    """Yield an endpoint whose name is not this machine's; no other name can be looked up."""

    def find(host: Any, *arguments: Any, **named: Any) -> Any:
        names = {MODEL_HOST: "127.0.0.1", "127.0.0.1": "127.0.0.1", "localhost": "127.0.0.1"}
        host = host.decode() if isinstance(host, bytes) else host
        assert host in names, f"looks for {host}"
        return look_up(names[host], *arguments, **named)

    look_up = socket.getaddrinfo
    with FakeEndpoint() as served:
        monkeypatch.setattr(socket, "getaddrinfo", find)
        yield served


@pytest.fixture
def translate(
    endpoint: FakeEndpoint, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Iterator[Translate]:
    """Yield the command up to the job, which Beam makes and does not submit."""
    monkeypatch.setattr(BucketFileSystem, "root", tmp_path / "bucket", raising=False)
    samples = ROOT / "pipelines"
    (tmp_path / "bucket" / "in").mkdir(parents=True)
    for file in (samples / "prosocial" / "samples").glob("cm_*.csv"):
        shutil.copy(file, tmp_path / "bucket" / "in")
    dart = samples / "metricinstruct" / "samples" / "dart-sample.json"
    shutil.copy(dart, tmp_path / "bucket" / "in" / "dart.json")
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    jobs: list[Any] = []

    def dry_run(
        build: Callable[[Any], None], flags: Any, version: Any, engine: Any
    ) -> PublishResult:
        options = pipeline_options(flags, version.path.rpartition("/")[0])
        options.view_as(beam_options.TestOptions).dry_run = True
        options.view_as(beam_options.GoogleCloudOptions).no_auth = True
        pipeline = beam.Pipeline(options=options)
        build(pipeline)
        jobs.append(pipeline.run().job)
        return PublishResult(Status.DESCRIBED, version.number, version.path, "translated")

    def run(dataset: str, *more: str) -> Any:
        monkeypatch.setattr(f"pipelines.{dataset}.command.run_pipeline", dry_run)
        base_url = endpoint.base_url.replace("127.0.0.1", MODEL_HOST)
        model = ["--model", "fake", "--base-url", base_url, "--output", "bucket://out"]
        arguments = [dataset, *DATASETS[dataset], *model, *CONFIG, *PLACE, *more]
        assert cli.main(arguments) == 0
        return jobs[-1]

    yield run
    # What the checks before it asked for; a dry run calls no model.
    assert not endpoint.requests


def dependencies(job: Any) -> dict[str, str]:
    """Return what is staged for the workers: the place by the name that it has there."""
    from apache_beam.portability.api import beam_runner_api_pb2

    staged = {}
    for environment in job.proto_pipeline.components.environments.values():
        for one in environment.dependencies:
            name = beam_runner_api_pb2.ArtifactStagingToRolePayload.FromString(one.role_payload)
            file = beam_runner_api_pb2.ArtifactFilePayload.FromString(one.type_payload)
            staged[name.staged_name] = file.path
    return staged


def images(job: Any) -> set[str]:
    from apache_beam.portability.api import beam_runner_api_pb2

    return {
        beam_runner_api_pb2.DockerPayload.FromString(one.payload).container_image
        for one in job.proto_pipeline.components.environments.values()
    }


@pytest.mark.parametrize("dataset", DATASETS)
def test_a_job_with_the_worker_image(
    translate: Translate, dataset: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG):
        job = translate(dataset, f"--sdk_container_image={IMAGE}", "--lanes", "4")
    assert images(job) == {IMAGE}
    # The image has all that a worker needs; what is staged only tells what was installed here.
    assert set(dependencies(job)) <= {"submission_environment_dependencies.txt"}
    options = job.options.get_all_options()
    assert options["job_name"] == job_name(f"bucket://out/{dataset}")
    assert options["max_num_workers"] == 4
    assert "max_workflow_runtime_walltime_seconds=86400" in options["dataflow_service_options"]
    assert not options["save_main_session"]
    assert not options["streaming"]
    steps = [one.unique_name for one in job.proto_pipeline.components.transforms.values()]
    assert any(name.endswith("Make calls by lane") for name in steps)
    assert any(name.endswith("Publish") for name in steps)
    described = job.proto_pipeline.SerializeToString() + repr(options).encode()
    assert SECRET.encode() not in described
    assert SECRET not in caplog.text


def test_a_job_with_the_package_of_a_checkout(translate: Translate, tmp_path: Path) -> None:
    checkout = tmp_path / "checkout"
    ignored = shutil.ignore_patterns(".*", "tests", "*.egg-info", "__pycache__", "build", "dist")
    shutil.copytree(ROOT, checkout, ignore=ignored)
    job = translate("prosocial", f"--setup_file={checkout / 'setup.py'}")
    staged = dependencies(job)
    assert "pickled_main_session" not in staged
    with tarfile.open(staged["workflow.tar.gz"]) as package:
        names = {name.partition("/")[2] for name in package.getnames()}
    for folder in ("pipelines", "transforms", "expectations", "runner_configs"):
        for file in (checkout / folder).rglob("*"):
            if file.suffix in (".py", ".yaml", ".json", ".j2"):
                assert str(file.relative_to(checkout)) in names
    assert {image.rpartition(":")[0].rpartition("/")[2] for image in images(job)} == {
        f"beam_python{sys.version_info.major}.{sys.version_info.minor}_sdk"
    }
