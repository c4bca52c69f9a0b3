"""The choice of hypotheses: which outputs of an input, and which inputs, go on to the model.

All outputs of one input meet in one partition (``schema.EXAMPLES``: ``key``), so everything here is
local to a partition. What is random is drawn from keys: the same inputs give the same choice, in
whatever order they come.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import polars as pl

from pipelines.metricinstruct.ranking import METRICS, ranked
from pipelines.metricinstruct.schema import CHOSEN, REAL, REJECTED
from pipelines.metricinstruct.sources.source import output_id
from transforms.errors import OptionError
from transforms.frames import polars_schema
from transforms.keys import fraction_of, normalise_text

BEST, MIDDLE, WORST = "best", "middle", "worst"

#: For each choice the shares of inputs that keep their best, middle and worst output; without
#: shares an input keeps all three. The choices that aren't here keep every output.
SHARES: dict[str, tuple[float, float, float] | None] = {
    "thirds": (1 / 3, 1 / 3, 1 / 3),
    "mostly_worst": (1 / 6, 1 / 6, 2 / 3),
    "best_middle_worst": None,
}
CHOICES = (*SHARES, "sample", "all")

#: One input under one source's instruction.
_INPUT = ["key", "channel", "source", "instruction"]
#: An order of examples that does not depend on how they came.
_ORDER = (*_INPUT, "system", "item", "hypothesis", "file", "line", "quality", "input_rows")


@dataclass(frozen=True)
class ChoiceSettings:
    """How hypotheses are chosen.

    Attributes:
        choices: for each source one of ``CHOICES``; ``thirds`` for those that are not named.
        metric: one of ``ranking.METRICS``, for outputs to which the data gives no quality.
        salt: another one gives another choice.

    Raises:
        OptionError: a choice or the metric is unknown.
    """

    choices: Mapping[str, str] = field(default_factory=dict)
    metric: str = "chrf"
    salt: str = ""

    def __post_init__(self) -> None:
        for source, choice in self.choices.items():
            if choice not in CHOICES:
                raise OptionError(
                    f"{source}: there is no choice {choice}; known are {', '.join(CHOICES)}"
                )
        if self.metric not in METRICS:
            raise OptionError(f"there is no metric {self.metric}; known are {', '.join(METRICS)}")


@dataclass(frozen=True)
class Choice:
    """What was chosen (columns of ``CHOSEN``) and what was not (``REJECTED``).

    ``input_rows`` of both together are those of the examples that came.
    """

    chosen: pl.DataFrame
    rejected: pl.DataFrame


def choose(
    examples: pl.DataFrame, settings: ChoiceSettings, excluded: Sequence[str] = ()
) -> Choice:
    """Choose among the outputs of each input of one partition.

    In this order, each with its rule: ``evaluation_input``, ``identical_example`` (its systems are
    listed on the row that stays), ``duplicate_id``, ``duplicate_text`` (after
    ``keys.normalise_text``), ``not_chosen``.

    Args:
        examples: the partition's examples, columns of ``EXAMPLES``.
        settings: how to choose.
        excluded: keys of evaluation inputs.
    """
    rejected: list[pl.DataFrame] = []
    first = pl.int_range(pl.len())

    def part(frame: pl.DataFrame, rule: Rule) -> pl.DataFrame:
        left, dropped = parted_examples(frame, rule)
        rejected.append(dropped)
        return left

    left = examples.sort(*_ORDER, pl.col("references").list.join("\n"), nulls_last=True)
    is_excluded = pl.col("key").is_in(list(excluded))
    left = part(left, Rule("evaluation_input", ~is_excluded, pl.col("key")))
    left = _merged(left)
    same = [*_INPUT, "hypothesis"]
    kept = pl.col("system").first().over(same)
    left = part(left, Rule("identical_example", first.over(same) == 0, kept, "duplicate"))
    left = left.with_columns(
        pl.Series("id", _ids(left), dtype=pl.String),
        pl.Series("__text", _texts(left), dtype=pl.String),
    )
    same = ["key", "channel", "id"]
    left = part(left, Rule("duplicate_id", first.over(same) == 0, pl.col("id"), "duplicate"))
    same = ["key", "channel", "__text"]
    kept = pl.col("id").first().over(same)
    left = part(left, Rule("duplicate_text", first.over(same) == 0, kept, "duplicate"))
    left = _with_choice(ranked(left, _INPUT, _by_rank(left, settings), settings.metric), settings)
    place = pl.format("{} of {}", pl.col("__place"), pl.col("outputs"))
    left = part(left, Rule("not_chosen", pl.col("choice").is_not_null(), place))
    return Choice(
        left.select(pl.col(name).cast(kind) for name, kind in CHOSEN.items()), pl.concat(rejected)
    )


@dataclass(frozen=True)
class Rule:
    """A rule that examples keep or fail.

    Attributes:
        name: of the rule.
        keeps: true for the examples that stay.
        value: what failed it, told before any example is dropped: it may name the one that stays.
        outcome: of those that fail it: rejected or duplicate.
    """

    name: str
    keeps: pl.Expr
    value: pl.Expr
    outcome: str = "rejected"


def parted_examples(examples: pl.DataFrame, rule: Rule) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the examples that keep ``rule``, and the others as rejects."""
    marked = examples.with_columns(rule.keeps.alias("__keeps"), rule.value.alias("__value"))
    left = marked.filter(pl.col("__keeps")).drop("__keeps", "__value")
    columns = {
        "unit": pl.lit("example"),
        "rule": pl.lit(rule.name),
        "value": pl.col("__value"),
        "outcome": pl.lit(rule.outcome),
        "field": pl.lit(None),
        "text": pl.coalesce("hypothesis", "input_context"),
    }
    dropped = marked.filter(~pl.col("__keeps")).select(
        columns.get(name, pl.col(name)).cast(kind).alias(name)
        for name, kind in polars_schema(REJECTED).items()
    )
    return left, dropped


def _merged(examples: pl.DataFrame) -> pl.DataFrame:
    """Return the examples with what those of the same output have together."""
    same = [*_INPUT, "hypothesis"]
    together = examples.group_by(same, maintain_order=True).agg(
        pl.col("system").drop_nulls().unique().sort().alias("systems"),
        pl.col("quality").sort().mean(),
        pl.col("references").explode(empty_as_null=False).drop_nulls().unique(maintain_order=True),
    )
    return examples.drop("quality", "references").join(
        together, on=same, how="left", nulls_equal=True, maintain_order="left"
    )


def _outputs_of(examples: pl.DataFrame) -> list[str]:
    """Return each row's output; where the model is yet to write it, the reference."""
    output = pl.coalesce("hypothesis", pl.col("references").list.get(0, null_on_oob=True))
    return examples.select(output.fill_null("").alias("output"))["output"].to_list()


def _ids(examples: pl.DataFrame) -> list[str]:
    inputs = examples.select("key", "input_context").iter_rows()
    outputs = _outputs_of(examples)
    return [
        output_id(key, input_context, output)
        for (key, input_context), output in zip(inputs, outputs, strict=True)
    ]


def _texts(examples: pl.DataFrame) -> list[str]:
    return [normalise_text(output) for output in _outputs_of(examples)]


def _by_rank(examples: pl.DataFrame, settings: ChoiceSettings) -> pl.Expr:
    """Return whether an example is one of several of which some are chosen by their rank."""
    names = examples["source"].unique().to_list()
    by_rank = [name for name in names if settings.choices.get(name, "thirds") in SHARES]
    return (pl.col("channel") == REAL) & pl.col("source").is_in(by_rank)


def _with_choice(examples: pl.DataFrame, settings: ChoiceSettings) -> pl.DataFrame:
    """Return the ranked examples with ``choice``, null where an output isn't chosen."""
    inputs = examples.select("key", "channel", "source").unique(maintain_order=True)
    wanted = []
    for key, channel, source in inputs.iter_rows():
        choice = settings.choices.get(source, "thirds")
        shares = SHARES.get(choice)
        if channel != REAL or choice not in SHARES:
            wanted.append("sampled" if choice == "sample" else "all")
        elif shares is None:
            wanted.append("each")
        else:
            drawn = fraction_of(key, f"choice{settings.salt} {source}")
            best, middle, _ = shares
            wanted.append(BEST if drawn < best else MIDDLE if drawn < best + middle else WORST)
    want, place, outputs = pl.col("__want"), pl.col("__place"), pl.col("outputs")
    places = {BEST: pl.lit(1), MIDDLE: (outputs + 1) // 2, WORST: outputs}
    chosen = [
        pl.when(want.is_in([name, "each"]) & (place == at)).then(pl.lit(name))
        for name, at in places.items()
    ]
    every = pl.when(want.is_in(["sampled", "all"])).then(want)
    inputs = inputs.with_columns(pl.Series("__want", wanted, dtype=pl.String))
    return examples.join(
        inputs, on=["key", "channel", "source"], how="left", maintain_order="left"
    ).with_columns(pl.coalesce(every, *chosen).alias("choice"))
