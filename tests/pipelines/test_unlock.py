from __future__ import annotations

from pipelines.cli import main
from transforms.publishing.jobs import RunningJob, note_job
from transforms.publishing.versions import open_dataset


def test_who_knows_better_unlocks(tmp_path, capsys):
    dataset = str(tmp_path / "prosocial")
    job = RunningJob(f"{dataset}/v0002", "PortableRunner", "remint-prosocial-1")
    note_job(dataset, job)
    assert main(["unlock", dataset]) == 2
    assert "is no dataset of remint's" in capsys.readouterr().err
    open_dataset(dataset, "prosocial", {"partitions": 2}, {})
    assert main(["unlock", dataset + "/"]) == 0
    assert capsys.readouterr().out.endswith(
        "job 'remint-prosocial-1' on PortableRunner forgotten\n"
    )
    assert main(["unlock", dataset]) == 0
    assert "no job noted" in capsys.readouterr().out
