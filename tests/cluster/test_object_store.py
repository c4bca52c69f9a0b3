"""Whole runs on object stores, S3's and Google's: seeds, crowd, cache and output are objects."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import datasets
import fsspec
import pytest

from pipelines.cli import main
from pipelines.runners import use_filesystems
from runner_configs.flink.cluster import running_cluster
from tests.cluster.conftest import JARS, S3_KEY, S3_SECRET
from tests.cluster.runs import (
    METRICINSTRUCT,
    PORTABLE,
    PROSOCIAL,
    ROOT,
    Dataset,
    ledger,
    shard_bytes,
)
from transforms.errors import OutputError
from transforms.llm.cache import load_folder
from transforms.llm.fake_endpoint.latency import constant
from transforms.llm.fake_endpoint.server import FakeEndpoint
from transforms.llm.records import Records
from transforms.llm.segments import FLUSH_SECONDS
from transforms.publishing import claims, storage
from transforms.publishing.lock import lock_dataset
from transforms.publishing.manifest import read_manifest
from transforms.publishing.publish import Status
from transforms.publishing.versions import claim_version, latest_version, versions

pytest.importorskip("boto3", reason="needs remint[s3]")
pytest.importorskip("gcsfs", reason="needs remint[gcp]")

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]

IN_FLIGHT, LATENCY = 4, 0.2


def files_at(place: str) -> tuple[fsspec.AbstractFileSystem, str]:
    """Return a filesystem of fsspec, not Beam's, that remembers nothing, and a path of its own."""
    files, path = fsspec.core.url_to_fs(place)
    files.invalidate_cache()
    return files, path


def download(place: str, target: Path) -> Path:
    """Copy what is below ``place`` into the directory ``target``, not by Beam."""
    files, path = files_at(place)
    for found in files.find(path):
        copy = target / found.removeprefix(path).lstrip("/")
        copy.parent.mkdir(parents=True, exist_ok=True)
        files.get_file(found, str(copy))
    return target


def on_store(arguments: Sequence[str], place: str) -> list[str]:
    """Return ``arguments`` with the bundled samples replaced by copies of them on the store."""
    files, into = files_at(place)
    samples = [ROOT / "pipelines" / name / "samples" for name in ("prosocial", "metricinstruct")]
    for folder in samples:
        for path in filter(Path.is_file, folder.rglob("*")):
            name = f"in/{folder.parent.name}/{path.relative_to(folder)}"
            files.put_file(str(path), f"{into}/{name}")
    changed = list(arguments)
    for folder in samples:
        changed = [
            argument.replace(str(folder), f"{place}/in/{folder.parent.name}")
            for argument in changed
        ]
    assert not any(str(ROOT) in argument for argument in changed)
    return changed


def started(*arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "pipelines.cli", *arguments],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def without_latency(version: str | Path) -> dict[str, Any]:
    """Return a version's ledger without what differs from one run that calls to the next."""
    found = json.loads(Path(version, "ledger.json").read_text())
    return {**found, "calls": [{**entry, "latency": None} for entry in found["calls"]]}


def records(dataset: str) -> Records:
    """Return the answers in the cache of a dataset on the store."""
    found = Records()
    folders = {name.partition("/")[0] for name in storage.stored_files(f"{dataset}/cache")}
    for folder in sorted(folders):
        load_folder(f"{dataset}/cache/{folder}", found)
    return found


@pytest.mark.parametrize("dataset", [PROSOCIAL, METRICINSTRUCT], ids=lambda one: one.name)
def test_a_run_on_a_store_gives_the_bytes_of_a_local_one(
    dataset: Dataset, store: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = f"{store}/out"
    with FakeEndpoint() as endpoint:
        check_a_run(dataset, endpoint, store, output, tmp_path)
    told = capsys.readouterr().out
    assert f"{output}/{dataset.name}/v0001" in told
    assert "sound" in told


def check_a_run(
    dataset: Dataset, endpoint: FakeEndpoint, store: str, output: str, tmp_path: Path
) -> None:
    arguments = on_store(dataset.arguments(endpoint.base_url, output), store)
    # The rejected name their file, so it is to be the same.
    expected = dataset.mint(
        on_store(dataset.arguments(endpoint.base_url, tmp_path / "local"), store)
    )
    calls = endpoint.requests

    result = dataset.mint(arguments)

    assert result.status is Status.PUBLISHED
    assert endpoint.requests == 2 * calls
    place = f"{output}/{dataset.name}"
    assert result.path == f"{place}/v0001"
    version = download(result.path, tmp_path / "v0001")
    assert shard_bytes(version) == shard_bytes(expected.path)
    assert without_latency(version) == without_latency(expected.path)

    # Of each partition's writer one object is left, and no claim but the version's.
    files = storage.files_below(place)
    segments = [name for name in files if name.startswith("cache/")]
    assert len({name.rpartition("/")[0] for name in segments}) == len(segments)
    assert len(records(place)) == calls
    (hidden,) = [name for name in files if name.startswith(".")]
    assert hidden.startswith(".claims/v0001.")

    again = dataset.mint(arguments)
    assert again.status is Status.UNCHANGED
    assert endpoint.requests == 2 * calls
    assert again.path == result.path

    assert main(["versions", output]) == 0
    assert main(["validate", result.path]) == 0
    for command in ("verify", "compact", "verify", "statistics"):
        assert main(["cache", command, place]) == 0
    assert len(records(place)) == calls

    other = dataset.mint(
        on_store(
            dataset.arguments(endpoint.base_url, f"{store}/other", "--shared-cache", place), store
        )
    )
    assert endpoint.requests == 2 * calls
    assert shard_bytes(download(other.path, tmp_path / "other")) == shard_bytes(expected.path)


def test_a_killed_run_is_carried_on(s3: str, tmp_path: Path) -> None:
    place = f"{s3}/out/prosocial"
    with FakeEndpoint() as endpoint:
        expected = PROSOCIAL.mint(
            on_store(PROSOCIAL.arguments(endpoint.base_url, tmp_path / "local"), s3)
        )
        calls, asked = endpoint.requests, endpoint.seen.copy()
        endpoint.latency = constant(LATENCY)
        arguments = on_store(
            PROSOCIAL.arguments(endpoint.base_url, f"{s3}/out", *("--concurrency", str(IN_FLIGHT))),
            s3,
        )
        with started("prosocial", *arguments) as run:
            while endpoint.answered < calls + calls // 2:
                assert run.poll() is None
                time.sleep(0.01)
            run.send_signal(signal.SIGKILL)
            run.wait()
        while endpoint.in_work:
            time.sleep(0.01)
        answered = endpoint.requests - calls
        kept = len(records(place))
        # Lost is what was in flight, and what was answered since the last object was written:
        # within the pause before it and the time that a write took, one second with a margin.
        assert answered < calls
        assert answered - kept <= IN_FLIGHT * (1 + (FLUSH_SECONDS + 1.0) / LATENCY)
        assert kept > 0
        endpoint.latency = constant(0.0)

        # Its lease stands; the next run sees that nobody renews it, and takes over.
        with started("prosocial", *arguments) as carried_on:
            _, told = carried_on.communicate(timeout=300)

        assert carried_on.returncode == 0, told
        assert "is claimed" in told
        assert endpoint.seen.keys() == asked.keys()
        assert endpoint.requests - calls - answered == calls - kept
    version = latest_version(place)
    assert version is not None
    assert version.number == 2
    assert shard_bytes(download(version.path, tmp_path / "s3")) == shard_bytes(expected.path)


def test_of_two_runs_at_once_one_is_refused(store: str, tmp_path: Path) -> None:
    with FakeEndpoint(latency=constant(LATENCY)) as endpoint:
        arguments = PROSOCIAL.arguments(
            endpoint.base_url, f"{store}/out", *("--concurrency", str(IN_FLIGHT))
        )
        with started("prosocial", *arguments) as one, started("prosocial", *arguments) as other:
            ends = [(run.communicate(timeout=300)[1], run.returncode) for run in (one, other)]
        codes = sorted(code for _, code in ends)
        assert codes == [0, 2], ends
        (refused,) = (told for told, code in ends if code == 2)
        assert "is in use by another run (process" in refused
        assert endpoint.requests == len(records(f"{store}/out/prosocial"))  # none was made twice
        assert [version.complete for version in versions(f"{store}/out/prosocial")] == [True]


def test_a_stopped_run_gives_the_dataset_up_at_once(s3: str) -> None:
    place = f"{s3}/out/prosocial"
    with FakeEndpoint(latency=constant(LATENCY)) as endpoint:
        arguments = PROSOCIAL.arguments(
            endpoint.base_url, f"{s3}/out", *("--concurrency", str(IN_FLIGHT))
        )
        with started("prosocial", *arguments) as run:
            while endpoint.answered < 20:
                assert run.poll() is None
                time.sleep(0.01)
            run.send_signal(signal.SIGINT)
            _, told = run.communicate(timeout=60)
        assert run.returncode == 128 + signal.SIGINT
        assert told.endswith("remint prosocial: stopped; run it again to carry on\n")
        assert "given up" not in told
        assert claims.claims(f"{place}/.lock") == {}
        while endpoint.in_work:
            time.sleep(0.01)
        # What had been answered was written on the way out; calls in flight were broken off.
        assert len(records(place)) >= endpoint.requests - IN_FLIGHT


def test_two_task_managers_work_on_a_store(s3: str, s3_server: str, tmp_path: Path) -> None:
    with FakeEndpoint() as endpoint, running_cluster(tmp_path / "flink", 2, JARS) as cluster:
        expected = PROSOCIAL.mint(
            on_store(PROSOCIAL.arguments(endpoint.base_url, tmp_path / "local"), s3)
        )
        calls = endpoint.requests
        arguments = PROSOCIAL.arguments(
            endpoint.base_url,
            f"{s3}/out",
            *(*PORTABLE, "--environment_cache_millis=20000", f"--s3_endpoint_url={s3_server}"),
            f"--job_endpoint={cluster.job_endpoint}",
            f"--flink_master={cluster.master}",
        )
        result = PROSOCIAL.mint(on_store(arguments, s3))
        assert result.status is Status.PUBLISHED
        assert endpoint.requests == 2 * calls == 2 * len(records(f"{s3}/out/prosocial"))
    version = download(result.path, tmp_path / "s3")
    assert shard_bytes(version) == shard_bytes(expected.path)
    assert ledger(version) == ledger(expected.path)


def test_versions_are_claimed_by_one_alone(store: str) -> None:
    claimed = []

    def claim() -> None:
        claimed.append(claim_version(f"{store}/out/prosocial").number)

    threads = [threading.Thread(target=claim) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(claimed) == len(set(claimed)) == 16


def test_a_dataset_is_held_by_one_alone(store: str) -> None:
    place = f"{store}/out/prosocial"
    inside: list[int] = []
    most: list[int] = []

    def hold(number: int) -> None:
        with lock_dataset(place):
            inside.append(number)
            most.append(len(inside))
            time.sleep(0.1)
            inside.remove(number)

    threads = [threading.Thread(target=hold, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1] * 8


@contextmanager
def without(monkeypatch: pytest.MonkeyPatch, *names: str) -> Iterator[None]:
    with monkeypatch.context() as changed:
        for name in names:
            changed.delenv(name)
        yield


def test_the_endpoint_may_be_an_option(
    s3: str,
    s3_server: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    storage.write_bytes(f"{s3}/out/prosocial/dataset.json", b"{}")
    with without(monkeypatch, "AWS_ENDPOINT_URL"):
        monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "")
        assert main(["versions", f"{s3}/out", f"--s3_endpoint_url={s3_server}"]) == 0
    use_filesystems([])
    assert "no version yet" in capsys.readouterr().out


def test_a_store_that_refuses_is_told(s3: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "another")
    with pytest.raises((OSError, OutputError), match=r"s3://remint/.*403|Forbidden"):
        claim_version(f"{s3}/out/prosocial")


def test_strays_are_not_published_and_datasets_loads_the_rest(
    s3: str, s3_server: str, tmp_path: Path
) -> None:
    place = f"{s3}/out/prosocial"
    with FakeEndpoint() as endpoint:
        arguments = PROSOCIAL.arguments(endpoint.base_url, f"{s3}/out")
        stray = f"{place}/v0001/data/train-00000-of-00099.parquet"
        # As by a bundle that failed: it knows the version's number, which nobody gets again.
        claimed = threading.Event()

        def spoil() -> None:
            while not claims.claims(f"{place}/.claims"):
                time.sleep(0.01)
            storage.write_bytes(stray, b"stray")
            claimed.set()

        thread = threading.Thread(target=spoil)
        thread.start()
        result = PROSOCIAL.mint(arguments)
        thread.join()
    assert claimed.is_set()
    assert result.status is Status.PUBLISHED
    assert not storage.exists(stray)
    assert main(["validate", result.path]) == 0

    loaded = datasets.load_dataset(
        "parquet",
        data_files={"train": f"{result.path}/data/train-*.parquet"},
        storage_options={"key": S3_KEY, "secret": S3_SECRET, "endpoint_url": s3_server},
        cache_dir=str(tmp_path),
    )
    manifest = read_manifest(result.path)
    assert loaded["train"].num_rows == manifest.configurations["default"]["splits"]["train"]
    assert "context" in loaded["train"].column_names
