from __future__ import annotations

from collections.abc import Callable
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import settings as limits
from hypothesis import strategies as st

from pipelines.metricinstruct.choice import (
    CHOICES,
    ChoiceSettings,
    choose,
)
from pipelines.metricinstruct.ranking import METRICS
from pipelines.metricinstruct.sampling import sample, sampling_fractions, sampling_thresholds
from pipelines.metricinstruct.schema import (
    CHOSEN,
    EXAMPLES,
    HUMAN_ERRORS,
    INSTRUCTION_FOLLOWING,
    REAL,
    REJECTED,
    SYNTHETIC,
)
from pipelines.metricinstruct.sources.reading import SourceFile, read_source_file
from pipelines.metricinstruct.sources.registry import DEFAULT_CHOICES, SOURCES
from pipelines.metricinstruct.sources.source import source_key
from transforms.errors import OptionError
from transforms.frames import concat, polars_schema

SOURCE = "mine"


def example(**fields: Any) -> dict[str, Any]:
    """Return an example of which only some fields matter."""
    row: dict[str, Any] = dict.fromkeys(EXAMPLES)
    row |= {"channel": REAL, "task": "mathQA", "source": SOURCE, "instruction": "Add."}
    row |= {"input_context": "2 + 2", "references": ["4"], "hypothesis": "4", "system": "a"}
    row |= {"file": "f", "line": 1, "input_rows": 1, **fields}
    row["key"] = source_key(row["task"], row["instruction"], row["input_context"])
    return row


def frame(*rows: dict[str, Any]) -> pl.DataFrame:
    return pl.DataFrame(list(rows), schema=dict(EXAMPLES))


def settings(choice: str, **others: Any) -> ChoiceSettings:
    return ChoiceSettings({SOURCE: choice}, **others)


def outputs(count: int, inputs: int = 1, **fields: Any) -> pl.DataFrame:
    """Return ``inputs`` inputs with ``count`` outputs each, of which s0 is the best."""
    return frame(
        *(
            example(
                input_context=f"{n} + 1",
                hypothesis=f"{n} {rank}",
                system=f"s{rank}",
                quality=-float(rank),
                **fields,
            )
            for n in range(inputs)
            for rank in range(count)
        )
    )


@pytest.mark.parametrize(
    ("choice", "shares"), [("thirds", (1, 1, 1)), ("mostly_worst", (0.5, 0.5, 2))]
)
def test_inputs_go_to_shares_that_keep_one_output(choice, shares):
    chosen = choose(outputs(5, inputs=600), settings(choice)).chosen
    assert chosen["key"].n_unique() == chosen.height == 600
    by_choice = dict(chosen.group_by("choice").len().iter_rows())
    for name, share in zip(("best", "middle", "worst"), shares, strict=True):
        assert abs(by_choice[name] - 200 * share) < 50
    ranks = dict(chosen.group_by("choice").agg(pl.col("system").unique()).iter_rows())
    assert ranks == {"best": ["s0"], "middle": ["s2"], "worst": ["s4"]}


@pytest.mark.parametrize(
    ("count", "kept"),
    [(1, ["s0"]), (2, ["s0", "s1"]), (3, ["s0", "s1", "s2"]), (6, ["s0", "s2", "s5"])],
)
def test_best_middle_and_worst_of_one_input(count, kept):
    result = choose(outputs(count), settings("best_middle_worst"))
    assert sorted(result.chosen["system"]) == kept
    assert result.rejected["rule"].to_list() == ["not_chosen"] * (count - len(kept))


def test_what_is_not_chosen_tells_its_rank():
    result = choose(outputs(4), settings("best_middle_worst"))
    assert result.rejected.select("system", "value").rows() == [("s2", "3 of 4")]


@pytest.mark.parametrize("choice", ["sample", "all"])
def test_every_output_stays_where_none_is_chosen(choice):
    assert choose(outputs(4), settings(choice)).chosen.height == 4


@pytest.mark.parametrize("metric", METRICS)
def test_a_metric_ranks_where_the_data_has_no_quality(metric):
    texts = ["The mill was sold on Monday.", "The mill was sold.", "No idea at all."]
    rows = [
        example(hypothesis=text, references=["It is 4.", texts[0]], system=f"s{n}")
        for n, text in enumerate(texts)
    ]
    chosen = choose(frame(*rows), settings("best_middle_worst", metric=metric)).chosen
    assert chosen.sort("rank").select("system", "choice", "metric").rows() == [
        ("s0", "best", metric),
        ("s1", "middle", metric),
        ("s2", "worst", metric),
    ]


def test_a_quality_that_some_outputs_lack_does_not_rank():
    rows = [example(hypothesis="4", quality=-1.0), example(hypothesis="5 or so", system="b")]
    chosen = choose(frame(*rows), settings("best_middle_worst")).chosen
    assert chosen.sort("rank").select("hypothesis", "metric").rows() == [
        ("4", "chrf"),
        ("5 or so", "chrf"),
    ]


def test_without_quality_and_references_the_place_is_drawn():
    rows = [example(hypothesis=f"{n}", references=[], system=f"s{n}") for n in range(3)]
    chosen = choose(frame(*rows), settings("best_middle_worst")).chosen
    assert chosen.height == 3
    assert chosen["metric"].null_count() == chosen["rank"].null_count() == 3


def test_identical_outputs_merge_and_name_their_systems():
    rows = [
        example(system="b", quality=1.0, references=["4"]),
        example(system="a", quality=0.0, references=["four"]),
        example(system="c", hypothesis="5", quality=0.0),
    ]
    result = choose(frame(*rows), settings("all"))
    chosen = result.chosen.sort("system")
    assert chosen.select("system", "systems", "quality", "references").rows() == [
        ("a", ["a", "b"], 0.5, ["four", "4"]),
        ("c", ["c"], 0.0, ["4"]),
    ]
    assert result.rejected.select("rule", "outcome", "value", "system").rows() == [
        ("identical_example", "duplicate", "a", "b")
    ]


def test_the_same_input_twice_is_one_with_both_references():
    rows = [
        example(channel=SYNTHETIC, hypothesis=None, system=None, references=[text], line=line)
        for line, text in enumerate(("4", "four"), 1)
    ]
    result = choose(frame(*rows), settings("thirds"))
    assert result.chosen.select("references", "systems", "choice").rows() == [
        (["4", "four"], [], "all")
    ]
    assert result.rejected["line"].to_list() == [2]


def test_duplicates_by_id_and_by_normalised_text():
    rows = [
        example(source="one", instruction="Add."),
        example(source="two", instruction="Sum up.", system="z"),
        example(source="one", hypothesis=" Four  YES", system="b"),
        example(source="one", hypothesis="four yes", system="c"),
        example(source="one", channel=SYNTHETIC, hypothesis=None, system=None),
    ]
    result = choose(frame(*rows), ChoiceSettings({"one": "all", "two": "all"}))
    assert sorted(result.rejected.select("rule", "source", "system").rows()) == [
        ("duplicate_id", "two", "z"),
        ("duplicate_text", "one", "c"),
    ]
    assert result.chosen.height == 3


def test_ids_are_of_key_input_and_output():
    (identity,) = choose(frame(example()), settings("all")).chosen["id"]
    # key=$(printf '2 + 2' | sha256sum | head -c 32); printf '%s5:2 + 24' $key | sha256sum
    assert identity == "d3c4a26b81010047"


@pytest.mark.parametrize(
    ("changes", "others"),
    [
        ({"task": INSTRUCTION_FOLLOWING}, {"instruction": "Sum up."}),
        ({"input_context": " "}, {"instruction": "Sum up."}),
        ({}, {"input_context": "2 + ", "hypothesis": "24"}),
    ],
)
def test_outputs_of_two_inputs_have_two_ids(changes, others):
    rows = [example(**changes), example(**changes, **others)]
    assert choose(frame(*rows), settings("all")).chosen["id"].n_unique() == 2


def test_evaluation_inputs_are_left_out():
    given = outputs(2, inputs=3)
    key = given["key"][2]
    result = choose(given, settings("all"), [key])
    assert result.rejected.select("rule", "value").unique().rows() == [("evaluation_input", key)]
    assert result.chosen.height == 4


@pytest.mark.parametrize("choice", ["sample", "thirds"])
def test_a_sample_has_the_size_asked_for(choice):
    given = pl.concat([outputs(3, 50, stratum="en-de"), outputs(1, 4, stratum="en-ru")])
    how = settings(choice)
    chosen = choose(given, how).chosen
    halves = [chosen.filter(pl.col("key") < "8"), chosen.filter(pl.col("key") >= "8")]
    fractions = pl.concat(sampling_fractions(half, how) for half in halves)
    thresholds = sampling_thresholds(fractions, 20)
    assert thresholds["stratum"].to_list() == ["en-de"]
    samples = [sample(half, thresholds, how) for half in halves]
    kept = pl.concat(part.chosen for part in samples)
    assert dict(kept.group_by("stratum").len().iter_rows())["en-de"] == 20
    dropped = pl.concat(part.rejected for part in samples)
    assert dropped["rule"].unique().to_list() == ["not_sampled"]
    assert kept.height + dropped.height == chosen.height


def test_another_salt_gives_another_choice():
    given = outputs(3, inputs=50)
    first, second = (choose(given, settings("thirds", salt=salt)).chosen for salt in ("", "x"))
    assert not first["choice"].equals(second["choice"])


def test_a_choice_or_metric_that_is_unknown_is_refused():
    with pytest.raises(OptionError, match=r"mine: there is no choice third;.*thirds"):
        settings("third")
    with pytest.raises(OptionError, match=r"no metric meteor; known are chrf"):
        settings("thirds", metric="meteor")


def test_nothing_gives_nothing():
    result = choose(frame(), settings("thirds"))
    assert result.chosen.schema == pl.Schema(dict(CHOSEN))
    assert result.rejected.schema == pl.Schema(polars_schema(REJECTED))
    assert result.chosen.is_empty()
    assert result.rejected.is_empty()


ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "source": st.sampled_from(["one", "two"]),
            "channel": st.sampled_from([REAL, SYNTHETIC]),
            "input_context": st.sampled_from(["1 + 1", "2 + 2", ""]),
            "hypothesis": st.sampled_from(["4", "four", "FOUR", "five"]),
            "references": st.sampled_from([[], ["4"], ["four", "4"]]),
            "system": st.sampled_from(["a", "b", "c"]),
            "quality": st.sampled_from([None, 0.0, 1.0]),
            "line": st.integers(1, 5),
            "input_rows": st.integers(0, 2),
        }
    ),
    max_size=12,
)


def made(rows: list[dict[str, Any]]) -> pl.DataFrame:
    synthetic = {"hypothesis": None, "system": None, "quality": None}
    return frame(*(example(**(r | synthetic if r["channel"] == SYNTHETIC else r)) for r in rows))


@limits(deadline=None)
@given(rows=ROWS, one=st.sampled_from(CHOICES), two=st.sampled_from(CHOICES), data=st.data())
def test_every_row_is_chosen_or_rejected_whatever_the_order(rows, one, two, data):
    how = ChoiceSettings({"one": one, "two": two})
    given_rows = made(rows)
    result = choose(given_rows, how)
    assert result.chosen.height + result.rejected.height == given_rows.height
    ends = result.chosen["input_rows"].sum() + result.rejected["input_rows"].sum()
    assert ends == given_rows["input_rows"].sum()
    shuffled = choose(made(data.draw(st.permutations(rows))), how)
    assert shuffled.chosen.equals(result.chosen)
    assert shuffled.rejected.equals(result.rejected)
    assert not result.chosen.select("channel", "id").is_duplicated().any()
    inputs = ["key", "channel", "source", "instruction"]
    assert set(result.chosen.select(inputs).rows()) <= set(given_rows.select(inputs).rows())
    for source, choice in how.choices.items():
        if choice in ("thirds", "mostly_worst"):
            real = result.chosen.filter((pl.col("source") == source) & (pl.col("channel") == REAL))
            assert not real.select(inputs).is_duplicated().any()


def read(path: str, name: str, channel: str) -> dict[str, pl.DataFrame]:
    chunks = list(read_source_file(SourceFile(name, channel, path), SOURCES[name]))
    schemas = {"examples": EXAMPLES, "human_errors": HUMAN_ERRORS}
    return {
        name: concat((frame for label, frame in chunks if label == name), schema)
        for name, schema in schemas.items()
    }


def test_real_translations_merge_and_keep_their_annotations(
    shared_data: Callable[[str], Any],
) -> None:
    frames = read(str(shared_data("wmt_mqm/mqm_ted_ende.tsv.gz")), "wmt_mqm", REAL)
    given_rows = frames["examples"]
    result = choose(given_rows, ChoiceSettings(DEFAULT_CHOICES))
    rules = dict(result.rejected.group_by("rule").len().iter_rows())
    distinct = given_rows.select("key", "hypothesis").unique().height
    assert distinct == given_rows.height - rules["identical_example"]
    assert result.chosen.height == distinct - rules["duplicate_text"]
    # Annotations of all systems that gave an output are found by the output's id.
    annotated = result.chosen.join(frames["human_errors"], on="id", how="semi")
    assert annotated.height == result.chosen.height


def test_right_solutions_rank_before_wrong_ones(shared_data: Callable[[str], Any]) -> None:
    path = shared_data("gsm8k_model_solutions/example_model_solutions.jsonl.gz")
    given_rows = read(str(path), "gsm8k", REAL)["examples"]
    result = choose(given_rows, ChoiceSettings(DEFAULT_CHOICES))
    chosen = result.chosen
    assert chosen.height == chosen["key"].n_unique() == 1319
    assert chosen["metric"].unique().to_list() == ["given"]
    share = dict(chosen.group_by("choice").agg(pl.col("quality").mean()).iter_rows())
    assert share["best"] > share["middle"] > share["worst"]
