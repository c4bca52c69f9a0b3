"""The same inputs and cache give the same bytes and ledgers on every runner, for both datasets."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cluster.runs import (
    METRICINSTRUCT,
    PROSOCIAL,
    Dataset,
    ledger,
    shard_bytes,
    with_cache_of,
)
from transforms.llm.fake_endpoint.server import FakeEndpoint
from transforms.publishing.publish import PublishResult, Status

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]

RUNNERS = ("multi_processing", "prism", "embedded Flink", "Flink cluster")
PROCESS = ("--environment_type=PROCESS", '--environment_config={"command": "remint-worker"}')


@pytest.fixture(scope="module", params=[PROSOCIAL, METRICINSTRUCT], ids=lambda one: one.name)
def dataset(request: pytest.FixtureRequest) -> Dataset:
    chosen: Dataset = request.param
    return chosen


@pytest.fixture(scope="module")
def reference(
    dataset: Dataset,
    endpoints: dict[str, FakeEndpoint],
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[Path, PublishResult]:
    output = tmp_path_factory.mktemp(dataset.name)
    result = dataset.mint(dataset.arguments(endpoints[dataset.name].base_url, output))
    assert result.status is Status.PUBLISHED
    return output, result


def flags(runner: str, request: pytest.FixtureRequest) -> list[str]:
    if runner == "multi_processing":
        return ["--direct_running_mode=multi_processing", "--direct_num_workers=2"]
    if runner == "prism":
        return ["--runner=PrismRunner", f"--prism_location={request.getfixturevalue('prism')}"]
    cluster = request.getfixturevalue("embedded_flink" if "embedded" in runner else "flink")
    portable = ["--runner=PortableRunner", f"--job_endpoint={cluster.job_endpoint}"]
    if "embedded" in runner:
        return [*portable, "--environment_type=LOOPBACK"]
    portable.append(f"--flink_master={cluster.master}")
    return [*portable, *PROCESS, "--environment_cache_millis=20000", "--parallelism=2"]


@pytest.mark.parametrize("runner", RUNNERS)
def test_the_same_inputs_and_cache_give_the_same_bytes_and_ledger(
    runner: str,
    dataset: Dataset,
    reference: tuple[Path, PublishResult],
    endpoints: dict[str, FakeEndpoint],
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> None:
    endpoint = endpoints[dataset.name]
    output, first = reference
    other = with_cache_of(output, tmp_path / "other", dataset.name)
    before = endpoint.requests
    arguments = dataset.arguments(endpoint.base_url, other, *flags(runner, request))
    result = dataset.mint(arguments)
    assert result.status is Status.PUBLISHED
    assert endpoint.requests == before
    assert shard_bytes(result.path) == shard_bytes(first.path)
    assert ledger(result.path) == ledger(first.path)
