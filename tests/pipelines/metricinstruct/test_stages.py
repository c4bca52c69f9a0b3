from __future__ import annotations

import polars as pl
import pytest

from pipelines.metricinstruct import stages
from pipelines.metricinstruct.choice import ChoiceSettings
from pipelines.metricinstruct.filter_settings import load_filters
from pipelines.metricinstruct.profiles import PROFILES
from pipelines.metricinstruct.publication import STAGES
from pipelines.metricinstruct.schema import CHOSEN
from pipelines.metricinstruct.stage_frames import SCHEMAS, named
from pipelines.metricinstruct.stages import finish_partition
from transforms.ledger import build_ledger
from transforms.partitions import Frames


def test_frames_have_their_schemas_after_every_stage(
    chosen: Frames, drafted: Frames, filtered: Frames, finished: Frames
) -> None:
    for frames in (chosen, drafted, filtered, finished):
        for name, frame in frames.items():
            if name != "rows":
                assert dict(frame.schema) == dict(
                    pl.DataFrame(schema=dict(SCHEMAS[name])).schema
                ), name


def test_the_ledger_of_the_samples_closes_and_knows_every_outcome(finished: Frames) -> None:
    ledger = build_ledger(finished["counts"], STAGES)
    assert ledger["closes"]
    assert list(ledger["stages"]) == list(STAGES)
    stages_ = ledger["stages"]
    assert stages_["examples"]["reasons"]["rejected"]["not_chosen"] > 5
    assert stages_["analyses"]["out"]["published"] == finished["rows"].height
    assert stages_["errors"]["out"]["rejected"] > 0
    assert stages_["human_annotations"]["out"] == {
        "not_published": stages_["human_annotations"]["in"] - finished["human_errors"].height,
        "published": finished["human_errors"].height,
    }


@pytest.mark.parametrize("name", ["rejected", "analyses", "removed", "dead", "waiting"])
def test_a_lost_row_keeps_the_ledger_open(filtered: Frames, name: str) -> None:
    lost = {**filtered, name: named(filtered, name)[1:]}
    ledger = build_ledger(finish_partition(lost, 1.0)["counts"], STAGES)
    assert ledger["closes"] == (named(filtered, name).height == 0)


def test_an_analysis_lost_while_drafting_keeps_the_ledger_open(drafted: Frames) -> None:
    lost = {**drafted, "analyses": drafted["analyses"][1:]}
    none = pl.DataFrame(schema=dict(PROFILES))
    filtered = stages.filter_analyses(lost, none, load_filters())
    ledger = build_ledger(finish_partition(filtered, 1.0)["counts"], STAGES)
    assert not ledger["stages"]["analyses"]["closes"]


def test_an_input_stands_in_one_split_and_evaluation_sets_stay_whole() -> None:
    columns = {"key": ["a", "a", "a", "b", "b", "c", "d"]}
    splits = ["train", None, "test", "train", "validation", None, "train"]
    frame = pl.DataFrame({**columns, "split": splits})
    assert stages._one_split(frame)["split"].to_list() == [
        *("test", "test", "test", "validation", "validation", "train", "train")
    ]


def test_a_partition_without_rows_comes_through(chosen: Frames) -> None:
    nothing = stages.choose_examples({}, ChoiceSettings(), [])
    selected = stages.select_examples(nothing, None, None)  # type: ignore[arg-type]
    drafted = {
        name: pl.DataFrame(schema=dict(SCHEMAS[name]))
        for name in ("analyses", "verdicts", "unfinished", "rejected")
    }
    settled = stages.settle_drafts(selected, drafted)
    none = pl.DataFrame(schema=dict(PROFILES))
    filtered = stages.filter_analyses(settled, none, load_filters())
    finished = finish_partition(filtered, 1.0)
    assert finished["rows"].height == 0
    assert set(CHOSEN) - {"id", "systems"} <= set(chosen["chosen"].columns)
    assert build_ledger(finished["counts"], STAGES)["closes"]


@pytest.mark.parametrize(
    ("level", "stays", "seen"), [("error", 1, 1), ("warning", 2, 1), ("off", 2, 0)]
)
def test_the_level_of_near_duplicate_decides_what_goes(
    drafted: Frames, level: str, stays: int, seen: int
) -> None:
    usual = load_filters()
    off = {
        name: getattr(usual, name).model_copy(update={"level": "off"})
        for name in type(usual).model_fields
    }
    near = usual.near_duplicate.model_copy(update={"level": level})
    settings = usual.model_copy(update={**off, "near_duplicate": near})
    one = drafted["analyses"].head(1)
    alike = pl.concat([one.with_columns(id=pl.lit(digit * 16)) for digit in "ab"])
    none = pl.DataFrame(schema=dict(PROFILES))
    filtered = stages.filter_analyses({**drafted, "analyses": alike}, none, settings)
    assert filtered["analyses"].height == stays
    rejected = named(filtered, "rejected").filter(rule="near_duplicate")
    assert rejected.height == 2 - stays
    last = filtered["funnel"].row(-1, named=True)
    assert (last["rule"], last["level"], last["turns"]) == ("near_duplicate", level, seen)
    assert filtered["funnel"]["position"].is_sorted()


def test_rejects_of_analyses_say_where_they_come_from(finished: Frames) -> None:
    rejected = finished["rejected"].filter(pl.col("unit") == "analysis")
    assert rejected.height > 3
    for name in ("rule", "key", "channel", "task", "source", "split", "item", "file", "line"):
        assert rejected[name].null_count() == 0, name
    assert (rejected.filter(pl.col("channel") == "real")["system"].null_count()) == 0
