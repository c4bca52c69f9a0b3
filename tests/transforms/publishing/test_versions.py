from __future__ import annotations

import json
from pathlib import Path

import pytest

from transforms.errors import OutputError
from transforms.publishing.versions import (
    Version,
    claim_version,
    dataset_path,
    latest_version,
    list_versions,
    open_dataset,
    versions,
)

SETTINGS = {"partitions": 16, "split_salt": "s"}


@pytest.fixture
def dataset(tmp_path):
    path = dataset_path(str(tmp_path / "out"), "prosocial")
    open_dataset(path, "prosocial", SETTINGS, {})
    return path


def complete(version: Version) -> None:
    manifest = {
        "format": 1,
        "dataset": "prosocial",
        "version": version.number,
        "run": {"created": "2026-01-01T00:00:00+00:00"},
        "summary": {"dialogues": 2},
        "configurations": {},
        "shards": [],
        "files": {},
        "suites": {},
        "warnings": [],
    }
    with open(f"{version.path}/manifest.json", "w") as file:
        json.dump(manifest, file)


def test_numbers_follow_each_other(dataset):
    for number in (1, 2, 3):
        version = claim_version(dataset)
        complete(version)
        assert (version.number, version.path) == (number, f"{dataset}/v{number:04d}")
    assert latest_version(dataset) == Version(3, f"{dataset}/v0003")


def test_what_a_dead_run_left_is_no_version_and_is_removed(dataset, tmp_path):
    complete(claim_version(dataset))
    torn = claim_version(dataset)
    with open(f"{torn.path}/shard.parquet", "w") as file:
        file.write("half")

    assert latest_version(dataset) == Version(1, f"{dataset}/v0001")
    assert [entry.complete for entry in list_versions(str(tmp_path / "out"))] == [True, False]
    again = claim_version(dataset)
    assert again == torn
    assert not (tmp_path / "out/prosocial/v0002/shard.parquet").exists()
    assert [version.number for version in versions(dataset)] == [1, 2]


def test_a_complete_version_is_never_removed(dataset):
    complete(claim_version(dataset))
    before = Path(dataset, "v0001/manifest.json").read_text()

    claim_version(dataset)
    claim_version(dataset)

    assert Path(dataset, "v0001/manifest.json").read_text() == before


def test_settings_are_written_once(dataset):
    assert open_dataset(dataset, "prosocial", {"partitions": 4, "new": 1}, {}) == {
        **SETTINGS, "new": 1,
    }  # fmt: skip
    assert open_dataset(dataset, "prosocial", SETTINGS, {"partitions": 16})["partitions"] == 16


def test_a_user_chooses_settings_of_a_new_dataset(tmp_path):
    settings = open_dataset(str(tmp_path), "prosocial", SETTINGS, {"partitions": 4})

    assert settings == {"partitions": 4, "split_salt": "s"}
    assert open_dataset(str(tmp_path), "prosocial", SETTINGS, {}) == settings


def test_another_setting_later_is_refused_with_the_remedy(dataset):
    with pytest.raises(OutputError, match=r"partitions = 16.*leave the option out"):
        open_dataset(dataset, "prosocial", SETTINGS, {"partitions": 8})


def test_another_dataset_in_the_same_place_is_refused(dataset):
    with pytest.raises(OutputError, match="metricinstruct"):
        open_dataset(dataset, "metricinstruct", SETTINGS, {})


def test_a_damaged_dataset_file_is_refused(dataset):
    with open(f"{dataset}/dataset.json", "w") as file:
        file.write("{")

    with pytest.raises(OutputError, match=r"dataset\.json can't be read"):
        open_dataset(dataset, "prosocial", SETTINGS, {})


def test_outputs_that_are_not_remints_are_refused(tmp_path):
    file = tmp_path / "file"
    file.write_text("")
    foreign = tmp_path / "foreign"
    (foreign / "prosocial").mkdir(parents=True)
    (foreign / "prosocial" / "thesis.txt").write_text("")
    home = tmp_path / "home"
    home.mkdir()
    (home / "thesis.txt").write_text("")

    for output in (file, foreign, home):
        with pytest.raises(OutputError, match="--output"):
            dataset_path(str(output), "prosocial")
    assert list((foreign / "prosocial").iterdir()) == [foreign / "prosocial" / "thesis.txt"]


def test_the_dataset_itself_is_no_output(dataset):
    with pytest.raises(OutputError, match="directory above"):
        dataset_path(dataset, "prosocial")


def test_outputs_that_can_be_used(dataset, tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / ".DS_Store").write_text("")

    assert dataset_path(str(tmp_path / "new"), "prosocial") == str(tmp_path / "new/prosocial")
    assert dataset_path(str(tmp_path / "empty"), "prosocial").endswith("empty/prosocial")
    assert dataset_path(str(tmp_path / "out"), "prosocial") == dataset
    assert dataset_path(str(tmp_path / "out"), "metricinstruct").endswith("out/metricinstruct")
    assert not (tmp_path / "new").exists()


def test_a_listing_needs_a_dataset(tmp_path):
    with pytest.raises(OutputError, match="no dataset"):
        list_versions(str(tmp_path))


def test_a_listing_says_what_is_there(dataset, tmp_path):
    complete(claim_version(dataset))

    (entry,) = list_versions(str(tmp_path / "out"))

    assert (entry.dataset, entry.number, entry.rows) == ("prosocial", 1, 0)


@pytest.mark.parametrize("use", [lambda path: dataset_path(path, "prosocial"), list_versions])
def test_a_scheme_without_a_filesystem_is_refused(use) -> None:
    with pytest.raises(OutputError, match="nosuch://bucket/out: no file system for this scheme"):
        use("nosuch://bucket/out")


@pytest.mark.parametrize(
    "settings",
    [{"partitions": "16"}, {"partitions": 0}, {"split_salt": ""}, {"split_salt": 5}, [1]],
)
def test_settings_of_another_kind_are_refused(dataset, settings) -> None:
    place = Path(dataset) / "dataset.json"
    stored = json.loads(place.read_text())
    place.write_text(json.dumps({**stored, "settings": settings}))
    with pytest.raises(OutputError, match="can't be read; restore it"):
        open_dataset(dataset, "prosocial", SETTINGS, {})


@pytest.mark.parametrize(
    "damage",
    [
        lambda manifest: json.dumps(manifest)[:40],
        lambda manifest: json.dumps({**manifest, "run": {}}),
        lambda manifest: json.dumps({**manifest, "summary": []}),
        lambda manifest: json.dumps({**manifest, "files": [1]}),
    ],
)
def test_a_damaged_manifest_is_found_before_a_run(dataset, tmp_path, damage) -> None:
    version = claim_version(dataset)
    complete(version)
    place = Path(version.path) / "manifest.json"
    place.write_text(damage(json.loads(place.read_text())))
    with pytest.raises(OutputError, match=f"is damaged; restore it, or remove {version.path}"):
        claim_version(dataset)


def test_a_damaged_manifest_is_a_line_of_the_listing_and_not_its_end(dataset, tmp_path) -> None:
    for _ in range(2):
        complete(claim_version(dataset))
    (Path(dataset) / "v0001" / "manifest.json").write_text("{")
    damaged, sound = list_versions(str(tmp_path / "out"))
    assert (damaged.complete, damaged.rows) == (True, None)
    assert "is damaged; restore it" in str(damaged.fault)
    assert (sound.number, sound.rows, sound.fault) == (2, 0, None)
