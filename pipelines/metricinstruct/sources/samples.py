"""The samples: self-written inputs, references and outputs in the true form of their sources."""

from __future__ import annotations

from pathlib import Path

from pipelines.metricinstruct.schema import REAL, SYNTHETIC
from pipelines.metricinstruct.sources.reading import SourceFile

FOLDER = Path(__file__).resolve().parents[1] / "samples"
_FILES = (
    ("summeval", REAL, "model_annotations.aligned.paired.jsonl"),
    ("wmt_mqm", REAL, "mqm_sample_ende.tsv"),
    ("totto", REAL, "totto_sample_data.jsonl", "totto_sample_outputs.jsonl"),
    ("fetaqa", REAL, "fetaQA-v1_sample.jsonl", "alder-predictions.txt", "birch-predictions.txt"),
    ("cosmosqa", REAL, "cosmosqa-sample.csv", "cosmosqa_sample_outputs.jsonl"),
    ("gsm8k", REAL, "example_model_solutions.jsonl"),
    ("mixinstruct", REAL, "mixinstruct_sample_prepared.jsonl"),
    ("samsum", SYNTHETIC, "samsum-train.json"),
    ("dart", SYNTHETIC, "dart-sample.json"),
    ("dolly", SYNTHETIC, "dolly-sample.jsonl"),
)


def sample_files() -> list[SourceFile]:
    """Return the sample files, ready to be read."""
    return [
        SourceFile(source, channel, str(FOLDER / name), tuple(str(FOLDER / n) for n in outputs))
        for source, channel, name, *outputs in _FILES
    ]
