from __future__ import annotations

from pathlib import Path

import polars as pl

from pipelines.metricinstruct.schema import REAL, TASKS
from pipelines.metricinstruct.sources.samples import FOLDER, sample_files


def test_samples_are_forty_inputs_over_the_six_tasks_with_two_systems_each(read_file):
    frames = [
        read_file(f.source, f.path, f.channel, tuple(map(Path, f.outputs))) for f in sample_files()
    ]
    examples = pl.concat(frame["examples"] for frame in frames)
    assert set(examples["task"]) == set(TASKS)
    assert 40 <= examples["key"].n_unique() <= 50
    real = examples.filter(pl.col("channel") == REAL)
    assert real.group_by("key").agg(pl.col("system").n_unique())["system"].unique().to_list() == [2]
    rejected = pl.concat(frame["rejected"] for frame in frames)
    assert rejected["rule"].unique().to_list() == ["reference_system"]
    human = pl.concat(frame["human_errors"] for frame in frames)
    assert human["annotator"].n_unique() == 2
    assert set(human["side"].drop_nulls()) == {"output", "source"}


def test_every_sample_file_is_read():
    read = {Path(path).name for file in sample_files() for path in (file.path, *file.outputs)}
    assert read == {path.name for path in FOLDER.iterdir()}
