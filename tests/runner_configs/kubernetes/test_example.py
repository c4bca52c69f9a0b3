"""The Kubernetes example: that its parts fit each other, and the options of remint."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

from pipelines.option_parsing import parse
from pipelines.prosocial.options import ProsocialOptions, prosocial_parser
from pipelines.runner_checks import check_parallelism
from pipelines.runners import Workers, runner_of
from pipelines.sizing import LANES_PER_WORKER, PARTITIONS_PER_WORKER

ROOT = Path(__file__).resolve().parents[3]
FOLDER = ROOT / "runner_configs" / "kubernetes"
FLINK = yaml.safe_load((FOLDER / "flink.yaml").read_text())
RUN = yaml.safe_load((FOLDER / "run.yaml").read_text())
SECRET = [{"secretRef": {"name": "remint"}}]


def named(containers: list[dict[str, Any]], name: str) -> dict[str, Any]:
    (found,) = (one for one in containers if one["name"] == name)
    return found


POD = RUN["spec"]["template"]["spec"]
DRIVER = named(POD["containers"], "remint")
JOB_SERVER = named(POD["initContainers"], "job-server")
POOL = named(FLINK["spec"]["taskManager"]["podTemplate"]["spec"]["containers"], "worker-pool")


def options() -> ProsocialOptions:
    command, *arguments = DRIVER["args"]
    assert command == "prosocial"
    return parse(prosocial_parser(), ProsocialOptions, arguments)


def test_the_run_goes_to_the_cluster(monkeypatch: Any) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "from the secret")
    runner = runner_of(options().beam)
    assert runner.workers is Workers.OTHER_MACHINES
    # The operator names the service of Flink's REST interface after the deployment.
    assert runner.master == f"{FLINK['metadata']['name']}-rest:8081"
    assert f"--flink-master={runner.master}" in JOB_SERVER["args"]
    assert runner.job_endpoint == "localhost:8099"
    assert "--job-port=8099" in JOB_SERVER["args"]
    assert JOB_SERVER["restartPolicy"] == "Always"  # what makes it a sidecar


def test_there_is_a_worker_pool_for_each_task_manager(monkeypatch: Any) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "from the secret")
    chosen = options()
    program, *arguments = POOL["command"]
    assert f'"{program} = ' in (ROOT / "setup.py").read_text()
    assert arguments == ["--port", str(POOL["ports"][0]["containerPort"])]
    assert f"--environment_config=localhost:{arguments[1]}" in chosen.beam
    managers = FLINK["spec"]["taskManager"]["replicas"]
    slots = int(FLINK["spec"]["flinkConfiguration"]["taskmanager.numberOfTaskSlots"])
    assert runner_of(chosen.beam).parallelism == managers * slots
    assert chosen.lanes == LANES_PER_WORKER * managers * slots
    assert chosen.partitions == PARTITIONS_PER_WORKER * managers * slots
    check_parallelism(chosen.beam, chosen.partitions)


def test_workers_and_driver_are_the_same_remint_with_the_same_secret() -> None:
    assert POOL["image"] == DRIVER["image"]
    assert POOL["envFrom"] == DRIVER["envFrom"] == SECRET
    assert not any("env" in one for one in (POOL, DRIVER, JOB_SERVER))  # no value stands in a file


def test_versions_fit_each_other() -> None:
    from apache_beam.options.pipeline_options import FlinkRunnerOptions

    flink, beam = re.findall(r"flink([\d.]+)_job_server:([\d.]+)$", JOB_SERVER["image"])[0]
    assert f'"apache-beam>={beam.rpartition(".")[0]},' in (ROOT / "setup.py").read_text()
    assert flink in FlinkRunnerOptions.PUBLISHED_FLINK_VERSIONS
    assert FLINK["spec"]["image"] == f"flink:{flink}"
    assert FLINK["spec"]["flinkVersion"] == "v" + flink.replace(".", "_")
