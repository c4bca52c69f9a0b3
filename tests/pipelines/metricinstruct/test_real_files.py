"""The whole pipeline over the real files of the sources, each read whole."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from pipelines.metricinstruct.command import mint
from pipelines.metricinstruct.options import MetricInstructOptions, metricinstruct_parser
from pipelines.option_parsing import parse
from transforms.llm.fake_endpoint.server import FakeEndpoint
from transforms.publishing.publish import PublishResult, Status

#: Source, file, and how many rows it has.
REAL = (
    ("wmt_mqm", "wmt_mqm/mqm_ted_ende.tsv.gz", 8435),
    ("wmt_mqm", "wmt_mqm/mqm_ted_zhen.tsv.gz", 9915),
    ("gsm8k", "gsm8k_model_solutions/example_model_solutions.jsonl.gz", 1319),
    ("fetaqa", "fetaqa/fetaQA-v1_test.jsonl.gz", 2003),
    ("oasst1", "oasst_en_100/en_100_message.jsonl.gz", 100),
    ("asqa", "asqa_fine_grained_feedback/dev_feedback.json.gz", 500),
    ("summedits", "summedits/summedits_sales_call.json.gz", 520),
    ("summedits", "summedits/summedits_sales_email.json.gz", 613),
    ("llmbar", "llmbar/natural.json", 100),
    ("quintd", "quintd_spans/quintd_human_vs_gpt4.jsonl.gz", 800),
)
SYNTHETIC = (
    ("fetaqa", "fetaqa/fetaQA-v1_test.jsonl.gz", 2003),
    ("totto", "totto_sample/dev_sample.jsonl", 5),
    ("totto", "totto_sample/train_sample.jsonl", 3),
    ("cosmosqa", "cosmosqa/valid.csv.gz", 2985),
    ("dart", "dart/dart-v1.1.1-full-dev.json.gz", 2768),
    ("oasst1", "oasst_en_100/en_100_message.jsonl.gz", 100),
)
OUTPUTS = (
    ("fetaqa", "fetaqa/t5-small-test-predictions.txt"),
    ("fetaqa", "fetaqa/t5-large-test-predictions.txt"),
    ("oasst1", "oasst_en_100/pythia-1b_sampling.json"),
)
INPUTS = (
    ("quintd", "quintd_spans/input_gsmarena_test.json.gz"),
    ("quintd", "quintd_spans/input_ice_hockey_test.json.gz"),
)
#: Rows of a source and language pair that go on to the model: the files are read whole, and the
#: outputs of all their inputs are ranked, but answering takes a fake endpoint some time as well.
SAMPLE = 60


@pytest.fixture(scope="module")
def runs(
    shared_data: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory
) -> list[PublishResult]:
    def named(files: tuple[tuple[Any, ...], ...]) -> list[str]:
        return [f"{source}={shared_data(name)}" for source, name, *_ in files]

    output = tmp_path_factory.mktemp("real")
    with FakeEndpoint() as endpoint:
        arguments = [
            *("--sources", *named(REAL), "--synthetic", *named(SYNTHETIC)),
            *("--outputs", *named(OUTPUTS), "--inputs", *named(INPUTS)),
            *("--output", str(output), "--partitions", "2"),
            *("--model", "fake", "--base-url", endpoint.base_url),
            *("--analysis", "one_step", "--sample", str(SAMPLE)),
        ]
        options = parse(metricinstruct_parser(), MetricInstructOptions, arguments)
        first = mint(options)
        asked = endpoint.requests
        second = mint(options)
        assert endpoint.requests == asked
    return [first, second]


def test_the_ledger_closes_over_every_row_of_every_file(runs: list[PublishResult]) -> None:
    result = runs[0]
    assert result.status is Status.PUBLISHED
    ledger = json.loads((Path(result.path) / "ledger.json").read_text())
    assert ledger["closes"]
    stages = ledger["stages"]
    assert stages["input_rows"]["in"] == sum(rows for _, _, rows in (*REAL, *SYNTHETIC))
    reasons = stages["input_rows"]["reasons"]["rejected"]
    assert reasons["none_of_the_above"] == 259
    assert stages["human_annotations"]["in"] > 20_000
    assert stages["human_annotations"]["out"]["published"] > 100


def test_running_again_makes_no_version(runs: list[PublishResult]) -> None:
    first, second = runs
    assert second.status is Status.UNCHANGED
    assert second.path == first.path


def test_rows_of_every_source_are_published_with_their_places(runs: list[PublishResult]) -> None:
    structured = pl.read_parquet(Path(runs[0].path) / "structured" / "*.parquet")
    published = {*structured.select("source", "channel").unique().iter_rows()}
    assert published == {(source, "real") for source, *_ in REAL} | {
        (source, "synthetic") for source, *_ in SYNTHETIC
    }
    sizes = structured.group_by("source", "channel", "stratum").len()["len"]
    assert sizes.max() <= SAMPLE
    errors = (
        structured.select("hypo_output", "errors")
        .explode("errors", empty_as_null=False)
        .unnest("errors")
    )
    assert errors.height > 300
    for row in errors.iter_rows(named=True):
        assert row["hypo_output"][row["start"] : row["end"]] == row["location"]


def test_agreement_is_measured_with_every_rater_of_the_translations(
    runs: list[PublishResult],
) -> None:
    statistics = json.loads((Path(runs[0].path) / "statistics.json").read_text())
    raters = {row["second"] for row in statistics["agreement"] if row["first"] == "fake"}
    assert {f"wmt_mqm en-de: rater{n}" for n in (1, 2, 3, 4)} <= raters


def test_a_model_that_annotated_is_compared_with_the_people_who_did(
    runs: list[PublishResult],
) -> None:
    tables = json.loads((Path(runs[0].path) / "statistics.json").read_text())
    groups = {(row["first"], row["second"]): row for row in tables["agreement_of_groups"]}
    for dataset in ("gsmarena", "ice_hockey"):
        names = (f"quintd {dataset}: model gpt-4", f"quintd {dataset}: people")
        ours = [groups[("fake", name)] for name in names]
        assert ours[0]["segments"] == ours[1]["segments"] == groups[names]["segments"] > 20
        # Of all 400 outputs each it is 0.37, see the tests of the sources.
        assert 0.1 < groups[names]["character_f1"] < 0.6
    card = (Path(runs[0].path) / "README.md").read_text()
    assert "| fake | quintd gsmarena: people |" in card
