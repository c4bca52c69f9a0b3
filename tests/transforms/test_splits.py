from __future__ import annotations

import polars as pl
import pytest

from transforms.splits import split_of_column, split_of_file


@pytest.mark.parametrize(
    ("path", "split"),
    [
        ("data/SBIC.v2.trn.csv", "train"),
        ("data/SBIC.v2.agg.dev.csv", "validation"),
        ("gs://bucket/train/SBIC.v2.tst.csv.gz", "test"),
        ("social_bias_frames__SBIC.v2.tst.csv", "test"),
        ("cm_train.csv", "train"),
        ("cm_test.csv", "test"),
        ("CM_TEST_HARD.csv", "test"),
        ("cm_ambig.csv", None),
        ("train_and_test.csv", None),
        ("latest.csv", None),
        (r"C:\test\cm_train.csv", "train"),
    ],
)
def test_a_file_name_tells_its_split(path: str, split: str | None) -> None:
    assert split_of_file(path) == split


def test_a_column_tells_splits_by_any_of_their_names() -> None:
    names = ["train", " Dev ", "tst", "valid", "dev-extra", "", None]
    split = pl.DataFrame({"part": names}).select(split_of_column("part")).to_series().to_list()
    assert split == ["train", "validation", "test", "validation", None, None, None]
