"""The bundled samples: true to the sources' formats, and whole enough for the demo."""

from __future__ import annotations

import csv
import json
from collections import Counter, defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import pipelines.prosocial
from pipelines.prosocial.labels import label_of
from pipelines.prosocial.schema import (
    CASUAL,
    INTERVENTION,
    LABELS,
    SBIC,
    SEED_ROWS,
    SOURCES,
    SPLITS,
    VOTES,
)
from pipelines.prosocial.seeds.selection import Selection, select
from pipelines.prosocial.seeds.sources import read_seed_rows, seed_inputs
from transforms.frames import concat

SAMPLES = Path(pipelines.prosocial.__file__).parent / "samples"
SEEDS = (
    f"socialchemistry={SAMPLES}/social-chem-101.sample.tsv",
    f"sbic={SAMPLES}/SBIC.v2.sample.*.csv",
    f"ethics={SAMPLES}/cm_*.sample.csv",
)


@pytest.fixture(scope="module")
def selection() -> Selection:
    chunks = [chunk for one in seed_inputs(SEEDS) for chunk in read_seed_rows(one)]
    chosen = select(concat((chunk.seed_rows for chunk in chunks), SEED_ROWS), salt="samples")
    ended = chosen.seeds["input_rows"].sum() + chosen.rejected["input_rows"].sum()
    assert ended + sum(chunk.rejected.height for chunk in chunks) == sum(c.rows for c in chunks)
    assert {rule for chunk in chunks for rule in chunk.rejected["rule"]} == {
        "blank_situation",
        "no_title",
    }
    return chosen


def json_lines(name: str) -> list[dict[str, Any]]:
    text = (SAMPLES / "crowd" / name).read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


@pytest.fixture(scope="module")
def responses() -> list[dict[str, Any]]:
    return json_lines("responses-sample.jsonl")


@pytest.fixture(scope="module")
def labels() -> dict[tuple[str, int], str]:
    votes: dict[tuple[str, int], list[str]] = defaultdict(list)
    for row in json_lines("annotations-sample.jsonl"):
        votes[row["key"], row["turn"]].append(row["vote"])
    labelled = pl.DataFrame({"votes": list(votes.values())}).select(label_of(pl.col("votes")))
    return dict(zip(votes, labelled.to_series().to_list(), strict=True))


def test_seeds_come_from_all_sources_in_all_splits(selection: Selection) -> None:
    seeds = selection.seeds
    assert seeds.height >= 45
    assert set(seeds["source"]) == set(SOURCES)
    assert Counter(seeds["split"].to_list()).keys() == set(SPLITS)
    assert seeds.filter(pl.col("source") == SBIC)["rots"].list.len().min() == 1


def test_every_rule_drops_some(selection: Selection) -> None:
    assert set(selection.rejected["rule"]) == {
        *("split", "rot_bad", "rot_char_targeting", "action_pressure"),
        *("post_words", "target", "target_minority", "target_stereotype"),
        *("label", "no_label", "duplicate_seed"),
    }


def test_columns_are_those_of_the_sources(shared_data: Callable[[str], Path]) -> None:
    def first_row(path: Path, delimiter: str = ",") -> list[str]:
        with path.open(encoding="utf-8", newline="") as file:
            return next(csv.reader(file, delimiter=delimiter))

    real = pl.read_csv(shared_data("social_chem_101/obligatory_sc101.csv.gz"), n_rows=1).columns
    assert first_row(SAMPLES / "social-chem-101.sample.tsv", "\t") == real
    for part in ("trn", "dev", "tst"):
        real_file = shared_data(f"schema_fixtures/social_bias_frames__SBIC.v2.{part}.csv")
        assert first_row(SAMPLES / f"SBIC.v2.sample.{part}.csv") == first_row(real_file)
    real = pl.read_csv(shared_data("ethics_commonsense/cm_test.csv.gz"), n_rows=1).columns
    for part in ("train", "test"):
        assert first_row(SAMPLES / f"cm_{part}.sample.csv") == real


def test_the_crowd_worked_on_the_ten_smallest_keys(
    selection: Selection,
    responses: list[dict[str, Any]],
    labels: dict[tuple[str, int], str],
) -> None:
    ten = selection.seeds["key"].sort().head(10).to_list()
    assert sorted({row["key"] for row in responses}) == ten
    assert sorted({key for key, _ in labels}) == ten
    seeds = selection.seeds.filter(pl.col("key").is_in(ten))
    assert set(seeds["source"]) == set(SOURCES)
    assert set(seeds["split"]) == set(SPLITS)


def test_dialogues_are_complete(
    selection: Selection,
    responses: list[dict[str, Any]],
    labels: dict[tuple[str, int], str],
) -> None:
    turns: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for row in responses:
        turns[row["key"]].append(row)
    lengths = Counter(len(rows) for rows in turns.values())
    assert lengths == {3: 9, 2: 1}
    sources = dict(selection.seeds.select("key", "source").iter_rows())
    for key, rows in turns.items():
        assert [row["turn"] for row in rows] == list(range(len(rows)))
        assert [row["episode_done"] for row in rows] == [False] * (len(rows) - 1) + [True]
        verbatim = [row["turn"] for row in rows if row["context"] is None]
        assert verbatim == ([0] if sources[key] == SBIC else [])
    assert {(row["key"], row["turn"]) for row in responses} == set(labels)


def test_texts_keep_the_rules_of_the_dataset(responses: list[dict[str, Any]]) -> None:
    texts = [row[field] for row in responses for field in ("context", "response") if row[field]]
    assert len(set(texts)) == len(texts)
    for row in responses:
        assert len(row["response"]) > 30
        assert row["turn"] > 0 or row["response"].endswith("?")
        sentences = row["response"].count(".") + row["response"].count("?")
        assert 1 <= sentences + row["response"].count("!") <= 3
        assert 1 <= len(row["rots"]) <= 2
        for rot in row["rots"]:
            assert rot.startswith(("It's ", "You should"))
            assert rot.endswith(".")
            assert ";" not in rot


def test_votes_are_three_of_four_annotators_with_reasons() -> None:
    rows = json_lines("annotations-sample.jsonl")
    voters: dict[tuple[str, int], list[str]] = defaultdict(list)
    for row in rows:
        voters[row["key"], row["turn"]].append(row["annotator"])
        assert row["vote"] in VOTES
        assert row["reason"].strip()
    assert all(len(set(names)) == len(names) == 3 for names in voters.values())
    assert len({row["annotator"] for row in rows}) == 4


def test_all_labels_occur_and_intervention_is_never_followed_by_casual(
    labels: dict[tuple[str, int], str],
) -> None:
    assert set(labels.values()) == set(LABELS)
    for (key, turn), label in labels.items():
        later = [other for (k, t), other in labels.items() if k == key and t > turn]
        assert label != INTERVENTION or CASUAL not in later
