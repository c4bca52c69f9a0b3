"""Where in an output the words stand that a model quoted as the location of an error.

Four readings of the quoted words are tried, from the strictest to the loosest; the first one that
fits anywhere is the one that counts:

1. the words as they are;
2. without the quotation marks, back ticks or ellipses that the model put around them;
3. the same, where any quotation mark or apostrophe equals any other of its kind, and any run of
   white space equals one blank;
4. the same without regard to case.

Where a reading fits in several places, all of them are kept as candidates. The one nearest to the
middle of a passage that the model quoted around its location is taken (one inside it before one
outside), else the first, and the placement says which. Nothing looser (stems, fuzzy ratios) is
tried: an annotation that can't be found is not one.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Iterator

from pipelines.metricinstruct.errors import record
from pipelines.metricinstruct.errors.record import ErrorRecord

_DOUBLE = '"“”„‟«»″＂「」『』'
_SINGLE = "'‘’‚‛′`´‹›＇"
_EQUAL = {ord(mark): '"' for mark in _DOUBLE} | {ord(mark): "'" for mark in _SINGLE}
_BLANKS = re.compile(r"\s+")
_ELLIPSIS = re.compile(r"^(?:\.{3,}|…)\s*|\s*(?:\.{3,}|…)$")
_PAIRS = {
    '"': '"', "'": "'", "`": "`", "“": "”", "‘": "’", "„": "“”", "«": "»", "»": "«", "「": "」",
    "『": "』", "‹": "›", "＂": "＂",
}  # fmt: skip
# A passage in quotation marks; an apostrophe inside a word neither opens nor closes one.
_QUOTED = re.compile(
    r"\"([^\"\n]+)\"|“([^“”\n]+)”|„([^„“”\n]+)[“”]|«([^«»\n]+)»|(?<!\w)['‘]([^\n]+?)['’](?!\w)"
)

Span = tuple[int, int]


def place(error: ErrorRecord, output: str) -> ErrorRecord:
    """Return ``error`` with its offsets in ``output``, see the module's rules.

    The words of ``error.quoted``, where it was placed before, are looked for anew.
    """
    quoted = error.location if error.quoted is None else error.quoted
    spans, exact = find(quoted, output)
    if not spans:
        return dataclasses.replace(
            error,
            location=quoted,
            quoted=None,
            start=None,
            end=None,
            occurrence=None,
            candidates=(),
            placement=record.ABSENT,
        )
    (start, end), placement = spans[0], record.EXACT if exact else record.NORMALISED
    if len(spans) > 1:
        around = _context_span(error, quoted, output)
        if around is None:
            placement = record.FIRST_OF_SEVERAL
        else:
            placement = record.NEAREST_TO_CONTEXT
            start, end = min(spans, key=lambda span: (*_distance(span, around), span))
    location = output[start:end]
    return dataclasses.replace(
        error,
        location=location,
        quoted=None if location == quoted else quoted,
        start=start,
        end=end,
        occurrence=1 + sum(1 for other, _ in _exact_spans(location, output) if other < start),
        candidates=tuple(begin for begin, _ in spans),
        placement=placement,
    )


def find(quoted: str, output: str) -> tuple[list[Span], bool]:
    """Return the places of ``output`` that fit ``quoted``, in order, and whether word for word.

    Overlapping places count each.
    """
    if not quoted.strip():
        return [], False
    spans = list(_exact_spans(quoted, output))
    if spans:
        return spans, True
    bare = strip_marks(quoted)
    if not bare:
        return [], False
    spans = list(_exact_spans(bare, output)) if bare != quoted else []
    for ignore_case in (False, True):
        if spans:
            break
        spans = _normalised_spans(bare, output, ignore_case)
    return spans, False


def strip_marks(quoted: str) -> str:
    """Return ``quoted`` without blanks, ellipses and pairs of quotation marks around it."""
    text = quoted.strip()
    while True:
        bare = _ELLIPSIS.sub("", text).strip()
        if len(bare) > 1 and bare[-1] in _PAIRS.get(bare[0], "") and not _splits(bare):
            bare = bare[1:-1].strip()
        if bare == text:
            return bare
        text = bare


def quoted_passages(text: str) -> list[str]:
    """Return the passages of ``text`` that stand in quotation marks, in order."""
    return [
        next(group for group in found.groups() if group is not None)
        for found in _QUOTED.finditer(text)
    ]


def _splits(text: str) -> bool:
    """Tell whether the marks around ``text`` belong to two passages, as in ``"a" and "b"``."""
    inner = text[1:-1]
    return any(mark in inner for mark in {text[0], text[-1]} - {"'", "’"})


def _exact_spans(words: str, output: str) -> Iterator[Span]:
    start = output.find(words)
    while start >= 0:
        yield start, start + len(words)
        start = output.find(words, start + 1)


def _normalised_spans(words: str, output: str, ignore_case: bool) -> list[Span]:
    wanted = _normal_form(words.strip(), ignore_case)
    if wanted not in _normal_form(output, ignore_case):
        return []  # which most words are that do not stand there as they are
    text, origin = _normalise(output, ignore_case)
    spans = []
    for start, end in _exact_spans(wanted, text):
        # A place may neither begin nor end within the expansion of one character ("ß" as "ss").
        begins = start == 0 or origin[start - 1] != origin[start]
        ends = end == len(text) or origin[end - 1] != origin[end]
        if begins and ends:
            spans.append((origin[start], origin[end - 1] + 1))
    return spans


def _normal_form(text: str, ignore_case: bool) -> str:
    """Return ``text`` with marks, blanks and perhaps case evened."""
    evened = _BLANKS.sub(" ", text.translate(_EQUAL))
    return evened.casefold() if ignore_case else evened


def _normalise(text: str, ignore_case: bool) -> tuple[str, list[int]]:
    """Return the normal form of ``text``, and where in it each character comes from."""
    characters: list[str] = []
    origin: list[int] = []
    for index, character in enumerate(text.translate(_EQUAL)):
        if character.isspace():
            if characters and characters[-1] == " ":
                continue
            character = " "
        folded = character.casefold() if ignore_case else character
        characters.extend(folded)
        origin.extend([index] * len(folded))
    return "".join(characters), origin


def _context_span(error: ErrorRecord, quoted: str, output: str) -> Span | None:
    """Return the one place of the passage that the model quoted around its location, if any."""
    for passage in _passages(error, strip_marks(quoted).casefold()):
        spans, _ = find(passage, output)
        if len(spans) == 1:
            return spans[0]
    return None


def _passages(error: ErrorRecord, bare: str) -> Iterable[str]:
    if error.context:
        yield error.context
    for passage in quoted_passages(error.explanation):
        if len(passage) > len(bare) and bare in passage.casefold():
            yield passage


def _distance(span: Span, around: Span) -> tuple[bool, int]:
    """Return whether ``span`` leaves ``around``, and how far their middles are apart (doubled)."""
    leaves = span[0] < around[0] or span[1] > around[1]
    return leaves, abs(sum(span) - sum(around))
