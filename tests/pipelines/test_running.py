"""What a run tells of an error that ended one of its workers."""

from __future__ import annotations

from pathlib import Path

import apache_beam as beam
import pytest

from pipelines.prosocial.options import ProsocialOptions
from pipelines.running import exit_code, for_partitions, run_and_count, run_pipeline
from transforms.errors import InputError, OutputError
from transforms.llm.settings import EngineSettings
from transforms.publishing.jobs import check_no_job
from transforms.publishing.publish import Status
from transforms.publishing.versions import Version

IN_PROCESSES = ("--direct_running_mode=multi_processing", "--direct_num_workers=2")


def fail(kind: type[Exception], *arguments: object) -> None:
    raise kind(*arguments)


def failing(kind: type[Exception], *arguments: object, flags: tuple[str, ...] = ()) -> None:
    def build(pipeline: beam.Pipeline) -> None:
        _ = pipeline | beam.Create([1]) | "Step" >> beam.Map(lambda _: fail(kind, *arguments))

    run_and_count(build, flags, "made-up")


@pytest.mark.parametrize("flags", [(), IN_PROCESSES], ids=["one process", "two processes"])
def test_an_error_of_ours_keeps_its_kind_and_message(flags: tuple[str, ...]) -> None:
    with pytest.raises(InputError, match=r"^/a/b\.csv: is cut off: fetch it again") as raised:
        failing(InputError, "/a/b.csv: is cut off: fetch it again", flags=flags)
    assert "\n" not in str(raised.value)


def test_what_could_not_be_written_names_the_remedy() -> None:
    with pytest.raises(OutputError, match=r"^\[Errno 28\] No space left on device; put that right"):
        failing(OSError, 28, "No space left on device")
    with pytest.raises(OutputError, match=r"^\[Errno 13\] Permission denied: 'x'; put that right"):
        failing(PermissionError, 13, "Permission denied", "x")


def test_a_fault_of_remint_stays_what_it_is() -> None:
    with pytest.raises(Exception, match="no such column") as raised:
        failing(ValueError, "no such column")
    assert not isinstance(raised.value, InputError | OutputError)


def test_what_is_wrong_with_an_output_needs_no_trace(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from pipelines.cli import main

    (tmp_path / "prosocial").mkdir()
    (tmp_path / "prosocial" / "dataset.json").mkdir()
    assert main(["versions", str(tmp_path)]) == 2
    assert "Traceback" not in capsys.readouterr().err


def test_only_several_processes_have_lanes() -> None:
    settings = EngineSettings("http://localhost/v1", "fake", "cache", rpm=600)
    alone = ProsocialOptions(seeds=("ethics=a.csv",), output="out")
    assert for_partitions(settings, alone, 16).lanes is None
    together = alone.model_copy(update={"beam": IN_PROCESSES, "lanes": 4})
    assert for_partitions(settings, together, 16).lanes == 4
    assert for_partitions(settings, together, 3).lanes == 3


def test_a_job_that_was_only_written_down_publishes_later(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    # What Beam gives back when it has written a template: no job, and so no metrics.
    dataflow = pytest.importorskip(
        "apache_beam.runners.dataflow.dataflow_runner", reason="needs remint[gcp]"
    )
    pytest.importorskip("google.cloud.dataflow", reason="needs remint[gcp]")
    written = dataflow.DataflowPipelineResult(None, None)
    monkeypatch.setattr(beam.Pipeline, "run", lambda pipeline: written)
    monkeypatch.setattr("pipelines.running.pipeline_options", lambda flags, dataset: None)
    flags = ("--runner=DataflowRunner", "--template_location=gs://bucket/job")
    engine = EngineSettings(base_url="https://model.example/v1", model="m", cache="gs://b/c")
    version = Version(3, str(tmp_path / "v0003"))
    result = run_pipeline(lambda pipeline: None, flags, version, engine)
    assert result.status is Status.DESCRIBED
    assert version.path in result.message
    assert exit_code(result) == 0
    with pytest.raises(OutputError, match="remint unlock"):  # no other run begins meanwhile
        check_no_job(str(tmp_path), lambda job: False)
