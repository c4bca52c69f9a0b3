"""Measures of a text as Polars expressions: words, sentences, repetition, leaks, personal data.

Each takes a String column and is null where the text is. They are made for frames of hundreds of
thousands of utterances: whole-column expressions, and patterns that begin with a literal where they
can, so that the engine skips most texts.
"""

from __future__ import annotations

import polars as pl

#: A character that is no white space: neither Polars's nor Python's (and so the suites'), which has
#: the separators among it that Unicode counts with the controls.
SAYS_SOMETHING = r"[^\s\x1c-\x1f]"

# A role marker opens a text or a line of it, as in a transcript; in mid-sentence it is just words.
_ROLE = (
    r"(?i)(?:^|\n)[\s*#>\"']*"
    r"(?:user|assistant|system|human|ai|bot|chatbot|model|narrator|speaker\s*[a-z0-9]?|"
    r"person\s*[a-z0-9]|utterance\s*\d?|response|reply|situation|context|dialogue|instruction|"
    r"output|input|answer|question|rules?[- ]of[- ]thumb|rots?)[*\"']*\s*:"
)
_CONTROL = (
    r"(?i)<\|[^|<>]{1,40}\|>|</?s>|\[/?inst\]|<</?sys>>|</?(?:start|end)_of_turn>|</?think>|"
    r"^\s*#{2,}\s|\n\s*#{2,}\s|```|\{\{|\}\}|\{%|%\}|^\s*\{\s*\"|\"\s*\}\s*$"
)
_PREAMBLE = (
    r"(?i)^\W*(?:sure|certainly|of course|okay|ok)?\W*here(?:'s| is| are)\s+(?:the|an?|my|your|"
    r"one|some)\s+(?:\w+\s+){0,3}"
    r"(?:response|reply|utterance|rewrite|version|rephrasing|question|continuation|dialogue)\b"
)
#: What a prompt or a chat template leaves behind in an answer.
LEAK_PATTERNS = (_ROLE, _CONTROL, _PREAMBLE)

_REFUSALS = (
    r"(?i)\bas an? (?:ai|artificial intelligence|(?:large )?language model|chatbot|"
    r"virtual assistant|digital assistant)\b",
    r"(?i)\bi(?:'| a)?m (?:just |only |merely )?an? (?:ai|artificial intelligence|"
    r"(?:large )?language model|ai (?:assistant|model)|virtual assistant)\b",
    r"(?i)\bi(?:'m| am)? (?:sorry|apologi[sz]e)\b[^.!?]{0,40}\b(?:can't|cannot|can not|won't|"
    r"unable to|not able to)\s+(?:be able to )?(?:assist|help with (?:that|this)|comply|fulfill?|"
    r"provide|generate|create|write|continue|engage|respond|answer)\b",
    r"(?i)\bi(?:'m| am)? ?(?:can't|cannot|can not|won't|unable to|not able to)\s+"
    r"(?:assist|comply with|fulfill?|generate|engage (?:in|with) (?:that|this))\b",
    r"(?i)\b(?:against|violates?) (?:my|our|openai's|the) (?:programming|guidelines|"
    r"(?:content|usage|use) polic(?:y|ies))\b",
    r"(?i)\bmy (?:programming (?:does|doesn't|prevents|forbids|restricts|limits)|training data|"
    r"knowledge cut-?off)\b",
    r"(?i)\b(?:trained|developed|created|made) by (?:openai|anthropic|google|meta|alibaba)\b",
)
#: Refusals and boilerplate of assistants: a person in a dialogue says none of it.
REFUSAL_PATTERNS = _REFUSALS

EMAIL_PATTERN = r"[A-Za-z0-9._%+\-]+@[A-Za-z0-9\-]+(?:\.[A-Za-z0-9\-]+)*\.[A-Za-z]{2,}"
#: Ten digits or more as numbers are dialled; toll-free ones are lines a response may well name.
PHONE_PATTERN = (
    r"(?:\+\d{1,3}[\s.\-]?)?(?:\(\d{3}\)\s?|\b\d{3}[\s.\-])\d{3}[\s.\-]\d{4}\b|"
    r"\+\d{1,3}(?:[\s.\-]?\d{2,4}){3,5}\b"
)
TOLL_FREE_PATTERN = r"(?:^|\D)\(?8(?:00|33|44|55|66|77|88)\)?[\s.\-]+\d{3}[\s.\-]\d{4}\b"
ADDRESS_PATTERN = (
    r"\b\d{1,5}[A-Za-z]?\s+(?:[NSEW]\.?\s+)?(?:[A-Z][A-Za-z'\-]+\s+){1,3}"
    r"(?:Street|St|Avenue|Ave|Road|Rd|Boulevard|Blvd|Lane|Ln|Drive|Dr|Court|Ct|Terrace|Place|Pl|"
    r"Square|Highway|Hwy|Parkway|Pkwy)\b\.?"
)

#: Words that only English has among the languages below, so that one foreign "me" says nothing.
_ENGLISH = (
    "the and you of that my your are this what how not have they would it's i'm don't she he "
    "with because should about think just but for if it is to can do like people why"
)
_FOREIGN = {
    "es": "el los las una que de por para con pero muy está eres soy porque cuando esto como mi tu",
    "fr": "le les des une est que pour dans avec pas mais vous je nous c'est j'ai parce très être",
    "de": "der die das und ist nicht ich du sie mit ein eine auf für aber wenn weil mein sind wir",
    "it": "il gli una che di per con non sono questo perché quando della molto anche mio tuo è",
    "pt": "o os uma que de para com não mas muito você eu está porque quando isso meu minha é",
    "nl": "de het een van dat niet ik jij je met voor maar zijn wij omdat mijn heb ook naar wat",
    "pl": "nie się jest że jak ale czy dla przez jestem mnie tak bardzo ten była",
    "tr": "bir ve bu için değil ama çok ben sen ile gibi ne daha olarak",
    "id": "yang dan di itu dengan untuk tidak ini dari dalam saya kamu akan pada juga",
    "sv": "och att det som en på är av för med inte jag du har till den men om",
}
_SURELY_ENGLISH = (
    r"(?i)\b(?:the|and|you|your|that|this|what|with|they|have|about|because|should|would|it's|i'm|"
    r"don't)\b"
)
_WORD = r"[\p{L}\p{N}']+"


def words(text: pl.Expr) -> pl.Expr:
    """Return the words of each text, lower case, without punctuation; an empty list for none."""
    plain = text.str.to_lowercase().str.replace_all("’", "'", literal=True)
    return plain.str.extract_all(_WORD)


def sentences(text: pl.Expr) -> pl.Expr:
    """Return the number of sentences: runs of end marks, and a last one that lacks its mark."""
    ended = text.str.count_matches(r"[.!?…]+[\"'”’)\]]*(?:\s|$)")
    open_end = ~text.str.contains(r"[.!?…]+[\"'”’)\]]*\s*$") & text.str.contains(r"\S")
    return ended + open_end.cast(pl.UInt32)


def leaked(text: pl.Expr) -> pl.Expr:
    """Return the first trace of a prompt, a role marker or a chat template; null where none is."""
    return _first_match(text, LEAK_PATTERNS)


def is_refusal(text: pl.Expr) -> pl.Expr:
    """Return whether each text has a piece of refusal or assistant boilerplate."""
    plain = text.str.replace_all("’", "'", literal=True)
    return plain.str.contains("|".join(f"(?:{pattern})" for pattern in REFUSAL_PATTERNS))


def refusal(text: pl.Expr) -> pl.Expr:
    """Return the first piece of refusal or assistant boilerplate; null where there is none.

    ``is_refusal`` tells the same texts from the others in a fifth of the time.
    """
    return _first_match(text.str.replace_all("’", "'", literal=True), REFUSAL_PATTERNS)


def personal_data(text: pl.Expr) -> pl.Expr:
    """Return the kind of personal data in each text (email, phone, address); null where none is.

    The kind, not the data: what is rejected for holding an address should not repeat it. Toll-free
    numbers are nobody's own, and naming a help line is what a response in need may have to do.
    """
    without_lines = text.str.replace_all(TOLL_FREE_PATTERN, " ")
    return (
        pl.when(text.str.contains(EMAIL_PATTERN))
        .then(pl.lit("email"))
        .when(without_lines.str.contains(PHONE_PATTERN))
        .then(pl.lit("phone"))
        .when(text.str.contains(ADDRESS_PATTERN))
        .then(pl.lit("address"))
    )


def foreign(text: pl.Series, words_of_text: pl.Series, min_words: int) -> pl.Series:
    """Return the script or language that shows a text not to be English; null where none does.

    A heuristic without a model, after two signs: more than half of the letters are not Latin
    (``script``), or at least ``min_words`` distinct function words of one other language stand in
    the text, and more of them than English ones (its ISO 639-1 code). Names, slang and short texts
    show neither and pass, and so does any text with one of the commonest English-only words.
    """
    frame = pl.DataFrame({"text": text, "words": words_of_text}).with_row_index("row")
    # Only texts with other than ASCII characters can be of another script.
    wide = pl.col("text").str.len_bytes() != pl.col("text").str.len_chars()
    letters = pl.col("text").str.count_matches(r"\p{L}")
    latin = pl.col("text").str.count_matches(r"\p{Latin}")
    scripts = frame.filter(wide).filter(letters > 2 * latin)
    spoken = (
        frame.filter(pl.col("words").list.len() >= min_words)
        .filter(~pl.col("text").str.contains(_SURELY_ENGLISH))
        # Polars 2.1 panics in set operations on one row that a filter left of several chunks.
        .rechunk()
        .with_columns(_shared(_ENGLISH).alias("english"))
    )
    own = {code: _shared(vocabulary) for code, vocabulary in _FOREIGN.items()}
    named = [
        pl.when((count >= min_words) & (count > pl.col("english"))).then(pl.lit(code))
        for code, count in own.items()
    ]
    found = pl.concat(
        [
            scripts.select("row", pl.lit("script").alias("found")),
            spoken.select("row", pl.coalesce(named).alias("found")).drop_nulls("found"),
        ]
    ).unique("row", keep="first", maintain_order=True)
    return frame.join(found, on="row", how="left", maintain_order="left")["found"]


def _shared(vocabulary: str) -> pl.Expr:
    return pl.col("words").list.set_intersection(vocabulary.split()).list.len()


def _repeating(said: pl.DataFrame, length: int, times: int) -> pl.DataFrame:
    """Return the rows of ``said`` (row, word by word) whose hashes show an n-gram so often.

    Hashes are combined without a look at where texts end, so some rows may be there for nothing.
    """
    hashes = said.select(word=pl.col("words").hash(), row=pl.col("row").hash())
    gram = hashes["row"]
    for offset in range(length):
        gram = gram ^ (hashes["word"].shift(-offset, fill_value=0) * (2 * offset + 3))
    again = said.select("row", gram=gram).filter(gram.is_duplicated())
    often = again.group_by("row", "gram").len()
    return said.join(often.filter(pl.col("len") >= times), on="row", how="semi")


def _first_match(text: pl.Expr, patterns: tuple[str, ...]) -> pl.Expr:
    return pl.coalesce(text.str.extract(f"({pattern})", 1) for pattern in patterns)


def repeated_ngram(words_of_text: pl.Series, length: int, times: int) -> pl.Series:
    """Return the first ``length`` words in a row that stand at least ``times`` times, per text.

    Args:
        words_of_text: lists of words, see ``words``.
        length: words of an n-gram.
        times: how often it must stand there, overlapping ones counted.

    Returns:
        The n-gram with blanks (String), null for a text without one.
    """
    # Any such text repeats words at least so often; that leaves few texts to be taken apart.
    frame = pl.DataFrame({"words": words_of_text}).with_row_index("row")
    repeats = pl.col("words").list.len().cast(pl.Int64) - pl.col("words").list.n_unique()
    repeating = frame.filter(repeats >= length + times - 2)
    suspects = _repeating(repeating.explode("words", empty_as_null=False), length, times)
    within = pl.col("row") == pl.col("row").shift(1 - length)
    shifted = [pl.col("words").shift(-offset) for offset in range(length)]
    grams = suspects.select(
        "row", pl.when(within).then(pl.concat_str(shifted, separator=" ")).alias("gram")
    ).drop_nulls("gram")
    found = (
        grams.group_by("row", "gram", maintain_order=True)
        .len()
        .filter(pl.col("len") >= times)
        .unique("row", keep="first", maintain_order=True)
    )
    return frame.join(found, on="row", how="left", maintain_order="left")["gram"]
