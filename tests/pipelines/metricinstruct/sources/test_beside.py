from __future__ import annotations

import polars as pl

from pipelines.metricinstruct.schema import ANNOTATION, OUTPUT, SUMMARIZATION
from pipelines.metricinstruct.sources.beside import RowBeside, beside_frame, unjoined
from pipelines.metricinstruct.sources.registry import source_named


def test_a_row_is_rejected_that_no_file_of_its_source_has_asked_for():
    source = source_named("xsum", "real")
    rows = [
        RowBeside(ANNOTATION, "ratings.jsonl", 1, "1", "alder", "{1}"),
        RowBeside(ANNOTATION, "ratings.jsonl", 2, "2", "alder", "{2}"),
        RowBeside(OUTPUT, "outputs.jsonl", 2, "9", "alder", "{9}"),
    ]
    first = beside_frame(rows, source)
    rows[0].used = True  # the second file of the source has it
    told = pl.concat([first, beside_frame(rows, source)])
    rejected, joined = unjoined(told)
    assert rejected.select("unit", "rule", "value", "field", "file", "line", "text").rows() == [
        (ANNOTATION, "no_such_output", "2", "id", "ratings.jsonl", 2, "{2}"),
        (OUTPUT, "no_such_input", "9", "id", "outputs.jsonl", 2, "{9}"),
    ]
    assert set(rejected["task"]) == {SUMMARIZATION}
    assert joined.select("stage", "side", "outcome", "n").rows() == [
        ("beside_rows", "out", "joined", 1)
    ]
