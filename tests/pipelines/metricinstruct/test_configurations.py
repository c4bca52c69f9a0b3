from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import polars as pl
import pytest

from pipelines.metricinstruct.configurations import Authorship, configurations, released
from pipelines.metricinstruct.schema import CONFIGURATIONS, SPLIT_CONFIGURATIONS
from pipelines.metricinstruct.task_prompts import by_id, load_task_prompts
from transforms.partitions import Frames
from transforms.publishing.shards import to_table

AUTHORSHIP = Authorship(by_id(load_task_prompts()), {"judge": '{"min_p": 0.5}'})


@pytest.fixture(scope="module")
def published(finished: Frames) -> Frames:
    return configurations(released(finished["rows"]), finished, AUTHORSHIP)


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_rows_fit_the_published_schema(published: Frames, name: str) -> None:
    frame = published[name]
    assert to_table(frame, CONFIGURATIONS[name]).schema.names == CONFIGURATIONS[name].names
    assert ("split" in frame.columns) == (
        name in SPLIT_CONFIGURATIONS or "split" in CONFIGURATIONS[name].names
    )


def test_the_order_of_rows_is_that_of_keys_whatever_came_first(finished: Frames) -> None:
    shuffled = {
        name: frame.sample(fraction=1, shuffle=True, seed=3)
        for name, frame in finished.items()
        if frame.height
    }
    one = configurations(released(finished["rows"]), finished, AUTHORSHIP)
    other = configurations(released(shuffled["rows"]), {**finished, **shuffled}, AUTHORSHIP)
    for name, frame in one.items():
        columns = CONFIGURATIONS[name].names
        assert frame.select(columns).equals(other[name].select(columns)), name


def test_the_released_text_is_read_by_its_client(
    published: Frames, client: Callable[[str], dict[str, Any] | None]
) -> None:
    for text, count in zip(
        published["default"]["errors"], published["structured"]["error_count"], strict=True
    ):
        read = client(text)
        assert read is not None
        assert read["num_errors"] == count


def test_provenance_names_model_prompts_and_verdicts(published: Frames) -> None:
    provenance = published["provenance"]
    references = provenance.filter(pl.col("kind") == "reference")
    assert references.height
    assert set(references["models"].list.len()) == {0}
    called = provenance.filter(pl.col("kind") != "reference")
    assert set(called["models"].explode()) == {"judge"}
    for row in called.iter_rows(named=True):
        prompts = [AUTHORSHIP.prompts[name] for name in row["prompt_ids"]]
        assert row["prompt_hashes"] == [prompt.hash for prompt in prompts]
        assert [json.loads(text) for text in row["sampling"]] == [
            {**prompt.sampling.parameters(), "min_p": 0.5} for prompt in prompts
        ]
    verdicts = provenance.explode("verdicts", empty_as_null=False)["verdicts"].struct.unnest()
    assert set(verdicts["check"]) == {"fix", "analysis"}
    errors = dict(published["structured"].select("id", "error_count").iter_rows())
    for row in called.iter_rows(named=True):
        numbers = {one["error"] for one in row["verdicts"] if one["check"] == "fix"}
        assert numbers <= set(range(1, errors[row["id"]] + 1))


def test_human_annotations_stand_under_the_id_of_their_row(published: Frames) -> None:
    human = published["human"]
    real = published["structured"].filter(pl.col("channel") == "real")
    joined = human.join(real, on="id")
    assert joined.height == human.height > 5
    assert set(human["side"].drop_nulls()) <= {"output", "source"}
    marked = joined.filter(pl.col("side") == "output")
    for row in marked.iter_rows(named=True):
        assert row["hypo_output"][row["start"] : row["end"]] == row["text"]


def test_human_marks_end_with_the_published_output(finished: Frames) -> None:
    end = pl.col("hypothesis").str.slice(0, 12)
    rows = finished["rows"].with_columns(
        pl.when(pl.col("channel") == "real").then(end).otherwise("hypothesis").alias("hypothesis")
    )
    published = configurations(released(rows), finished, AUTHORSHIP)
    human = published["human"].join(published["structured"], on="id")
    marked = human.filter(pl.col("side") == "output")
    assert marked.height
    for row in marked.iter_rows(named=True):
        assert row["hypo_output"][row["start"] : row["end"]] == row["text"]
    beyond = human.filter(pl.col("side") == "beyond output")
    assert beyond["start"].min() >= 12


def test_the_order_of_human_annotations_leaves_nothing_to_chance(finished: Frames) -> None:
    human = finished["human_errors"]
    alike = [human.with_columns(category=pl.lit(name), comment=pl.lit(name)) for name in "cab"]
    one, other = (
        configurations(
            released(finished["rows"]), {**finished, "human_errors": pl.concat(frames)}, AUTHORSHIP
        )["human"]
        for frames in (alike, alike[::-1])
    )
    assert one.height == 3 * human.height
    assert one.equals(other)
