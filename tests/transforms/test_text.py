from __future__ import annotations

import csv
import gzip
import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from transforms import text as measures

TEXT = pl.col("text")


def measured(measure: Callable[[pl.Expr], pl.Expr], *texts: str | None) -> list[object]:
    frame = pl.DataFrame({"text": texts}, schema={"text": pl.String})
    return frame.select(measure(TEXT)).to_series().to_list()


def foreign(*texts: str | None) -> list[str | None]:
    series = pl.Series("text", texts, dtype=pl.String)
    words = series.to_frame().select(measures.words(TEXT)).to_series()
    return measures.foreign(series, words, 3).to_list()


def test_words() -> None:
    assert measured(measures.words, "It’s MY turn -- isn't it?", " ...", "", None, "Año 2x") == [
        ["it's", "my", "turn", "isn't", "it"],
        [],
        [],
        None,
        ["año", "2x"],
    ]


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("", 0),
        ("One.", 1),
        ("No end", 1),
        ("Wait... what?! Yes.", 3),
        ('He said "no." Then he left', 2),
        ("It cost 3.50 at ex.org.", 1),
        (None, None),
    ],
)
def test_sentences(text: str | None, count: int | None) -> None:
    assert measured(measures.sentences, text) == [count]


@pytest.mark.parametrize(
    "text",
    [
        "User: I took it.",
        "I took it.\nAssistant: Why?",
        "**Response:** You could ask.",
        "Speaker A: hm",
        "Rule of thumb: be kind",
        "Good point.<|im_end|>",
        "[INST] go on [/INST]",
        "Dear {{ name }}, no.",
        '{"text": "I took it."}',
        "Sure! Here is a possible response that fits:",
        "Here's the rewritten utterance you asked for",
        "</think> I took it.",
        "### Instruction",
    ],
)
def test_leaks_are_found(text: str) -> None:
    assert measured(measures.leaked, text) != [None]


@pytest.mark.parametrize(
    "text",
    [
        "The system: it is broken, and the user suffers.",
        "My answer is no: you should wait.",
        "Here is my take, it was rude.",
        "I love you <3 :) [sic] {maybe}",
        "We're number #1",
        None,
    ],
)
def test_plain_words_are_no_leaks(text: str | None) -> None:
    assert measured(measures.leaked, text) == [None]


@pytest.mark.parametrize(
    "text",
    [
        "As an AI language model, I have no feelings.",
        "I'm just an AI assistant.",
        "I’m sorry, but I can’t assist with that request.",
        "I am sorry, I cannot fulfill this.",
        "I cannot generate such content.",
        "That goes against my programming.",
        "I was made by OpenAI.",
    ],
)
def test_refusals_are_found(text: str) -> None:
    assert measured(measures.refusal, text) != [None]


@pytest.mark.parametrize(
    "text",
    [
        "I'm sorry you feel that way, but you can't treat people so.",
        "I can't help with the move on Sunday.",
        "Have an aim. As an aide you should know.",
        "I met my programming teacher.",
        "I'm sorry, I won't lie for you.",
    ],
)
def test_people_who_say_no_are_no_assistants(text: str) -> None:
    assert measured(measures.refusal, text) == [None]


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("Write to jo.doe+x@mail.example.org now", "email"),
        ("Call me at (555) 010-9999", "phone"),
        ("Call 555-010-9999.", "phone"),
        ("It is +44 20 7946 0958", "phone"),
        ("Come to 12 Maple Grove Street.", "address"),
        ("He lives at 4 N. Elm Ave", "address"),
        ("Call 1-800-555-0199 to talk to someone", None),
        ("Call (888) 555-0199 or text 741741", None),
        ("In 1999 2 people drove 300 miles on the way", None),
        ("She scored 100 20 3000 points @home", None),
        (None, None),
    ],
)
def test_personal_data(text: str | None, kind: str | None) -> None:
    assert measured(measures.personal_data, text) == [kind]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("No quiero que me digas lo que tengo que hacer con mi vida, por favor", "es"),
        ("Je ne veux pas que vous me disiez ce que je dois faire dans la vie", "fr"),
        ("Ich will nicht mit dir reden und das ist auch gut", "de"),
        ("Ik wil niet dat je met mijn zus over het feest praat", "nl"),
        ("Я не хочу с тобой разговаривать сегодня", "script"),
        ("私は行きたくない。", "script"),
        ("I ordered the crème brûlée and was naïve about it", None),
        ("Que sera sera", None),
        ("lol nah fam", None),
        ("I told him 'no quiero que me digas eso' and left", None),
        ("😀😀😀", None),
        ("", None),
        (None, None),
    ],
)
def test_another_language_is_told_from_english(text: str | None, found: str | None) -> None:
    assert foreign(text) == [found]


def repeated(words: list[list[str] | None], length: int, times: int) -> list[str | None]:
    series = pl.Series(words, dtype=pl.List(pl.String))
    return measures.repeated_ngram(series, length, times).to_list()


def test_repeated_ngrams() -> None:
    loop = ["i", "do", "not", "know"] * 3
    assert repeated([loop, loop[:8], [], None, ["a"] * 6], 4, 3) == [
        "i do not know",
        None,
        None,
        None,
        "a a a a",
    ]


@given(
    st.lists(st.lists(st.sampled_from("ab"), max_size=14), max_size=6),
    st.integers(2, 4),
    st.integers(2, 4),
)
@settings(max_examples=80, deadline=None)
def test_repeated_ngrams_are_those_a_plain_count_finds(
    texts: list[list[str]], length: int, times: int
) -> None:
    for words, found in zip(texts, repeated(list(texts), length, times), strict=True):
        grams = Counter(
            " ".join(words[start : start + length]) for start in range(len(words) - length + 1)
        )
        often = [gram for gram, count in grams.items() if count >= times]
        assert (found in often) if often else (found is None)


def real_texts(find: Callable[[str], Path]) -> list[str]:
    texts: set[str] = set()
    for name in ("obligatory", "optional"):
        with gzip.open(
            find(f"social_chem_101/{name}_sc101.csv.gz"), "rt", encoding="utf-8"
        ) as file:
            for row in csv.DictReader(file):
                texts |= {row["rot"], row["situation"]}
    with gzip.open(find("moral_stories/norm_full_dev.jsonl.gz"), "rt", encoding="utf-8") as file:
        for line in file:
            texts |= set(json.loads(line).values())
    return sorted(text for text in texts if text)


def test_no_measure_mistakes_real_english_texts(shared_data: Callable[[str], Path]) -> None:
    texts = real_texts(shared_data)
    assert len(texts) > 20_000
    frame = pl.DataFrame({"text": texts})
    for measure in (measures.leaked, measures.refusal, measures.personal_data):
        assert frame.filter(measure(TEXT).is_not_null())["text"].to_list() == []
    words = frame.select(measures.words(TEXT)).to_series()
    assert frame.filter(measures.foreign(frame["text"], words, 3).is_not_null()).is_empty()
    assert frame.filter(measures.repeated_ngram(words, 4, 3).is_not_null()).is_empty()
