from __future__ import annotations

import json
import shutil
from pathlib import Path

import polars as pl
import pytest

from pipelines.prosocial import schema
from pipelines.prosocial.publication import PUBLICATION
from transforms.errors import LedgerError, OutputError, ValidationError
from transforms.filters import FUNNEL
from transforms.publishing.manifest import read_manifest
from transforms.publishing.publication import Run
from transforms.publishing.publish import Status, publish, read_result
from transforms.publishing.validate import validate_version
from transforms.publishing.versions import (
    Version,
    claim_version,
    latest_version,
    list_versions,
    open_dataset,
)

PUBLICATIONS = {"prosocial": PUBLICATION}
NO_FUNNEL = pl.DataFrame(schema=dict(FUNNEL))
RUN = Run(run_id="r1", created="2026-01-01T00:00:00+00:00", code_version="0.1.0", partitions=2)


@pytest.fixture(scope="module")
def dialogues(make_dialogues):
    return make_dialogues({"train": 12, "validation": 4, "test": 3})


@pytest.fixture(scope="module")
def published(publish_dialogues, dialogues, tmp_path_factory):
    output = tmp_path_factory.mktemp("output")
    result = publish_dialogues(output, dialogues)
    assert result.status is Status.PUBLISHED, result.message
    return output, result


@pytest.fixture(scope="module")
def few(make_dialogues):
    """Few shards, where a test is not about their number: each suite takes its time."""
    return make_dialogues({"train": 4})


@pytest.fixture(scope="module")
def published_few(publish_dialogues, few, tmp_path_factory):
    return publish_dialogues(tmp_path_factory.mktemp("few"), few)


@pytest.fixture
def version(published_few, tmp_path):
    """A copy of a published version that a test may damage."""
    path = tmp_path / "v0001"
    shutil.copytree(published_few.path, path)
    return path


PRESENT = [name for name in schema.CONFIGURATIONS if name != "dead"]


@pytest.mark.parametrize("configuration", PRESENT)
def test_datasets_loads_every_configuration(
    published, dialogues, configuration, tmp_path, monkeypatch
):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    from datasets import load_dataset

    loaded = load_dataset(published[1].path, configuration, cache_dir=str(tmp_path))

    declared = schema.CONFIGURATIONS[configuration]
    expected = dialogues.frames[configuration]
    if configuration in schema.SPLIT_CONFIGURATIONS:
        assert list(loaded) == ["train", "validation", "test"]
        assert {split: len(rows) for split, rows in loaded.items()} == {
            split: expected.filter(split=split).height for split in loaded
        }
    else:
        assert list(loaded) == [configuration]
        assert len(loaded[configuration]) == expected.height
    for split, rows in loaded.items():
        assert rows.column_names == declared.names
        own = expected.filter(split=split) if "partition" in expected.columns else expected
        assert rows.to_list() == own.select(declared.names).to_dicts()


def test_a_configuration_without_rows_is_left_out(published, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    from datasets import get_dataset_config_names

    assert get_dataset_config_names(published[1].path) == PRESENT
    assert read_manifest(published[1].path).configurations["dead"]["splits"] == {}


def test_the_default_configuration_needs_no_name(published, tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    from datasets import load_dataset

    loaded = load_dataset(published[1].path, cache_dir=str(tmp_path))

    assert loaded["train"].column_names == schema.RELEASED.names


def test_a_version_without_a_test_split_loads(
    publish_dialogues, make_dialogues, tmp_path, monkeypatch
):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    from datasets import load_dataset

    result = publish_dialogues(tmp_path / "out", make_dialogues({"train": 2}))

    assert result.status is Status.PUBLISHED, result.message
    assert list(load_dataset(result.path, cache_dir=str(tmp_path / "cache"))) == ["train"]


def test_the_manifest_names_every_file(published):
    manifest = read_manifest(published[1].path)
    present = {
        str(path.relative_to(published[1].path))
        for path in Path(published[1].path).rglob("*")
        if path.is_file()
    }

    assert present == {*manifest.expected_files(), "manifest.json"}
    assert {"README.md", "ledger.json", "statistics.json"} <= set(manifest.files)
    assert manifest.configurations["default"]["splits"] == {
        "test": 8, "train": 33, "validation": 11,
    }  # fmt: skip


def test_a_published_version_is_valid(published):
    report = validate_version(published[1].path, PUBLICATIONS)

    assert report.failures == ()
    assert report.suites == len(read_manifest(published[1].path).shards) + 1


def test_other_data_makes_the_next_version_and_the_same_data_none(
    publish_dialogues, make_dialogues, few, tmp_path
):
    first = publish_dialogues(tmp_path, make_dialogues({"train": 2}))
    second = publish_dialogues(tmp_path, few)
    again = publish_dialogues(tmp_path, few)

    assert (first.version, second.version) == (1, 2)
    assert (again.status, again.path) == (Status.UNCHANGED, second.path)
    assert read_result(Version(3, f"{tmp_path}/prosocial/v0003")) == again
    assert [
        (entry.number, entry.rows, entry.complete) for entry in list_versions(str(tmp_path))
    ] == [
        (1, 5, True),
        (2, 11, True),
    ]


def test_repeating_the_last_step_changes_nothing(published_few, few, write, tmp_path):
    path = published_few.path
    before = {file: file.read_bytes() for file in Path(path).rglob("*") if file.is_file()}
    written = write(few, str(tmp_path))

    again = publish(
        Version(1, path), PUBLICATION, RUN, written.shards, written.verdicts, written.counts,
        written.statistics, NO_FUNNEL,
    )  # fmt: skip

    assert again.status is Status.PUBLISHED
    assert {file: file.read_bytes() for file in Path(path).rglob("*") if file.is_file()} == before
    assert read_result(Version(1, path)).message == published_few.message


def claim(tmp_path):
    path = str(tmp_path / "prosocial")
    open_dataset(path, "prosocial", {"partitions": 2}, {})
    return claim_version(path)


def test_an_open_ledger_refuses_the_version(write, few, tmp_path):
    version = claim(tmp_path)
    written = write(few, version.path)
    lost = written.counts.with_columns(
        n=pl.when(stage="turns", side="out").then(pl.col("n") - 1).otherwise("n")
    )

    result = publish(
        version,
        PUBLICATION,
        RUN,
        written.shards,
        written.verdicts,
        lost,
        written.statistics,
        NO_FUNNEL,
    )

    assert result.status is Status.LEDGER_OPEN
    assert "turns: 11 in, 10 out, difference -1" in result.message
    assert version.path in result.message
    assert latest_version(str(tmp_path / "prosocial")) is None
    assert json.loads(Path(version.path, "ledger.json").read_text())["closes"] is False
    with pytest.raises(LedgerError, match="turns"):
        read_result(version).raise_for_status()


def test_a_shard_that_no_suite_has_seen_refuses_the_version(write, few, tmp_path):
    version = claim(tmp_path)
    written = write(few, version.path)
    unseen = written.verdicts[0].subject

    result = publish(
        version, PUBLICATION, RUN, written.shards, written.verdicts[1:], written.counts,
        written.statistics, NO_FUNNEL,
    )  # fmt: skip

    assert result.status is Status.INVALID
    assert f"{unseen}: no suite has looked at it" in result.message
    with pytest.raises(ValidationError, match="no suite"):
        result.raise_for_status()


def test_a_shard_that_its_suite_refuses_refuses_the_version(
    publish_dialogues, make_dialogues, tmp_path
):
    dialogues = make_dialogues({"train": 4})
    dialogues.frames["default"] = dialogues.frames["default"].with_columns(response=pl.lit(" "))

    result = publish_dialogues(tmp_path, dialogues)

    assert result.status is Status.INVALID
    assert "data/train-00000-of-00002.parquet: expect_column_values_to_match_regex(response)" in (
        result.message
    )
    assert not Path(result.path, "manifest.json").exists()


def test_a_shard_that_was_removed_meanwhile_refuses_the_version(write, few, tmp_path):
    version = claim(tmp_path)
    written = write(few, version.path)
    gone = Path(version.path, written.shards[0].path)
    gone.unlink()

    result = publish(
        version, PUBLICATION, RUN, written.shards, written.verdicts, written.counts,
        written.statistics, NO_FUNNEL,
    )  # fmt: skip

    assert result.status is Status.INVALID
    assert f"{written.shards[0].path}: was removed" in result.message
    assert not version.complete


def test_totals_that_differ_refuse_the_version(write, few, tmp_path):
    version = claim(tmp_path)
    written = write(few, version.path)
    gone = next(shard for shard in written.shards if shard.configuration == "annotations")
    shards = [shard for shard in written.shards if shard != gone]

    result = publish(
        version,
        PUBLICATION,
        RUN,
        shards,
        written.verdicts,
        written.counts,
        written.statistics,
        NO_FUNNEL,
    )

    assert result.status is Status.INVALID
    assert "annotations, shard_annotations" in result.message


def test_nothing_complete_is_no_version(write, make_dialogues, tmp_path):
    version = claim(tmp_path)
    written = write(make_dialogues({}), version.path)

    result = publish(
        version, PUBLICATION, RUN, written.shards, written.verdicts, written.counts,
        written.statistics, NO_FUNNEL,
    )  # fmt: skip

    assert result.status is Status.INCOMPLETE
    assert read_result(version) == result
    assert claim_version(str(tmp_path / "prosocial")) == version  # its leftovers are gone


def flip_last_byte(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[-5] ^= 1
    path.write_bytes(bytes(data))


@pytest.mark.parametrize(
    ("damage", "path"),
    [
        (flip_last_byte, "data/train-00001-of-00002.parquet"),
        (flip_last_byte, "README.md"),
        (Path.unlink, "provenance/train-00000-of-00002.parquet"),
        (lambda path: path.write_text("x"), "data/extra.parquet"),
    ],
)
def test_a_damaged_file_is_named(version, damage, path):
    damage(version / path)

    report = validate_version(str(version), PUBLICATIONS)

    assert [line.split(":")[0] for line in report.failures] == [path]


def test_a_configuration_that_this_release_does_not_know_is_a_fault(version):
    place = version / "manifest.json"
    raw = json.loads(place.read_text())
    shard = next(one for one in raw["shards"] if one["configuration"] == "annotations")
    shard["configuration"] = "votes"
    place.write_text(json.dumps(raw))

    report = validate_version(str(version), PUBLICATIONS)

    known = f"{shard['path']}: this release of remint knows no configuration 'votes'"
    assert any(line.startswith(known) for line in report.failures)


def test_validating_runs_the_suites_on_what_the_files_hold(version):
    """A shard replaced together with its manifest's entry is still looked at by its suite."""
    from transforms.publishing.shards import write_shard

    path = "data/train-00000-of-00002.parquet"
    rows = pl.read_parquet(version / path).with_columns(safety_label=pl.lit(schema.CASUAL))
    record = write_shard(
        rows, schema.RELEASED, str(version), configuration="default", split="train", partition=0,
        partitions=2,
    )  # fmt: skip
    manifest = json.loads((version / "manifest.json").read_text())
    manifest["shards"] = [
        record.to_json() if shard["path"] == path else shard for shard in manifest["shards"]
    ]
    (version / "manifest.json").write_text(json.dumps(manifest))

    report = validate_version(str(version), PUBLICATIONS)

    assert len(report.failures) == 1
    assert "votes_and_label" in report.failures[0]
    assert path in report.failures[0]


def test_a_directory_without_manifest_is_no_version(version):
    (version / "manifest.json").unlink()

    with pytest.raises(OutputError, match="not a version"):
        validate_version(str(version), PUBLICATIONS)


def test_neither_messages_nor_reports_hold_texts(publish_dialogues, make_dialogues, tmp_path):
    dialogues = make_dialogues({"train": 4})
    dialogues.frames["default"] = dialogues.frames["default"].with_columns(
        safety_label=pl.lit("zebra-stripes")
    )

    result = publish_dialogues(tmp_path, dialogues)

    assert result.status is Status.INVALID
    assert "zebra" not in result.message
    for file in Path(result.path, "validation").iterdir():
        assert "zebra" not in file.read_text()


def test_the_card_and_the_reports_load_nothing_from_elsewhere(published):
    pages = list(Path(published[1].path, "validation").glob("*.html"))

    assert len(pages) == len(PRESENT) + 1  # the shards' suites and the version's
    for page in pages:
        text = page.read_text()
        assert "http" not in text
        assert "<script" not in text
