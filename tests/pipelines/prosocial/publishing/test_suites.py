"""Each expectation of each suite can fail: good data passes all of them, each fault fails some."""

from __future__ import annotations

import polars as pl
import pytest

from expectations.runner import load_suite
from pipelines.prosocial import schema
from pipelines.prosocial.publication import PUBLICATION
from tests.faults import COMMON, Fault, every, failed, first, rows, table, where
from transforms.ledger import build_ledger
from transforms.publishing.suites import version_tables


def blank_element(column: str, element: str | None) -> Fault:
    """Put ``element`` behind the first one of each list of the column."""
    tail = pl.lit(pl.Series([[element]], dtype=pl.List(pl.String))).first()
    return lambda frame: frame.with_columns(
        pl.concat_list(pl.col(column).list.head(1), tail, pl.col(column).list.slice(2)).alias(
            column
        )
    )


FAULTS: dict[str, dict[str, Fault]] = {
    "default": {
        "null context": first("context", None),
        "blank context": first("context", " \n\t"),
        "null response": first("response", None),
        "empty response": first("response", ""),
        "all responses null": every("response", None),
        "null label": first("safety_label", None),
        "label without underscores": first("safety_label", "casual"),
        "label against the votes": first("safety_label", schema.INTERVENTION),
        "labels in alphabetical order": lambda frame: frame.with_columns(
            pl.col("safety_label").replace(
                {schema.CAUTION: schema.POSSIBLY, schema.POSSIBLY: schema.CAUTION}
            )
        ),
        "null source": first("source", None),
        "source with blanks": first("source", "Social Bias Frames"),
        "unknown source": every("source", "forum"),
        "null dialogue_id": first("dialogue_id", None),
        "negative dialogue_id": lambda frame: frame.with_columns(pl.col("dialogue_id") - 3),
        "gap in dialogue_id": where(pl.col("dialogue_id") == 3, "dialogue_id", 9),
        "null response_id": first("response_id", None),
        "response_id too high": where(pl.col("response_id") == 2, "response_id", 3),
        "response_id from one": lambda frame: frame.with_columns(pl.col("response_id") + 1),
        "row twice": lambda frame: pl.concat([frame.head(1), frame]),
        "third row lost": lambda frame: frame.filter(pl.col("response_id") != 1),
        "one row only": lambda frame: frame.filter(
            (pl.col("dialogue_id") != 1) | (pl.col("response_id") == 0)
        ),
        "two votes": first("safety_annotations", ["casual", "casual"]),
        "four votes": first("safety_annotations", ["casual"] * 4),
        "no votes": first("safety_annotations", None),
        "unknown vote": first("safety_annotations", ["casual", "needs_caution", "casual"]),
        "null vote": blank_element("safety_annotations", None),
        "two reasons": first("safety_annotation_reasons", ["Mine.", "Ours."]),
        "no reasons": first("safety_annotation_reasons", None),
        "null reason": blank_element("safety_annotation_reasons", None),
        "blank rule-of-thumb": blank_element("rots", ""),
        "null rule-of-thumb": blank_element("rots", None),
        "empty list of rules-of-thumb": first("rots", []),
        "caution without rule-of-thumb": every("rots", None),
        "episode_done null": first("episode_done", None),
        "episode_done everywhere": every("episode_done", True),
        "episode_done nowhere": every("episode_done", False),
        "two sources in a dialogue": first("source", "sbic"),
        "intervention, then casual": lambda frame: frame.with_columns(
            pl.when(pl.col("response_id") == 0)
            .then(pl.lit(schema.INTERVENTION))
            .otherwise(pl.lit(schema.CASUAL))
            .alias("safety_label")
        ),
    },
    "provenance": {
        "null id": first("dialogue_id", None),
        "negative id": first("dialogue_id", -1),
        "null response_id": first("response_id", None),
        "response_id too high": first("response_id", 3),
        "null field": first("field", None),
        "unknown field": first("field", "reply"),
        "null key": first("key", None),
        "short key": first("key", "abc"),
        "null author": first("author", None),
        "unknown author": first("author", "gpt"),
        "null text": first("text", None),
        "blank text": first("text", " "),
        "blank raw text": first("raw_text", ""),
        "null edited": first("edited", None),
        "edited though equal": first("edited", True),
        "null model": every("model", None),
        "blank model": every("model", ""),
        "null prompt": every("prompt_id", None),
        "blank prompt": every("prompt_id", ""),
        "null prompt hash": every("prompt_hash", None),
        "short prompt hash": every("prompt_hash", "12"),
        "null request": every("request_hash", None),
        "short request": every("request_hash", "12"),
        "null sampling": every("sampling", None),
        "sampling no JSON": every("sampling", "{n: 1"),
        "crowd without annotator": every("annotator", None),
        "blank annotator": every("annotator", ""),
        "seed without raw text": lambda frame: frame.with_columns(
            author=pl.lit("seed"), raw_text=pl.lit(None, pl.String)
        ),
        "seed edited": lambda frame: frame.with_columns(author=pl.lit("seed"), edited=pl.lit(True)),
        "utterance lost": lambda frame: frame.tail(-1),
        "contexts only": every("field", "context"),
        "two keys": first("key", "0" * 32),
    },
    "annotations": {
        "null id": first("dialogue_id", None),
        "negative id": first("dialogue_id", -1),
        "null response_id": first("response_id", None),
        "response_id too high": first("response_id", 3),
        "null key": first("key", None),
        "short key": first("key", "abc"),
        "null annotator": first("annotator", None),
        "blank annotator": first("annotator", " "),
        "null author": first("author", None),
        "unknown author": first("author", "gpt"),
        "null vote": first("vote", None),
        "label as vote": first("vote", schema.CASUAL),
        "null reason": first("reason", None),
        "model without a reason": lambda frame: frame.with_columns(
            author=pl.lit("model"), reason=pl.lit(" ")
        ),
        "model without prompt": every("author", "model"),
        "model with blanks": lambda frame: frame.with_columns(
            author=pl.lit("model"),
            model=pl.lit(" "),
            prompt_id=pl.lit(" "),
            request_hash=pl.lit(" "),
        ),
        "vote lost": lambda frame: frame.tail(-1),
        "one annotator for all": every("annotator", "a1"),
    },
    "rejected": {
        "null unit": first("unit", None),
        "unknown unit": first("unit", "row"),
        "null rule": first("rule", None),
        "blank rule": first("rule", ""),
        "null outcome": first("outcome", None),
        "unknown outcome": first("outcome", "dropped"),
        "short key": first("key", "abc"),
        "negative turn": first("turn", -1),
        "null input rows": first("input_rows", None),
        "negative input rows": first("input_rows", -1),
    },
    "dead": {
        "null key": first("key", None),
        "short key": first("key", "abc"),
        "turn too high": first("turn", 3),
        "null step": first("step", None),
        "blank step": first("step", ""),
        "null class": first("error_class", None),
        "class ok": first("error_class", "ok"),
        "negative attempts": first("attempts", -1),
        "null end": first("ends_dialogue", None),
        "null source": first("source", None),
        "blank source": first("source", ""),
        "null situation": first("situation", None),
        "blank situation": first("situation", ""),
        "null input rows": first("input_rows", None),
        "negative input rows": first("input_rows", -1),
    },
    "waiting": {
        "null key": first("key", None),
        "short key": first("key", "abc"),
        "null waits_for": first("waits_for", None),
        "unknown waits_for": first("waits_for", "godot"),
        "null turn": first("turn", None),
        "turn too high": first("turn", 4),
        "null need": first("need", None),
        "has all it needs": first("have", 1),
        "null source": first("source", None),
        "blank source": first("source", ""),
        "null situation": first("situation", None),
        "blank situation": first("situation", ""),
        "null input rows": first("input_rows", None),
        "negative input rows": first("input_rows", -1),
        "dialogue twice": lambda frame: pl.concat([frame, frame]),
    },
}


@pytest.fixture(scope="module")
def good(make_dialogues):
    frames = make_dialogues({"train": 8}).frames
    dead = pl.DataFrame(
        [
            {
                "key": "a" * 32,
                "turn": 0,
                "step": "utterance.v1",
                "error_class": "refused",
                "detail": None,
                "request_hash": "1" * 64,
                "attempts": 1,
                "ends_dialogue": True,
                "source": "sbic",
                "split": "train",
                "situation": "A post.",
                "input_rows": 1,
            }
        ],
        schema=frames["dead"].schema,
    )
    return {
        name: (dead if name == "dead" else frames[name]).select(declared.names)
        for name, declared in schema.CONFIGURATIONS.items()
    }


@pytest.mark.parametrize("configuration", schema.CONFIGURATIONS)
def test_every_fault_is_caught_and_every_expectation_can_fail(runner, good, configuration):
    suite = PUBLICATION.suites[configuration]
    sound = runner.validate(good[configuration], suite)
    assert failed(sound) == set()

    caught: set[int] = set()
    for name, fault in {**COMMON, **FAULTS[configuration]}.items():
        verdict = runner.validate(fault(good[configuration]), suite)
        assert failed(verdict), f"{configuration}: {name} passes"
        assert verdict.success == (name == "unknown source"), f"{configuration}: {name}"
        caught |= failed(verdict)

    expectations = load_suite(suite)["expectations"]
    missed = [expectations[index] for index in set(range(len(expectations))) - caught]
    assert missed == []


def test_people_may_vote_without_a_reason_and_share_a_models_name(runner, good):
    crowd = good["annotations"].with_columns(author=pl.lit("crowd"), reason=pl.lit(""))
    assert failed(runner.validate(crowd, PUBLICATION.suites["annotations"])) == set()
    default = blank_element("safety_annotation_reasons", "")(good["default"])
    assert failed(runner.validate(default, PUBLICATION.suites["default"])) == set()

    place = pl.int_range(pl.len()) % schema.VOTES_PER_TURN
    alike = good["annotations"].with_columns(
        author=pl.when(place == 0).then(pl.lit("crowd")).otherwise(pl.lit("model")),
        annotator=pl.when(place < 2).then(pl.lit("a")).otherwise(pl.lit("b")),
        model=pl.lit("m"),
        prompt_id=pl.lit("vote.v1"),
        request_hash=pl.lit("1" * 64),
    )
    assert failed(runner.validate(alike, PUBLICATION.suites["annotations"])) == set()


@pytest.fixture(scope="module")
def summary(make_dialogues, write, tmp_path_factory):
    dialogues = make_dialogues({"train": 8, "validation": 4, "test": 4})
    written = write(dialogues, str(tmp_path_factory.mktemp("version")))
    tables = PUBLICATION.summarise(written.statistics)
    return version_tables(tables, written.shards, build_ledger(written.counts, PUBLICATION.stages))


VERSION_FAULTS = {
    "no version": rows("version", pl.lit(False)),
    "null totals": table("version", dialogues=pl.lit(None), rows=pl.lit(None)),
    "nothing": table("version", dialogues=pl.lit(0), rows=pl.lit(0)),
    "too few rows": table("version", rows=pl.lit(3)),
    "odd utterances": table("version", utterances=pl.col("utterances") + 1),
    "votes lost": table("version", annotations=pl.col("annotations") - 1),
    "no words": table("version", words_per_utterance=pl.lit(None)),
    "less than a word": table(
        "version", words_per_utterance=pl.lit(0.5), words_per_rot=pl.lit(0.0)
    ),
    "long texts": table("version", words_per_utterance=pl.lit(900.0), words_per_rot=pl.lit(900.0)),
    "alpha above one": table("version", alpha=pl.lit(1.5)),
    "null share": table("version", two_turn_share=pl.lit(None, pl.Float64)),
    "share above one": table("version", two_turn_share=pl.lit(1.5)),
    "split lost": rows("splits", pl.col("split") != "test"),
    "unknown split": table("splits", split=pl.lit("dev")),
    "gap in ids": table("splits", id_breaks=pl.lit(1)),
    "ids uncounted": table("splits", id_breaks=pl.lit(None)),
    "label lost": rows("labels", pl.col("value") != schema.CASUAL),
    "source lost": rows("sources", pl.col("value") != schema.SBIC),
    "first turn lost": table("turn_labels", response_id=pl.col("response_id") + 1),
    "ledger says less": table("ledger", n=pl.col("n") - 1),
    "shards of votes lost": rows("shards", pl.col("configuration") != "annotations"),
    "shards of utterances lost": rows("shards", pl.col("configuration") != "provenance"),
    "shard twice": lambda tables: {**tables, "shards": pl.concat([tables["shards"]] * 2)},
    "no default shards": rows("shards", pl.col("configuration") != "default"),
    "empty shard": table("shards", rows=pl.lit(0)),
}


def test_every_fault_of_a_version_is_caught_and_every_expectation_can_fail(runner, summary):
    suite = PUBLICATION.version_suite
    assert failed(runner.validate(summary, suite)) == set()

    caught: set[int] = set()
    for name, fault in VERSION_FAULTS.items():
        verdict = runner.validate(fault(summary), suite)
        assert failed(verdict), f"{name} passes"
        assert verdict.success == (name == "long texts"), f"{name}: {verdict.success}"
        caught |= failed(verdict)

    expectations = load_suite(suite)["expectations"]
    missed = [expectations[index] for index in set(range(len(expectations))) - caught]
    assert missed == []


#: Statistics of the release, from the paper; labels in the order of ``schema.LABELS``.
RELEASED = {
    "version": [
        {
            "dialogues": 58_137,
            "rows": 165_681,
            "rots": 217_321,
            "two_turn_share": 0.15,
            "words_per_utterance": 20.0,
            "words_per_rot": 9.5,
            "alpha": 0.49,
            "new_rot_share": 0.6,
            "distinct_rot_share": 160_295 / 217_321,
        }
    ],
    "labels": (0.17, 0.13, 0.15, 0.42, 0.13),
    "turn_labels": (
        (0.19, 0.14, 0.14, 0.42, 0.12),
        (0.15, 0.13, 0.15, 0.45, 0.13),
        (0.16, 0.13, 0.16, 0.41, 0.14),
    ),
    "sources": {"socialchemistry": 0.62, "sbic": 0.21, "ethics_amt": 0.1, "ethics_reddit": 0.07},
}


def released(factor: float | None = 1.0) -> dict[str, pl.DataFrame]:
    def times(share: float) -> float | None:
        return None if factor is None else share * factor

    version = RELEASED["version"][0]
    return {
        "version": pl.DataFrame(
            [
                {
                    name: value if name in ("dialogues", "rows") else times(value)
                    for name, value in version.items()
                }
            ],
            schema=dict.fromkeys(version, pl.Float64),
        ),
        "labels": pl.DataFrame(
            [
                (label, times(share))
                for label, share in zip(schema.LABELS, RELEASED["labels"], strict=True)
            ],
            schema={"value": pl.String, "share": pl.Float64},
            orient="row",
        ),
        "turn_labels": pl.DataFrame(
            [
                (turn, label, times(share))
                for turn, shares in enumerate(RELEASED["turn_labels"])
                for label, share in zip(schema.LABELS, shares, strict=True)
            ],
            schema={"response_id": pl.Int64, "value": pl.String, "share": pl.Float64},
            orient="row",
        ),
        "sources": pl.DataFrame(
            [(source, times(share)) for source, share in RELEASED["sources"].items()],
            schema={"value": pl.String, "share": pl.Float64},
            orient="row",
        ),
    }


def test_the_release_itself_gives_no_warning(runner):
    verdict = runner.validate(released(), PUBLICATION.release_suite)

    assert [check.describe() for check in verdict.warnings] == []
    assert verdict.success


def test_every_expectation_of_the_release_can_warn_and_none_refuses(runner):
    verdicts = [
        runner.validate(released(factor), PUBLICATION.release_suite) for factor in (0.2, 2.5, None)
    ]

    assert all(verdict.success for verdict in verdicts)
    expectations = load_suite(PUBLICATION.release_suite)["expectations"]
    assert set.union(*map(failed, verdicts)) == set(range(len(expectations)))
