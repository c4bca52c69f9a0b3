"""The Kubernetes example against the schemas of what it describes.

FlinkDeployment's comes with the Flink operator's own jar, those of Kubernetes with the package
kubernetes-validate. Unknown fields, which an API server may drop in silence, are faults here.
"""

from __future__ import annotations

import copy
import subprocess
import zipfile
from typing import Any

import jsonschema
import pytest
import yaml

from tests.cluster.conftest import TOOLS
from tests.cluster.runs import ROOT

pytestmark = pytest.mark.cluster

FOLDER = ROOT / "runner_configs" / "kubernetes"
OPERATOR = "1.10.0"
KUBERNETES = "1.29"
JAR = f"flink-kubernetes-operator-api-{OPERATOR}.jar"
DEFINITION = "META-INF/fabric8/flinkdeployments.flink.apache.org-v1.yml"


def strict(schema: Any) -> Any:
    """Return ``schema`` with no room for fields that it does not name."""
    if isinstance(schema, list):
        return [strict(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    made = {name: strict(one) for name, one in schema.items()}
    if isinstance(made.get("properties"), dict) and "additionalProperties" not in made:
        made["additionalProperties"] = False
    if made.pop("x-kubernetes-int-or-string", False):
        made.pop("type", None)
    return made


@pytest.fixture(scope="module")
def flink_deployment() -> Any:
    """Return the schema of FlinkDeployment."""
    folder = TOOLS / "kubernetes"
    if not (folder / JAR).exists():
        subprocess.run(
            [
                *("mvn", "--quiet", "--batch-mode", "dependency:copy"),
                f"-Dartifact=org.apache.flink:{JAR.removesuffix(f'-{OPERATOR}.jar')}:{OPERATOR}",
                f"-DoutputDirectory={folder}",
            ],
            check=True,
        )
    with zipfile.ZipFile(folder / JAR) as jar:
        definition = yaml.safe_load(jar.read(DEFINITION))
    (version,) = definition["spec"]["versions"]
    assert version["name"] == "v1beta1"
    schema = strict(version["schema"]["openAPIV3Schema"])
    schema["properties"].update({key: {} for key in ("apiVersion", "kind", "metadata")})
    return schema


def documents(name: str) -> list[Any]:
    return list(yaml.safe_load_all((FOLDER / name).read_text()))


def test_the_cluster_is_what_the_operator_takes(flink_deployment: Any) -> None:
    (deployment,) = documents("flink.yaml")
    assert (deployment["apiVersion"], deployment["kind"]) == (
        "flink.apache.org/v1beta1",
        "FlinkDeployment",
    )
    validator = jsonschema.Draft202012Validator(flink_deployment)
    assert not [error.message for error in validator.iter_errors(deployment)]
    for place, value in {"replicas": "two", "podTemplates": {}, "resource": {"memory": 5}}.items():
        wrong = copy.deepcopy(deployment)
        wrong["spec"]["taskManager"][place] = value
        assert not validator.is_valid(wrong)


def test_the_run_is_what_kubernetes_takes() -> None:
    import kubernetes_validate

    (run,) = documents("run.yaml")
    kubernetes_validate.validate(run, KUBERNETES, strict=True)
    wrong = copy.deepcopy(run)
    wrong["spec"]["template"]["spec"]["container"] = []
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(wrong, KUBERNETES, strict=True)


def test_the_pods_of_task_managers_are_what_kubernetes_takes() -> None:
    import kubernetes_validate

    (deployment,) = documents("flink.yaml")
    pod = copy.deepcopy(deployment["spec"]["taskManager"]["podTemplate"])
    for container in pod["spec"]["containers"]:
        container.setdefault("image", deployment["spec"]["image"])  # the operator adds it
    pod |= {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "task-manager"}}
    kubernetes_validate.validate(pod, KUBERNETES, strict=True)
