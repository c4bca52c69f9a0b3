"""Beam's own flags: what is refused among them."""

from __future__ import annotations

import pytest

from pipelines.beam_flags import check_flags
from transforms.errors import OptionError

COMMAND = '--environment_config={"command": "remint-worker"}'
ELSEWHERE = (
    *("--runner=PortableRunner", "--job_endpoint=jobs.example:8099"),
    *("--environment_type=PROCESS", COMMAND),
)
DATAFLOW = ("--runner=DataflowRunner", "--project=p", "--region=r", "--temp_location=gs://b/t")


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--runner=SparkRunner",), "has not been tried on it"),
        (("--runner=BundleBasedDirectRunner",), "has not been tried on it"),
        (("--streaming",), "it is a batch"),
        (("--runner=PortableRunner",), "needs --job_endpoint"),
        (("--runner=PortableRunner", "--job_endpoint=h:1"), "needs --environment_type"),
        (("--runner=FlinkRunner", "--flink_master=h:1"), "needs --environment_type"),
        ((*ELSEWHERE[:3],), "needs --environment_config"),
        ((*ELSEWHERE[:3], "--environment_config=remint-worker"), "needs --environment_config"),
        (("--s3_secret_access_key=geheim",), "would be shown and logged"),
        (("--s3_session_token=geheim",), "would be shown and logged"),
        (("--save_main_session",), "leave it out"),
        (("--direct_running_mode=multi_threading",), "loses rows in silence"),
        (("--dry_run=True",), "write --dry-run"),
        (("--runner=DataflowRunner",), "needs --project="),
        (("--runner=DataflowRunner", "--project=p"), "needs --region="),
        (DATAFLOW[:3], "needs --temp_location="),
        (DATAFLOW, "needs remint on its workers"),
        ((*DATAFLOW, "--setup_file=elsewhere/setup.py"), "there is no such file"),
        (("--runner=FlinkRunner", "--flink_version=1.2"), "invalid choice: '1.2'"),
    ],
)
def test_what_a_runner_cannot_do_is_refused(flags: tuple[str, ...], message: str) -> None:
    with pytest.raises(OptionError, match=message) as refusal:
        check_flags(flags, ())
    assert "geheim" not in str(refusal.value)
