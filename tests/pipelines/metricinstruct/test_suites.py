"""Each expectation of each suite can fail: good data passes all of them, each fault fails some."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import polars as pl
import pytest

from expectations.runner import SuiteRunner, load_suite
from pipelines.metricinstruct import schema
from pipelines.metricinstruct.configurations import Authorship, configurations, released
from pipelines.metricinstruct.publication import PUBLICATION
from pipelines.metricinstruct.stage_frames import SUMS
from pipelines.metricinstruct.statistics import partition_statistics
from pipelines.metricinstruct.task_prompts import by_id, load_task_prompts
from tests.faults import COMMON, Fault, TablesFault, every, failed, first, rows, table, where
from transforms.frames import polars_schema
from transforms.ledger import build_ledger
from transforms.partitions import Frames
from transforms.publishing.shards import ShardRecord
from transforms.publishing.suites import version_tables


def errors(change: Callable[[dict[str, Any]], None]) -> Fault:
    """Change each error of each row."""

    def fault(frame: pl.DataFrame) -> pl.DataFrame:
        changed = frame["errors"].to_list()
        for one in changed:
            for error in one:
                change(error)
        return frame.with_columns(pl.Series("errors", changed, dtype=frame.schema["errors"]))

    return fault


def setting(**values: Any) -> Fault:
    """Put values into the fields of each error."""
    return errors(lambda error: error.update(values))


def text(column: str, pattern: str, value: str) -> Fault:
    """Replace a pattern in each text of the column."""
    return lambda frame: frame.with_columns(pl.col(column).str.replace_all(pattern, value))


def twice(frame: pl.DataFrame) -> pl.DataFrame:
    """Give the first row twice."""
    return pl.concat([frame.head(1), frame])


def of_released_text(column: str) -> dict[str, Fault]:
    return {
        "null text": first(column, None),
        "no header": text(column, r"^The model-generated output", "This output"),
        "one error": text(column, r" contains \d+ errors", " contains 1 error"),
        "header counts more": text(column, r" contains \d", " contains 9"),
        "header adds up to less": text(column, r"(reduction of )\d+(?:\.\d+)?\.", "${1}0.5."),
        "no total": text(column, r", with a total[^\n]*", "."),
        "value on the next line": text(column, r"(Error location 1:) ", "$1\n"),
        "location lost": text(column, r"\nError location 1: [^\n]*", ""),
        "aspect lost": text(column, r"\nError aspect 1: [^\n]*", ""),
        "explanation lost": text(column, r"\nExplanation 1: [^\n]*", ""),
        "severity lost": text(column, r"\nSeverity 1: [^\n]*", ""),
        "reduction lost": text(column, r"\nScore reduction 1: [^\n]*", ""),
        "empty location": text(column, r"(Error location 1:)[^\n]*", "$1 "),
        "value on two lines": text(column, r"(Explanation 1: )", "${1}first\n"),
        "other severity": text(column, r"Severity 1: \w+", "Severity 1: Critical"),
        "negative reduction": text(column, r"(Score reduction 1: )", "${1}-"),
        "reduction is no number": text(column, r"(Score reduction 1: )\S+", "${1}many"),
        "reduction too high": text(column, r"(Score reduction 1: )\S+", "${1}7"),
        "errors all numbered one": text(column, r"([a-z]) \d+: ", "$1 1: "),
        "line break at the end": text(column, r"\z", "\n"),
    }


WARNS = {
    "reduction outside the range",
    "points of the other severity",
    "texts twice",
    "prompt twice",
    "weight on another scale",
    "means too high",
}

FAULTS: dict[str, dict[str, Fault]] = {
    "default": {
        **of_released_text("errors"),
        "null instruction": first("instruction", None),
        "blank instruction": first("instruction", " "),
        "null input": first("input_context", None),
        "null output": first("hypo_output", None),
        "blank output": first("hypo_output", "\n"),
        "texts twice": twice,
        "all texts null": every("errors", None),
    },
    "sft": {
        **of_released_text("completion"),
        "null prompt": first("prompt", None),
        "prompt without its end": text("prompt", r"Your evaluation output:\n", ""),
        "prompt without its start": text("prompt", r"^You are evaluating[^\n]*\n", ""),
        "prompt without an output": text("prompt", r"Model-generated Output:", ""),
        "prompt twice": twice,
    },
    "structured": {
        "null id": first("id", None),
        "short id": first("id", "abc"),
        "row twice": twice,
        "null key": first("key", None),
        "short key": first("key", "abc"),
        "null task": first("task", None),
        "unknown task": first("task", "poetry"),
        "aspects of another task": where(
            pl.col("task") == schema.TRANSLATION, "task", schema.MATH_QA
        ),
        "null channel": first("channel", None),
        "unknown channel": first("channel", "other"),
        "channels swapped": lambda frame: frame.with_columns(
            pl.col("channel").replace({"real": "synthetic", "synthetic": "real"})
        ),
        "no system": every("system", None),
        "null kind": first("kind", None),
        "unknown kind": first("kind", "copied"),
        "null source": first("source", None),
        "source with blanks": first("source", "WMT 2021"),
        "null instruction": first("instruction", None),
        "blank instruction": first("instruction", ""),
        "null input": first("input_context", None),
        "null output": first("hypo_output", None),
        "blank output": first("hypo_output", ""),
        "another output": every("hypo_output", "Something else entirely."),
        "no references": every("references", None),
        "empty references": every("references", []),
        "null errors": every("errors", None),
        "an error lost": lambda frame: frame.with_columns(pl.col("errors").list.slice(1)),
        "count null": first("error_count", None),
        "count wrong": lambda frame: frame.with_columns(pl.col("error_count") + 1),
        "sum null": first("score_reduction", None),
        "sum wrong": lambda frame: frame.with_columns(pl.col("score_reduction") + 0.5),
        "null location": setting(location=None),
        "blank location": setting(location=" "),
        "other location": setting(location="elsewhere"),
        "null explanation": setting(explanation=None),
        "blank explanation": setting(explanation=" "),
        "null severity": setting(severity=None),
        "unknown severity": setting(severity="Critical"),
        "null aspect": setting(aspect=None),
        "unknown aspect": setting(aspect="Beauty"),
        "null placement": setting(placement=None),
        "unknown placement": setting(placement="guessed"),
        "absent and placed": setting(placement="absent"),
        "no place": setting(start=None, end=None),
        "only a start": setting(end=None),
        "one character off": errors(lambda error: error.update(start=error["start"] + 1)),
        "start behind end": errors(
            lambda error: error.update(start=error["end"], end=error["start"])
        ),
        "end behind the output": errors(lambda error: error.update(end=error["end"] + 9999)),
        "occurrence null": setting(occurrence=None),
        "occurrence zero": setting(occurrence=0),
        "ambiguity untold": setting(candidates=[0, 7], placement="exact"),
        "ambiguity invented": setting(candidates=[0], placement="first_of_several"),
        "reduction null": setting(score_reduction=None),
        "reduction negative": setting(score_reduction=-1.0),
        "free-form error without an aspect": lambda frame: setting(aspect=" ")(
            every("kind", "free_form")(frame)
        ),
        "free-form error with a null aspect": lambda frame: setting(aspect=None)(
            every("kind", "free_form")(frame)
        ),
        "reduction outside the range": errors(
            lambda error: error.update(score_reduction=error["score_reduction"] + 5)
        ),
        "points of the other severity": errors(
            lambda error: error.update(
                severity="Minor" if error["severity"] == "Major" else "Major"
            )
        ),
    },
    "provenance": {
        "null id": first("id", None),
        "short id": first("id", "abc"),
        "row twice": twice,
        "null key": first("key", None),
        "short key": first("key", "abc"),
        "null channel": first("channel", None),
        "unknown channel": first("channel", "other"),
        "null source": first("source", None),
        "source with blanks": first("source", "WMT 2021"),
        "null item": first("item", None),
        "blank item": first("item", " "),
        "null file": first("file", None),
        "blank file": first("file", ""),
        "null line": first("line", None),
        "line zero": first("line", 0),
        "null choice": first("choice", None),
        "unknown choice": first("choice", "finest"),
        "unknown metric": first("metric", "bertscore"),
        "null kind": every("kind", None),
        "unknown kind": first("kind", "copied"),
        "no models": every("models", None),
        "a model lost": lambda frame: frame.with_columns(pl.col("models").list.slice(1)),
        "null model": lambda frame: frame.with_columns(
            pl.col("models").list.eval(pl.lit(None, pl.String))
        ),
        "blank model": lambda frame: frame.with_columns(pl.col("models").list.eval(pl.lit(" "))),
        "nothing was called": lambda frame: frame.with_columns(
            pl.col("request_hashes", "prompt_ids", "prompt_hashes", "sampling").list.clear()
            if hasattr(pl.Expr.list, "clear")
            else pl.col("request_hashes", "prompt_ids", "prompt_hashes", "sampling").list.head(0)
        ),
        "a request lost": lambda frame: frame.with_columns(pl.col("request_hashes").list.slice(1)),
        "a hash lost": lambda frame: frame.with_columns(pl.col("prompt_hashes").list.slice(1)),
        "sampling lost": lambda frame: frame.with_columns(pl.col("sampling").list.slice(1)),
        "null lists": every("prompt_ids", None),
        "null requests": every("request_hashes", None),
        "null request": lambda frame: frame.with_columns(
            pl.col("request_hashes").list.eval(pl.lit(None, pl.String))
        ),
        "blank request": lambda frame: frame.with_columns(
            pl.col("request_hashes").list.eval(pl.lit(" "))
        ),
        "null prompt hash": lambda frame: frame.with_columns(
            pl.col("prompt_hashes").list.eval(pl.lit(None, pl.String))
        ),
        "short prompt hash": lambda frame: frame.with_columns(
            pl.col("prompt_hashes").list.eval(pl.lit("12"))
        ),
        "removed null": first("errors_removed", None),
        "removed negative": first("errors_removed", -1),
        "nothing asked": every("aspects_asked", []),
        "asked null": every("aspects_asked", None),
        "unknown verdict": lambda frame: frame.with_columns(
            pl.col("verdicts").list.eval(
                pl.element().struct.with_fields(pl.lit("perhaps").alias("outcome"))
            )
        ),
        "null verdict": lambda frame: frame.with_columns(
            pl.col("verdicts").list.eval(
                pl.element().struct.with_fields(pl.lit(None, pl.String).alias("outcome"))
            )
        ),
    },
    "human": {
        "null id": first("id", None),
        "short id": first("id", "abc"),
        "null key": first("key", None),
        "short key": first("key", "abc"),
        "null source": first("source", None),
        "source with blanks": first("source", "WMT 2021"),
        "null system": first("system", None),
        "blank system": first("system", " "),
        "null item": first("item", None),
        "blank item": first("item", " "),
        "null annotator": first("annotator", None),
        "blank annotator": first("annotator", " "),
        "null category": first("category", None),
        "blank category": first("category", " "),
        "null file": first("file", None),
        "blank file": first("file", " "),
        "null line": first("line", None),
        "line zero": first("line", 0),
        "unknown side": every("side", "margin"),
        "null start": every("start", None),
        "negative start": lambda frame: frame.with_columns(pl.col("start", "end") - 9999),
        "null text": every("text", None),
        "span longer than its text": lambda frame: frame.with_columns(pl.col("end") + 1),
        "no error, and yet a span": every("category", schema.NO_ERROR),
        "negative weight": lambda frame: frame.with_columns(pl.col("weight") - 100),
        "weight on another scale": lambda frame: frame.with_columns(pl.col("weight") + 100),
    },
    "rejected": {
        "null unit": first("unit", None),
        "unknown unit": first("unit", "sentence"),
        "null rule": first("rule", None),
        "rule with blanks": first("rule", "too long"),
        "null outcome": first("outcome", None),
        "unknown outcome": first("outcome", "dropped"),
        "null channel": first("channel", None),
        "unknown channel": first("channel", "other"),
        "null task": first("task", None),
        "unknown task": first("task", "poetry"),
        "null source": first("source", None),
        "source with blanks": first("source", "WMT 2021"),
        "null file": first("file", None),
        "blank file": first("file", " "),
        "null line": first("line", None),
        "line zero": first("line", 0),
        "null input rows": first("input_rows", None),
        "negative input rows": first("input_rows", -1),
        "null keys": every("key", None),
        "short keys": every("key", "abc"),
    },
    "dead": {
        "null id": first("id", None),
        "short id": first("id", "abc"),
        "null key": first("key", None),
        "short key": first("key", "abc"),
        "null channel": first("channel", None),
        "unknown channel": first("channel", "other"),
        "null task": first("task", None),
        "unknown task": first("task", "poetry"),
        "null source": first("source", None),
        "null step": first("step", None),
        "blank step": first("step", " "),
        "null class": first("error_class", None),
        "a class that a later run may better": first("error_class", "timeout"),
        "null request": first("request_hash", None),
        "blank request": first("request_hash", " "),
        "null attempts": first("attempts", None),
        "negative attempts": first("attempts", -1),
        "null input rows": first("input_rows", None),
        "negative input rows": first("input_rows", -1),
    },
    "waiting": {
        "null id": first("id", None),
        "short id": first("id", "abc"),
        "null key": first("key", None),
        "short key": first("key", "abc"),
        "null waits_for": first("waits_for", None),
        "unknown waits_for": first("waits_for", "godot"),
        "a call that can't be bettered": every("error_class", "refused"),
        "null channel": first("channel", None),
        "unknown channel": first("channel", "other"),
        "null task": first("task", None),
        "unknown task": first("task", "poetry"),
        "null source": first("source", None),
        "null input rows": first("input_rows", None),
        "negative input rows": first("input_rows", -1),
        "reasons null": every("waits_for", None),
    },
}
_ENDED = {
    "id": "a" * 16, "key": "b" * 32, "channel": "real", "task": schema.TRANSLATION,
    "source": "wmt_mqm", "split": "train", "item": "1", "system": "alder", "step": "review.v1",
    "request_hash": "c" * 64, "attempts": 1, "instruction": "Translate.", "input_context": "Ja.",
    "hypothesis": "Yes.", "input_rows": 1,
}  # fmt: skip


def ended(name: str, **values: object) -> pl.DataFrame:
    kinds = polars_schema(schema.CONFIGURATIONS[name])
    row = {column: {**_ENDED, **values}.get(column) for column in kinds}
    return pl.DataFrame([row], schema=kinds)


@pytest.fixture(scope="module")
def runner() -> SuiteRunner:
    return SuiteRunner()


@pytest.fixture(scope="module")
def good(finished: Frames) -> Frames:
    frames = {
        **finished,
        "dead": ended("dead", error_class="refused"),
        "waiting": pl.concat(
            [
                ended("waiting", waits_for="limit", step=None),
                ended("waiting", waits_for="call", error_class="timeout"),
            ]
        ),
    }
    authorship = Authorship(by_id(load_task_prompts()), {"judge": "{}"})
    made = configurations(released(finished["rows"]), frames, authorship)
    return {name: made[name].select(kinds.names) for name, kinds in schema.CONFIGURATIONS.items()}


def uncaught(suite: str, caught: set[int]) -> list[str]:
    """Return the expectations of ``suite`` that are not among the ``caught`` ones."""
    return [
        f"{one['type']} {one['kwargs']} {one['meta']['view']}"
        for index, one in enumerate(load_suite(suite)["expectations"])
        if index not in caught
    ]


@pytest.mark.parametrize("configuration", schema.CONFIGURATIONS)
def test_every_fault_is_caught_and_every_expectation_can_fail(
    runner: SuiteRunner, good: Frames, configuration: str
) -> None:
    suite = PUBLICATION.suites[configuration]
    assert failed(runner.validate(good[configuration], suite)) == set()

    caught: set[int] = set()
    for name, fault in {**COMMON, **FAULTS[configuration]}.items():
        verdict = runner.validate(fault(good[configuration]), suite)
        assert failed(verdict), f"{configuration}: {name} passes"
        if name not in WARNS:
            assert not verdict.success, f"{configuration}: {name} only warns"
        caught |= failed(verdict)

    assert not uncaught(suite, caught), "\n".join(uncaught(suite, caught))


def test_a_location_that_is_said_to_be_absent_is_no_fault(
    runner: SuiteRunner, good: Frames
) -> None:
    absent = setting(placement="absent", start=None, end=None, occurrence=None, candidates=[])
    verdict = runner.validate(absent(good["structured"]), PUBLICATION.suites["structured"])
    assert failed(verdict) == set()


def test_free_form_rows_are_asked_for_no_aspects(runner: SuiteRunner, good: Frames) -> None:
    corrupted = pl.col("kind") == "corrupted"
    free = good["provenance"].with_columns(
        pl.when(corrupted).then(pl.lit("free_form")).otherwise("kind").alias("kind"),
        pl.when(~corrupted).then("aspects_asked").alias("aspects_asked"),
    )
    assert (free["kind"] == "free_form").any()
    assert failed(runner.validate(free, PUBLICATION.suites["provenance"])) == set()


def _summary(finished: Frames, good: Frames) -> dict[str, pl.DataFrame]:
    statistics = partition_statistics(
        released(finished["rows"]),
        finished["verdicts"],
        {name: finished[name] for name in SUMS},
    )
    shards = [
        ShardRecord(name, split, 0, f"{name}/{split}", part.height, 1, f"{name} {split}", "")
        for name in schema.SPLIT_CONFIGURATIONS
        for split, part in [("train", good[name])]
        if part.height
    ]
    ledger = build_ledger(finished["counts"], PUBLICATION.stages)
    return version_tables(PUBLICATION.summarise(statistics), shards, ledger)


@pytest.fixture(scope="module")
def summary(finished: Frames, good: Frames) -> dict[str, pl.DataFrame]:
    return _summary(finished, good)


SHARES = ("major_share", "error_free_share", "real_share", "verbatim_share")
MEANS = ("errors_per_row", "words_per_output", "reduction_per_row")
VERSION_FAULTS: dict[str, TablesFault] = {
    "no version": rows("version", pl.lit(value=False)),
    "null totals": table("version", rows=pl.lit(None), errors=pl.lit(None)),
    "nothing": table("version", rows=pl.lit(0), errors=pl.lit(-1)),
    "no errors": table("version", errors=pl.lit(0)),
    "null shares": table("version", **{name: pl.lit(None, pl.Float64) for name in SHARES}),
    "shares above one": table("version", **{name: pl.lit(1.5) for name in SHARES}),
    "null means": table("version", **{name: pl.lit(None, pl.Float64) for name in MEANS}),
    "means below zero": table("version", **{name: pl.lit(-1.0) for name in MEANS}),
    "means too high": table("version", **{name: pl.lit(1e6) for name in MEANS}),
    "no splits": rows("splits", pl.lit(value=False)),
    "split lost": rows("splits", pl.col("split") != "test"),
    "unknown split": table("splits", split=pl.lit("dev")),
    "null split": table("splits", split=pl.lit(None, pl.String)),
    "rows of a split lost": table("splits", rows=pl.col("rows") - 1),
    "task lost": rows("tasks", pl.col("task") != schema.TRANSLATION),
    "channel lost": rows("channels", pl.col("value") != "real"),
    "source lost": rows("sources", pl.col("value") != "gsm8k"),
    "kind lost": rows("kinds", pl.col("value") != "real"),
    "severity lost": rows("severities", pl.col("value") != "Major"),
    "aspect lost": rows("aspects", pl.col("value") != "Fluency"),
    "placement lost": rows("placements", pl.col("value") != "exact"),
    "ledger says less": table("ledger", n=pl.col("n") - 1),
    **{
        f"shards of {name} lost": rows("shards", pl.col("configuration") != name)
        for name in schema.SPLIT_CONFIGURATIONS
    },
    "shard twice": lambda tables: {**tables, "shards": pl.concat([tables["shards"]] * 2)},
    "empty shard": table("shards", rows=pl.lit(0)),
}


def test_every_fault_of_a_version_is_caught_and_every_expectation_can_fail(
    runner: SuiteRunner, summary: dict[str, pl.DataFrame]
) -> None:
    suite = PUBLICATION.version_suite
    assert failed(runner.validate(summary, suite)) == set()

    caught: set[int] = set()
    for name, fault in VERSION_FAULTS.items():
        verdict = runner.validate(fault(summary), suite)
        assert failed(verdict), f"{name} passes"
        assert verdict.success == (name in WARNS), f"{name}: {verdict.success}"
        caught |= failed(verdict)

    assert not uncaught(suite, caught), "\n".join(uncaught(suite, caught))


def test_a_version_without_errors_is_told_and_not_refused(
    runner: SuiteRunner, finished: Frames, good: Frames
) -> None:
    rows_of = {**finished, "rows": finished["rows"].with_columns(pl.col("errors").list.head(0))}
    authorship = Authorship(by_id(load_task_prompts()), {"judge": "{}"})
    made = configurations(released(rows_of["rows"]), rows_of, authorship)
    for name in schema.SPLIT_CONFIGURATIONS:
        frame = made[name].select(schema.CONFIGURATIONS[name].names)
        if frame.height:
            assert failed(runner.validate(frame, PUBLICATION.suites[name])) == set(), name

    kept = finished["counts"].filter(pl.col("stage") != "errors")
    tables = _summary({**rows_of, "counts": kept}, good)
    verdict = runner.validate(tables, PUBLICATION.version_suite)
    assert [check.describe() for check in verdict.failures] == []
    assert [check.columns for check in verdict.warnings] == [("errors",)]


#: Rows of TIGERScore's first release, real and synthetic.
RELEASED = {
    schema.SUMMARIZATION: 4867 + 3999, schema.TRANSLATION: 5708 + 4996,
    schema.DATA_TO_TEXT: 5614 + 3000, schema.LONG_FORM_QA: 3352 + 3999,
    schema.MATH_QA: 3558 + 1999, schema.INSTRUCTION_FOLLOWING: 2248 + 4937,
}  # fmt: skip


def release(factor: float | None) -> dict[str, pl.DataFrame]:
    """Return the released statistics, each times a factor; None gives nulls."""

    def times(value: float) -> float | None:
        return None if factor is None else value * factor

    whole = sum(RELEASED.values())
    version = {
        "errors_per_row": times(1.90), "major_share": times(0.65),
        "error_free_share": times(0.115), "real_share": times(25_347 / whole),
        "tasks": times(6),
    }  # fmt: skip
    tasks = [(task, times(n / whole)) for task, n in RELEASED.items()]
    return {
        "version": pl.DataFrame([version], schema=dict.fromkeys(version, pl.Float64)),
        "tasks": pl.DataFrame(tasks, schema={"task": pl.String, "share": pl.Float64}, orient="row"),
    }


def test_the_release_itself_gives_no_warning(runner: SuiteRunner) -> None:
    verdict = runner.validate(release(1.0), PUBLICATION.release_suite)
    assert [check.describe() for check in verdict.warnings] == []


def test_every_expectation_of_the_release_can_warn_and_none_refuses(runner: SuiteRunner) -> None:
    tables = [release(factor) for factor in (0.2, 3.0, None)]
    tables.append({**release(1.0), "tasks": release(1.0)["tasks"].clear()})
    verdicts = [runner.validate(one, PUBLICATION.release_suite) for one in tables]
    assert all(verdict.success for verdict in verdicts)
    expectations = load_suite(PUBLICATION.release_suite)["expectations"]
    assert set.union(*map(failed, verdicts)) == set(range(len(expectations)))
