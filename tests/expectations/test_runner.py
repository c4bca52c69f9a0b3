from __future__ import annotations

import json
import logging
import pickle
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import polars as pl
import pytest

from expectations import runner as module
from expectations.data_docs import render_data_docs
from expectations.runner import SuiteRunner, load_suite, suite_fingerprint

SUITE = {
    "name": "toy",
    "meta": {
        "about": "A suite for tests.",
        "views": {
            "rows": "SELECT text, ARRAY_LENGTH(items) AS length FROM shard",
            "items": "SELECT UNNEST(items) AS item FROM shard",
        },
    },
    "expectations": [
        {
            "type": "expect_column_values_to_match_regex",
            "kwargs": {"column": "item", "regex": "\\S"},
            "severity": "critical",
            "meta": {"view": "items"},
        },
        {
            "type": "expect_table_row_count_to_be_between",
            "kwargs": {"min_value": 1},
            "severity": "critical",
            "meta": {"view": "rows"},
        },
        {
            "type": "expect_column_values_to_be_in_set",
            "kwargs": {"column": "text", "value_set": ["good"]},
            "severity": "warning",
            "meta": {"view": "rows"},
        },
        {
            "type": "expect_column_values_to_be_between",
            "kwargs": {"column": "length", "min_value": 2},
            "severity": "critical",
            "meta": {"view": "rows"},
        },
    ],
}
GOOD = pl.DataFrame({"text": ["good", "good"], "items": [["a", "b"], ["c", "d"]]})


@pytest.fixture
def suite(tmp_path, monkeypatch):
    (tmp_path / "toy.json").write_text(json.dumps(SUITE))
    monkeypatch.setattr(module, "SUITES", tmp_path)
    load_suite.cache_clear()
    yield "toy"
    load_suite.cache_clear()


@pytest.fixture(scope="module")
def runner():
    return SuiteRunner()


def test_good_data_passes(runner, suite):
    verdict = runner.validate(GOOD, suite, subject="data/x.parquet")

    assert verdict.success
    assert (verdict.subject, verdict.rows, len(verdict.checks)) == ("data/x.parquet", 2, 4)
    assert [check.expectation for check in verdict.checks] == [
        expectation["type"] for expectation in SUITE["expectations"]
    ]


def test_elements_of_lists_are_checked_and_their_places_told(runner, suite):
    bad = GOOD.with_columns(items=pl.Series([["a", " "], ["c", ""]]))

    (check,) = runner.validate(bad, suite).failures

    assert (check.view, check.unexpected_count, check.element_count) == ("items", 2, 4)
    assert check.places == (1, 3)
    assert check.describe() == "expect_column_values_to_match_regex(item) on items: 2 of 4"


def test_a_warning_does_not_refuse(runner, suite):
    verdict = runner.validate(GOOD.with_columns(text=pl.lit("bad")), suite)

    assert verdict.success
    assert [check.columns for check in verdict.warnings] == [("text",)]


@pytest.mark.parametrize("column", ["text", "items"])
def test_a_missing_column_fails_what_looks_at_it(runner, suite, column):
    verdict = runner.validate(GOOD.drop(column), suite)

    assert not verdict.success
    assert all(check.error for check in verdict.failures)


def test_no_rows_fail_a_floor(runner, suite):
    (check,) = runner.validate(GOOD.clear(), suite).failures

    assert check.observed == 0


def test_a_verdict_travels_and_becomes_json(runner, suite):
    verdict = runner.validate(GOOD.with_columns(text=pl.lit("bad")), suite)

    assert pickle.loads(pickle.dumps(verdict)) == verdict
    assert json.loads(json.dumps(verdict.to_json()))["success"] is True


def test_a_runner_per_thread_gives_right_verdicts(suite):
    frames = [GOOD, GOOD.clear()] * 4

    def judge(frame: pl.DataFrame) -> bool:
        return SuiteRunner().validate(frame, suite).success

    with ThreadPoolExecutor(4) as threads:
        assert list(threads.map(judge, frames)) == [True, False] * 4


def test_no_value_and_no_progress_reaches_logs_or_terminal(runner, suite, caplog, capfd):
    caplog.set_level(logging.DEBUG)
    verdict = runner.validate(GOOD.with_columns(items=pl.Series([["zebra", ""], [" "]])), suite)

    assert not verdict.success
    assert "zebra" not in caplog.text + json.dumps(verdict.to_json())
    assert capfd.readouterr() == ("", "")


def test_great_expectations_is_imported_only_where_a_suite_runs():
    script = (
        "import sys, expectations.runner, expectations.data_docs\n"
        "print('great_expectations' in sys.modules)"
    )

    out = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True, text=True, check=True, cwd=Path(__file__).parents[2],
    )  # fmt: skip

    assert out.stdout.strip() == "False"


def test_the_fingerprint_follows_the_file(suite, tmp_path):
    before = suite_fingerprint(suite)
    (tmp_path / "toy.json").write_text(json.dumps(SUITE) + "\n")

    assert suite_fingerprint(suite) != before


@pytest.mark.parametrize(
    "path", sorted(Path(module.__file__).parent.glob("*.json")), ids=lambda p: p.stem
)
def test_every_suite_of_the_package_is_one_of_great_expectations_own(path):
    import great_expectations as gx

    raw = json.loads(path.read_text())

    suite = gx.ExpectationSuite(
        name=raw["name"], expectations=raw["expectations"], meta=raw["meta"]
    )
    assert raw["name"] == path.stem
    assert len(suite.expectations) == len(raw["expectations"])
    assert {item["meta"]["view"] for item in raw["expectations"]} == set(raw["meta"]["views"])
    assert {item["severity"] for item in raw["expectations"]} <= {"critical", "warning"}


def test_data_docs_add_up_what_a_suite_found(runner, suite):
    bad = GOOD.with_columns(items=pl.Series([["zebra", " "], ["c", "d"]]))
    verdicts = [runner.validate(frame, suite) for frame in (GOOD, bad, GOOD.drop("items"))]

    page = render_data_docs(verdicts)

    assert page == render_data_docs(verdicts)
    assert "items.item" in page
    assert "Failed" in page
    assert "1 unexpected values found" in " ".join(page.split())
    assert "zebra" not in page
    assert "http" not in page


def test_data_docs_of_what_passed_say_so(runner, suite):
    page = render_data_docs([runner.validate(GOOD, suite)])

    assert "Succeeded" in page
    assert "Failed" not in page
