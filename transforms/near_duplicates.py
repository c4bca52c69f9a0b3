"""Texts that are nearly the same: Jaccard similarity of their sets of character n-grams.

Comparing all pairs would be quadratic. Each text gets a signature instead: its n-grams are hashed
into ``BINS`` bins, and the smallest hash of each bin stays (one-permutation MinHash). Two texts of
similarity s agree in a bin with about probability s, so texts of similarity 0.9 agree in at least
one of eight bands of four bins in 9,998 cases of 10,000. A text is compared in full with the first
and the last text before it that share a band with it, and with the first one that equals it, unless
the two agree in far fewer bins than texts that similar do (five standard deviations). Equal texts
are always found; near ones may be missed where many texts share a band; none is reported that was
not compared.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import polars as pl

BINS = 32
BANDS = 8
_EMPTY = np.iinfo(np.uint64).max
# The highest bits of a hash choose its bin.
_BIN_SHIFT = np.uint64(64 - BINS.bit_length() + 1)
# Constants of splitmix64; any odd ones that mix well would do.
_BASE = np.uint64(0x9E3779B97F4A7C15)
_MIX = (
    (np.uint64(30), np.uint64(0xBF58476D1CE4E5B9)),
    (np.uint64(27), np.uint64(0x94D049BB133111EB)),
)


def near_duplicates(
    texts: pl.Series, groups: pl.Series, similarity: float, characters: int
) -> pl.DataFrame:
    """Return the texts that are nearly the same as an earlier text of their group.

    Case and runs of white space are evened first. Of texts that are alike the first one is the
    original; no original is itself reported.

    Args:
        texts: texts (String, no nulls), in the order in which they are preferred.
        groups: what each text is compared within, of the same length.
        similarity: from which Jaccard similarity on two texts are nearly the same, 0 to 1.
        characters: length of the n-grams.

    Returns:
        Columns row and original (Int64, places in ``texts``) and similarity (Float64), by row.
    """
    evened = texts.str.to_lowercase().str.replace_all(r"\s+", " ").str.strip_chars(" ")
    plain = [f" {text} " for text in evened]
    signatures = _signatures(plain, characters)
    least = _least_agreement(similarity)
    found: dict[int, tuple[int, float]] = {}
    for row, other in _candidates(plain, groups, signatures).iter_rows():
        original = found[other][0] if other in found else other
        if row in found or original == row:
            continue
        if np.count_nonzero(signatures[row] == signatures[original]) < least:
            continue
        measured = jaccard(plain[row], plain[original], characters)
        if measured >= similarity:
            found[row] = (original, measured)
    rows = sorted((row, original, value) for row, (original, value) in found.items())
    return pl.DataFrame(
        rows, schema={"row": pl.Int64, "original": pl.Int64, "similarity": pl.Float64}, orient="row"
    )


def jaccard(first: str, second: str, characters: int) -> float:
    """Return the Jaccard similarity of the two texts' sets of n-grams."""
    if first == second:
        return 1.0
    ours, theirs = _ngrams(first, characters), _ngrams(second, characters)
    return len(ours & theirs) / len(ours | theirs)


def _ngrams(text: str, characters: int) -> set[str]:
    return {text[start : start + characters] for start in range(max(1, len(text) - characters + 1))}


def _least_agreement(similarity: float) -> float:
    """Return in how many bins texts of ``similarity`` agree at least, but for very few pairs."""
    return BINS * similarity - 5 * math.sqrt(BINS * similarity * (1 - similarity))


def _candidates(
    texts: list[str], groups: pl.Series, signatures: npt.NDArray[np.uint64]
) -> pl.DataFrame:
    """Return sorted pairs (row, other) to compare, ``other`` being the earlier one."""
    bins = BINS // BANDS
    names = [f"bin_{place}" for place in range(bins)]
    rows = pl.DataFrame({"group": groups, "row": np.arange(len(texts))})
    frames = [_earlier(rows.with_columns(pl.Series("text", texts, dtype=pl.String)), ["text"])]
    for band in range(BANDS):
        part = signatures[:, band * bins : (band + 1) * bins]
        filled = pl.Series((part != _EMPTY).any(axis=1))
        hashed = rows.hstack(pl.DataFrame(part, schema=names)).filter(filled)
        frames.append(_earlier(hashed, names))
    return pl.concat(frames).unique().sort("row", "other")


def _earlier(rows: pl.DataFrame, shared: list[str]) -> pl.DataFrame:
    """Return each row with the first and the last row before it that have all of ``shared``."""
    bucket = ["group", *shared]
    first, last = pl.col("row").min().over(bucket), pl.col("row").shift(1).over(bucket)
    return pl.concat(
        rows.select("row", other.alias("other")).filter(pl.col("other") < pl.col("row"))
        for other in (first, last)
    )


def _signatures(texts: list[str], characters: int) -> npt.NDArray[np.uint64]:
    """Return each text's signature: (texts, ``BINS``), ``_EMPTY`` where a bin has no n-gram."""
    signatures = np.full((len(texts), BINS), _EMPTY, dtype=np.uint64)
    for row, text in enumerate(texts):
        data = text.ljust(characters).encode("utf-32-le", "surrogatepass")
        codes = np.frombuffer(data, dtype=np.uint32).astype(np.uint64)
        windows = len(codes) - characters + 1
        hashes = np.zeros(windows, dtype=np.uint64)
        for offset in range(characters):
            hashes *= _BASE
            hashes += codes[offset : offset + windows]
        for shift, factor in _MIX:
            hashes ^= hashes >> shift
            hashes *= factor
        np.minimum.at(signatures[row], (hashes >> _BIN_SHIFT).astype(np.int64), hashes)
    return signatures
