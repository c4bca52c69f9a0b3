from __future__ import annotations

import polars as pl
import pytest

from pipelines.metricinstruct.ranking import METRICS, bleu_tokeniser, ranked

#: A reference, an output that is close to it, and one that is further away.
OUTPUTS = {
    "en": (
        "The council of the town met on the square last night.",
        "The council of the town met in the square last night.",
        "A meeting took place somewhere.",
    ),
    "de": (
        "Die Bürger trafen sich gestern abend auf dem großen Platz.",
        "Die Bürger trafen sich gestern abend auf dem kleinen Platz.",
        "Über Nacht könnten Öfen stören.",
    ),
    "ru": (
        "Жители города собрались вчера вечером на площади.",
        "Жители города собрались вчера вечером у площади.",
        "Кто-то куда-то пришёл.",
    ),
    "zh": (
        "昨天晚上镇上的居民在广场上讨论了新桥的建设。",
        "昨天晚上镇上的居民在广场上讨论了旧桥的建设。",
        "有人去过某个地方。",
    ),
    "ja": (
        "昨日の夕方、町の住民たちは広場に集まり、新しい橋について話し合いました。",
        "昨日の夕方、町の住民たちは広場に集まり、古い橋について話し合いました。",
        "だれかがどこかへ行った。",
    ),
    "ko": (
        "어제 저녁 마을의 주민들은 광장에 모여 새 다리에 대해 이야기했습니다.",
        "어제 저녁 마을의 주민들은 광장에 모여 옛 다리에 대해 이야기했습니다.",
        "누군가 어딘가에 갔다.",
    ),
}


def examples(reference: str, *outputs: str) -> pl.DataFrame:
    return pl.DataFrame(
        {
            "key": "k",
            "id": [str(number) for number in range(len(outputs))],
            "hypothesis": outputs,
            "references": [[reference]] * len(outputs),
        }
    ).with_columns(pl.lit(None, pl.Float64).alias("quality"))


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("language", list(OUTPUTS))
def test_the_closer_output_ranks_first_in_every_script(language: str, metric: str) -> None:
    reference, near, far = OUTPUTS[language]
    found = ranked(examples(reference, far, near), ["key"], pl.lit(value=True), metric)
    assert found["hypothesis"].to_list() == [near, far]
    close, other = found["__score"]
    assert close > other
    # One of several letters or words differs.
    assert close > 0.5 * (1 if metric == "rouge" else 100)


@pytest.mark.parametrize(
    ("text", "tokeniser"),
    [
        *((texts[0], "13a") for name, texts in OUTPUTS.items() if name in ("en", "de", "ru")),
        (OUTPUTS["zh"][0], "zh"),
        (OUTPUTS["ja"][0], "char"),
        (OUTPUTS["ko"][0], "char"),
        ("The word 橋 means bridge.", "13a"),
        ("GPT-4 和 BERT 都是语言模型。", "zh"),
        ("", "13a"),
        ("42", "13a"),
    ],
)
def test_the_tokeniser_is_that_of_the_references_script(text: str, tokeniser: str) -> None:
    assert bleu_tokeniser([text]) == tokeniser


def test_chinese_without_its_tokeniser_would_score_alike() -> None:
    from sacrebleu.metrics.bleu import BLEU

    reference, near, far = OUTPUTS["zh"]
    plain = BLEU(effective_order=True)
    scores = [plain.sentence_score(text, [reference]).score for text in (near, far)]
    assert max(scores) < 5
