from __future__ import annotations

import pytest

from transforms.errors import OutputError
from transforms.publishing.jobs import (
    JOB_NAME,
    RunningJob,
    check_no_job,
    forget_job,
    note_job,
    remove_job,
)


@pytest.fixture
def job(tmp_path):
    (tmp_path / "prosocial").mkdir()
    return RunningJob(
        str(tmp_path / "prosocial" / "v0002"), "PortableRunner", "remint-prosocial-1", "flink:8081"
    )


@pytest.fixture
def dataset(job):
    return job.version.removesuffix("/v0002")


def test_a_job_that_may_be_at_work_keeps_others_off(dataset, job):
    check_no_job(dataset, lambda job: False)
    note_job(dataset, job)

    asked = []
    with pytest.raises(OutputError, match=r"remint-prosocial-1.*PortableRunner.*remint unlock"):
        check_no_job(dataset, lambda job: bool(asked.append(job)))
    assert asked == [job]


def test_a_job_that_has_surely_ended_is_forgotten(dataset, job):
    note_job(dataset, job)
    check_no_job(dataset, lambda job: True)
    assert remove_job(dataset) is None


def test_only_its_own_job_takes_the_note_down(dataset, job):
    note_job(dataset, job)
    forget_job(dataset, f"{dataset}/v0001")
    assert remove_job(dataset) == job
    note_job(dataset, job)
    forget_job(dataset, job.version)
    assert remove_job(dataset) is None


def test_a_note_that_cannot_be_read_is_none_that_is_not_there(dataset):
    with open(f"{dataset}/{JOB_NAME}", "w") as file:
        file.write("{")
    with pytest.raises(OutputError, match=r"\.job\.json can't be read"):
        check_no_job(dataset, lambda job: True)
