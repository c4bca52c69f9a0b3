"""A small set of finished dialogues, and a way to publish it, for the tests of publishing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import polars as pl
import pytest

from expectations.runner import SuiteRunner, Verdict
from pipelines.prosocial import schema
from pipelines.prosocial.publication import PUBLICATION
from pipelines.prosocial.statistics import merge_statistics, partition_statistics
from transforms.filters import FUNNEL
from transforms.frames import polars_schema
from transforms.keys import content_key
from transforms.ledger import COUNTS
from transforms.publishing.publication import Run
from transforms.publishing.publish import PublishResult, publish
from transforms.publishing.shards import ShardRecord, write_shard
from transforms.publishing.versions import claim_version, dataset_path, open_dataset

PARTITIONS = 2
NO_FUNNEL = pl.DataFrame(schema=dict(FUNNEL))
VOTES = (
    ("casual", "casual", "casual"),
    ("needs caution", "casual", "casual"),
    ("needs caution", "needs caution", "casual"),
    ("needs caution", "needs caution", "needs caution"),
    ("casual", "needs intervention", "needs caution"),
)
RUN = Run(
    run_id="r1",
    created="2026-01-01T00:00:00+00:00",
    code_version="0.1.0",
    partitions=PARTITIONS,
    models=("a-model",),
    prompts={"utterance.v1": "0" * 64},
)


@dataclass
class Dialogues:
    """Finished dialogues: turns with ``dialogue_id`` and ``partition``, and their crowd's rows."""

    turns: pl.DataFrame
    responses: pl.DataFrame
    votes: pl.DataFrame
    frames: dict[str, pl.DataFrame] = field(default_factory=dict)

    def rows(self, configuration: str, split: str, partition: int) -> pl.DataFrame:
        """Return the rows of one shard, sorted."""
        frame = self.frames[configuration]
        if configuration in schema.SPLIT_CONFIGURATIONS:
            return frame.filter(split=split, partition=partition)
        return frame if partition == 0 else frame.clear()


@dataclass
class Written:
    """What the last step of a run has in hand before it publishes."""

    shards: list[ShardRecord]
    verdicts: list[Verdict]
    counts: pl.DataFrame
    statistics: pl.DataFrame


def build_dialogues(per_split: dict[str, int]) -> Dialogues:
    """Return so many dialogues of each split, the earlier half of them in partition 0."""
    turns = [
        turn
        for split, dialogues in per_split.items()
        for number in range(dialogues)
        for turn in build_turns(split, number, partition=int(number >= dialogues // 2))
    ]
    placed = {**schema.TURNS, "dialogue_id": pl.Int64, "partition": pl.Int64}
    frame = pl.DataFrame(turns, schema=placed).with_columns(
        response_id=pl.col("turn").cast(pl.Int64)
    )
    votes = frame.select(
        "key", "turn", "split", "partition", "dialogue_id", "response_id",
        author=pl.lit("crowd"), vote="safety_annotations", reason="safety_annotation_reasons",
        annotator=pl.lit(["a1", "a2", "a3"]), model=pl.lit(None, pl.String),
        prompt_id=pl.lit(None, pl.String), request_hash=pl.lit(None, pl.String),
    ).explode("vote", "reason", "annotator")  # fmt: skip
    frames = {
        "default": frame.select(*schema.RELEASED.names, "split", "partition"),
        "provenance": build_provenance(frame),
        "annotations": votes,
        "rejected": build_row(
            "rejected", unit="seed_row", rule="not_char_0", value="char-1", outcome="rejected",
            file="seeds.csv", line=2, input_rows=1,
        ),
        "dead": pl.DataFrame(schema=polars_schema(schema.DEAD)),
        "waiting": build_row(
            "waiting", key=content_key("x"), waits_for="response", turn=1, have=0, need=1,
            source="sbic", split="train", situation="A post.", utterances=["A post."], rots=[],
            input_rows=1,
        ),
    }  # fmt: skip
    return Dialogues(frame, build_responses(frame), votes, frames)


def build_turns(split: str, number: int, partition: int) -> list[dict[str, object]]:
    """Return one dialogue's turns: two of every fourth dialogue, else three."""
    kind = number % 4
    length = 2 if kind == 0 else 3
    return [
        {
            "key": content_key(f"{split} {number}"),
            "turn": turn,
            "split": split,
            "source": schema.SOURCES[kind],
            "etc": "",
            "context": f"I took {number + 2} biscuits of the {split} team, time {turn}.",
            "response": f"Why not ask the {number + 2} people they belong to? ({turn})",
            "response_author": "crowd" if turn else "drafted",
            "rots": None if kind == 0 else ["It's kind to ask.", f"It's good to share {number}."],
            "safety_label": schema.LABELS[kind],
            "safety_annotations": list(VOTES[kind]),
            "safety_annotation_reasons": ["Mine.", "Ours.", "Theirs."],
            "episode_done": turn == length - 1,
            "input_rows": 1,
            "dialogue_id": number,
            "partition": partition,
        }
        for turn in range(length)
    ]


def build_responses(turns: pl.DataFrame) -> pl.DataFrame:
    """Return the workers' responses, to each of whom one rule-of-thumb was shown."""
    own = {
        name: pl.col(name) if name in turns.columns else pl.lit(None, dtype=kind)
        for name, kind in schema.RESPONSES.items()
    }
    shown = {"annotator": pl.lit("w1"), "candidates": pl.lit(["It's kind to ask."])}
    return turns.filter(pl.col("turn") > 0).select(**{**own, **shown})


def build_provenance(turns: pl.DataFrame) -> pl.DataFrame:
    """Return the utterances: contexts by a model, responses by the crowd."""
    nothing = pl.lit(None, pl.String)
    context = turns.with_columns(
        field=pl.lit("context"), author=pl.lit("model"), text="context", raw_text="context",
        annotator=nothing, model=pl.lit("a-model"), prompt_id=pl.lit("utterance.v1"),
        prompt_hash=pl.lit("0" * 64), request_hash=pl.lit("1" * 64), sampling=pl.lit('{"n": 1}'),
    )  # fmt: skip
    response = context.with_columns(
        field=pl.lit("response"), author=pl.lit("crowd"), text="response", raw_text=nothing,
        annotator=pl.lit("a1"), model=nothing, prompt_id=nothing, prompt_hash=nothing,
        request_hash=nothing, sampling=nothing,
    )  # fmt: skip
    return (
        pl.concat([context, response])
        .with_columns(edited=pl.lit(False))
        .sort("dialogue_id", "response_id", "field")
        .select(*schema.PROVENANCE.names, "split", "partition")
    )


def build_row(configuration: str, **values: object) -> pl.DataFrame:
    """Return one row of ``configuration``; what is not given is null."""
    kinds = polars_schema(schema.CONFIGURATIONS[configuration])
    return pl.DataFrame([{name: values.get(name) for name in kinds}], schema=kinds)


def build_counts(turns: pl.DataFrame) -> pl.DataFrame:
    """Return the counts of a run in which everything was published."""
    sums = {"dialogues": turns["key"].n_unique(), "turns": turns.height}
    rows = [
        (stage, side, outcome, "", n)
        for stage, n in sums.items()
        for side, outcome in (("in", ""), ("out", "published"))
    ]
    return pl.DataFrame(rows, schema=dict(COUNTS), orient="row")


def write_dialogues(dialogues: Dialogues, path: str, runner: SuiteRunner) -> Written:
    """Write all shards of ``dialogues`` to the version at ``path`` and judge them."""
    shards, verdicts = [], []
    for configuration, declared in schema.CONFIGURATIONS.items():
        for split in PUBLICATION.splits_of(configuration):
            for partition in range(PARTITIONS):
                rows = dialogues.rows(configuration, split, partition)
                if rows.height == 0:
                    continue
                shard = write_shard(
                    rows, declared, path, configuration=configuration, split=split,
                    partition=partition, partitions=PARTITIONS,
                )  # fmt: skip
                suite = PUBLICATION.suites[configuration]
                shards.append(shard)
                verdicts.append(
                    runner.validate(rows.select(declared.names), suite, subject=shard.path)
                )
    statistics = [
        partition_statistics(
            dialogues.turns.filter(partition=partition), dialogues.responses, dialogues.votes
        )
        for partition in range(PARTITIONS)
    ]
    return Written(shards, verdicts, build_counts(dialogues.turns), merge_statistics(statistics))


@pytest.fixture(scope="session")
def runner() -> SuiteRunner:
    """Return a runner of suites; making the first one takes seconds."""
    return SuiteRunner()


@pytest.fixture(scope="session")
def make_dialogues() -> Callable[[dict[str, int]], Dialogues]:
    """Return ``build_dialogues``."""
    return build_dialogues


@pytest.fixture(scope="session")
def write(runner: SuiteRunner) -> Callable[[Dialogues, str], Written]:
    """Return a function that writes dialogues to a version's directory and judges the shards."""
    return lambda dialogues, path: write_dialogues(dialogues, path, runner)


@pytest.fixture(scope="session")
def publish_dialogues(runner: SuiteRunner) -> Callable[[Path, Dialogues], PublishResult]:
    """Return a function that publishes dialogues as the next version below an output."""

    def run(output: Path, dialogues: Dialogues) -> PublishResult:
        path = dataset_path(str(output), "prosocial")
        open_dataset(path, "prosocial", {"partitions": PARTITIONS}, {})
        version = claim_version(path)
        written = write_dialogues(dialogues, version.path, runner)
        return publish(
            version, PUBLICATION, RUN, written.shards, written.verdicts, written.counts,
            written.statistics, NO_FUNNEL,
        )  # fmt: skip

    return run
