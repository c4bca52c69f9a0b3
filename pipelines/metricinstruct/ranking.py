"""Ranking: the outputs of one input by their quality, as given in the data or as measured.

Where MetricInstruct had BARTScore, outputs are measured against the references by chrF or BLEU
(sacrebleu) or ROUGE-L (rouge-score), which need no model. Where words are not parted by blanks,
BLEU and ROUGE count single letters.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import polars as pl

METRICS = ("chrf", "bleu", "rouge")

#: From which share of the letters on a text counts as one of a script.
_SHARE = 0.2
_HAN = r"\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
_KANA_AND_HANGUL = r"\u3040-\u30ff\u1100-\u11ff\uac00-\ud7af"
_LETTER = f"[{_HAN}{_KANA_AND_HANGUL}]"  # of a script without blanks, or of Korean
_WORD = re.compile(rf"{_LETTER}|(?:(?!{_LETTER})[^\W_])+")


def ranked(
    examples: pl.DataFrame, together: list[str], by_rank: pl.Expr, metric: str
) -> pl.DataFrame:
    """Return the examples, best first within an input, with ``outputs``, ``metric``, ``rank``.

    An input's outputs are ranked by the quality in the data where all of them have one, else by
    the metric where all have references, else not at all: their ``__place`` then goes by their ids.

    Args:
        examples: columns of ``EXAMPLES`` and ``id``.
        together: the columns that an input's outputs share.
        by_rank: true for the examples that are to be ranked, where there are several.
        metric: one of ``METRICS``.
    """
    is_ranked = (by_rank & (pl.len() > 1)).over(together)
    given = pl.col("quality").is_not_null().all().over(together)
    measured = (pl.col("references").list.len() > 0).all().over(together)
    examples = examples.with_columns(
        pl.len().over(together).cast(pl.Int64).alias("outputs"),
        pl.when(is_ranked & given)
        .then(pl.lit("given"))
        .when(is_ranked & measured)
        .then(pl.lit(metric))
        .alias("metric"),
    )
    to_measure = (examples["metric"] == metric).fill_null(False).to_list()
    scores: list[float | None] = [None] * examples.height
    if any(to_measure):
        score = _scorer(metric)
        rows = examples.select("hypothesis", "references").iter_rows()
        scores = [score(*row) if do else None for row, do in zip(rows, to_measure, strict=True)]
    quality = pl.when(pl.col("metric") == "given").then("quality").otherwise("__score")
    return (
        examples.with_columns(pl.Series("__score", scores, dtype=pl.Float64))
        .with_columns(quality.alias("__quality"))
        .sort(
            [*together, "__quality", "id"],
            descending=[*[False] * len(together), True, False],
            nulls_last=True,
        )
        .with_columns((pl.int_range(pl.len()).over(together) + 1).alias("__place"))
        .with_columns(pl.when(pl.col("metric").is_not_null()).then("__place").alias("rank"))
    )


def _scorer(metric: str) -> Callable[[str, Sequence[str]], float]:
    """Return the function from an output and its references to a score, higher is better."""
    if metric == "rouge":
        from rouge_score.rouge_scorer import RougeScorer  # type: ignore[import-untyped]

        rouge = RougeScorer(["rougeL"], tokenizer=_Words())
        return lambda text, references: float(
            rouge.score_multi(list(references), text)["rougeL"].fmeasure
        )
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF

    if metric == "chrf":
        chrf = CHRF()
        return lambda text, references: float(chrf.sentence_score(text, list(references)).score)
    bleu = {name: BLEU(effective_order=True, tokenize=name) for name in ("13a", "zh", "char")}
    return lambda text, references: float(
        bleu[bleu_tokeniser(references)].sentence_score(text, list(references)).score
    )


def bleu_tokeniser(references: Sequence[str]) -> str:
    """Return the name of sacrebleu's tokeniser for a language that is written as ``references``.

    ``zh`` for Chinese, ``char`` for Japanese and Korean (sacrebleu's own ones for these need
    MeCab), ``13a``, its default, for what parts words by blanks. With it a sentence of Chinese is
    one word, and all outputs score alike.
    """
    text = "".join(references)
    letters = sum(map(str.isalpha, text))
    kana_and_hangul = len(re.findall(f"[{_KANA_AND_HANGUL}]", text))
    han = len(re.findall(f"[{_HAN}]", text))
    # Japanese has both kana and Han; names in other scripts stand in texts of every language.
    if kana_and_hangul > _SHARE * letters:
        return "char"
    return "zh" if han > _SHARE * letters else "13a"


class _Words:
    """ROUGE's tokeniser: words in lower case, in scripts without blanks each letter.

    The default of rouge-score keeps Latin letters without marks alone.
    """

    def tokenize(self, text: str) -> list[str]:
        """Return the words of ``text``."""
        return _WORD.findall(text.lower())
