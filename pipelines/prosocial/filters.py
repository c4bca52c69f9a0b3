"""The filters of ProsocialDialog: which turns are at fault, and what becomes of their dialogues.

Thresholds and levels stand in filters.yaml. A post of SBIC that is its dialogue's first utterance
is a seed, taken as it is: filters against a model's slips leave it alone.
"""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from pipelines.prosocial import schema
from pipelines.prosocial.faults import FAULTS, sift
from pipelines.prosocial.filter_settings import FilterSettings
from transforms import text as measures
from transforms.filter_settings import Rule
from transforms.filters import Filter, apply, funnel

_TEXT = pl.col("text")
_IS_RESPONSE = pl.col("field") == "response"
_JUDGEMENT = (
    r"(?i)\b(?:should\w*|must\w*|ought|never|always|ok|okay|wrong|right|good|bad|rude|fine|is|are|"
    r"isn't|aren't|it's|be|was|have to|need to|allowed|free to|encouraged|appreciate\w*)\b"
)


@dataclass(frozen=True)
class Filtered:
    """Turns that passed, and what became of the others.

    Attributes:
        turns: schema ``TURNS``; ``episode_done`` moved where a third row was cut.
        rejected: schema ``REJECTED``, see ``faults.sift``.
        counts: stages ``filters.dialogues`` and ``filters.turns``.
        funnel: schema ``transforms.filters.FUNNEL``: every filter's count, warnings included.
    """

    turns: pl.DataFrame
    rejected: pl.DataFrame
    counts: pl.DataFrame
    funnel: pl.DataFrame


def filter_turns(turns: pl.DataFrame, settings: FilterSettings) -> Filtered:
    """Apply all filters to complete dialogues; see ``duplicates`` for what needs the whole set.

    Args:
        turns: schema ``TURNS``.
        settings: see ``filter_settings.load_filters``.
    """
    rules = prosocial_filters(settings)
    verdicts = apply(rules, tables(turns, settings))
    faults = verdicts.filter(pl.col("level") == "error").select(list(FAULTS))
    sifted = sift(turns, faults, "filters", "rejected")
    return Filtered(sifted.turns, sifted.rejected, sifted.counts, funnel(rules, verdicts))


def tables(turns: pl.DataFrame, settings: FilterSettings) -> dict[str, pl.DataFrame]:
    """Return the tables the filters look at: ``utterance``, ``rot`` and ``turn``.

    All hold ``key``, ``turn``, ``field`` and ``text``; what several filters need, or what no single
    expression gives, is computed here once.
    """
    spoken = turns.sort("key", "turn").with_columns(
        measures.words(pl.col("context")).alias("context_words"),
        measures.words(pl.col("response")).alias("response_words"),
    )
    return {
        "utterance": _utterances(spoken, settings),
        "rot": turns.select("key", "turn", pl.lit("rots").alias("field"), pl.col("rots"))
        .explode("rots")
        .drop_nulls("rots")
        .rename({"rots": "text"})
        .with_columns(measures.words(_TEXT).list.len().alias("words")),
        "turn": _turns(spoken),
    }


def _utterances(spoken: pl.DataFrame, settings: FilterSettings) -> pl.DataFrame:
    plain = pl.concat_list(
        pl.col("context_words").list.join(" "), pl.col("response_words").list.join(" ")
    )
    in_order = spoken.select("key", plain.alias("plain")).explode("plain")
    again = _said_before(in_order)
    frames = []
    for offset, field in enumerate(("context", "response")):
        verbatim = (pl.col("source") == schema.SBIC) & (pl.col("turn") == 0)
        frames.append(
            spoken.select(
                "key",
                "turn",
                pl.lit(field).alias("field"),
                pl.col(field).alias("text"),
                pl.col(f"{field}_words").alias("words"),
                (verbatim if field == "context" else pl.lit(False)).alias("verbatim"),
                (pl.col("response_author") != "drafted").alias("by_worker"),
                again.gather_every(2, offset).alias("said_before"),
            )
        )
    utterances = pl.concat(frames)
    ngram = settings.repeated_ngram
    return utterances.with_columns(
        measures.repeated_ngram(utterances["words"], ngram.words, ngram.times).alias("ngram"),
        measures.foreign(
            utterances["text"], utterances["words"], settings.foreign_language.min_words
        ).alias("foreign"),
    )


def _said_before(in_order: pl.DataFrame) -> pl.Series:
    first = pl.struct("key", "plain").is_first_distinct()
    return in_order.select(~first & (pl.col("plain") != "")).to_series()


def _turns(spoken: pl.DataFrame) -> pl.DataFrame:
    ours, theirs = pl.col("response_words"), pl.col("context_words")
    distinct = ours.list.n_unique() + theirs.list.n_unique()
    counted = spoken.with_columns(
        ours.list.set_intersection(theirs).list.len().alias("common"), distinct.alias("distinct")
    )
    common, either = pl.col("common"), pl.col("distinct") - pl.col("common")
    intervention = pl.col("safety_label") == schema.INTERVENTION
    return counted.with_columns(
        pl.when(either > 0).then(common / either).alias("similarity"),
        pl.when(intervention).then("turn").min().over("key").alias("intervention_turn"),
        pl.col("context").alias("text"),
    )


def prosocial_filters(settings: FilterSettings) -> tuple[Filter, ...]:
    """Return the filters in the order of filters.yaml."""
    by_name = {
        rule.name: rule
        for rule in (
            *_utterance_filters(settings),
            *_rot_filters(settings),
            *_turn_filters(settings),
        )
    }
    return tuple(by_name[name] for name in FilterSettings.model_fields)


def _utterance_filters(settings: FilterSettings) -> list[Filter]:
    def utterance(name: str, rule: Rule, fails: pl.Expr, value: pl.Expr) -> Filter:
        return Filter(name, "utterance", fails, value, rule.level)

    words = pl.col("words").list.len()
    blank = ~_TEXT.str.contains(measures.SAYS_SOMETHING).fill_null(False)
    characters = _TEXT.str.len_chars()
    drafted = ~pl.col("verbatim")
    sentences = measures.sentences(_TEXT)
    short, long = settings.short_utterance, settings.long_utterance
    response, many = settings.short_response, settings.many_sentences
    too_short = _IS_RESPONSE & pl.col("by_worker") & (characters <= response.more_than_characters)
    leaked = measures.leaked(_TEXT)
    personal = measures.personal_data(_TEXT)
    return [
        utterance("blank_utterance", settings.blank_utterance, blank, pl.lit("")),
        utterance("short_utterance", short, ~blank & (words < short.min_words), words),
        utterance("long_utterance", long, words > long.max_words, words),
        utterance("short_response", response, ~blank & too_short, characters),
        utterance(
            "many_sentences", many, _IS_RESPONSE & (sentences > many.max_sentences), sentences
        ),
        utterance("leaked_prompt", settings.leaked_prompt, drafted & leaked.is_not_null(), leaked),
        utterance(
            "refusal",
            settings.refusal,
            drafted & measures.is_refusal(_TEXT),
            measures.refusal(_TEXT),
        ),
        utterance(
            "foreign_language",
            settings.foreign_language,
            pl.col("foreign").is_not_null(),
            pl.col("foreign"),
        ),
        utterance(
            "repeated_ngram",
            settings.repeated_ngram,
            drafted & pl.col("ngram").is_not_null(),
            pl.col("ngram"),
        ),
        utterance("repeated_utterance", settings.repeated_utterance, pl.col("said_before"), _TEXT),
        utterance(
            "personal_data",
            settings.personal_data,
            _IS_RESPONSE & personal.is_not_null(),
            personal,
        ),
    ]


def _rot_filters(settings: FilterSettings) -> list[Filter]:
    form = settings.rot_form
    words, sentences = pl.col("words"), measures.sentences(_TEXT)
    fault = (
        pl.when((words < form.min_words) | (words > form.max_words))
        .then(pl.format("{} words", words))
        .when(_TEXT.str.contains(r"\?\W*$"))
        .then(pl.lit("question"))
        .when(sentences > form.max_sentences)
        .then(pl.format("{} sentences", sentences))
    )
    judged = _TEXT.str.replace_all("’", "'", literal=True).str.contains(_JUDGEMENT)
    return [
        Filter("rot_form", "rot", fault.is_not_null(), fault, form.level),
        Filter("rot_judgement", "rot", ~judged, _TEXT, settings.rot_judgement.level),
    ]


def _turn_filters(settings: FilterSettings) -> list[Filter]:
    label, since = pl.col("safety_label"), pl.col("intervention_turn")
    no_rots = pl.col("rots").list.len().fill_null(0) == 0
    similarity = pl.col("similarity")
    return [
        Filter(
            "echo",
            "turn",
            similarity >= settings.echo.similarity,
            similarity.round(2),
            settings.echo.level,
            pl.lit("response"),
        ),
        Filter(
            "missing_rot",
            "turn",
            no_rots & (label != schema.CASUAL),
            label,
            settings.missing_rot.level,
            pl.lit("rots"),
        ),
        Filter(
            "intervention_then_casual",
            "turn",
            (label == schema.CASUAL) & (pl.col("turn") > since),
            pl.format("intervention at turn {}", since),
            settings.intervention_then_casual.level,
            pl.lit("safety_label"),
        ),
    ]
