"""What the plain Polars script reads: twelve source files in their forms, and cached answers."""

from __future__ import annotations

from pathlib import Path

import polars as pl

from benchmarks.metricinstruct.sources import FILES, OUTPUTS, SYSTEMS
from pipelines.metricinstruct import schema
from pipelines.metricinstruct.sources.registry import SOURCES
from pipelines.metricinstruct.sources.source import source_key
from pipelines.metricinstruct.sources.translation import PARALLEL_PAIRS, instruction_for
from transforms.frames import Schema
from transforms.keys import KEY_LENGTH
from transforms.splits import split_of_file

#: One output of a row: its system, the text, and its quality where the row says it.
_OUTPUT = {"system": pl.String, "hypothesis": pl.String, "quality": pl.Float64}
_NO_OUTPUT = pl.lit([], dtype=pl.List(pl.Struct(_OUTPUT)))
_REPLY = pl.Struct(
    {
        "choices": pl.List(
            pl.Struct(
                {
                    "message": pl.Struct({"content": pl.String, "refusal": pl.String}),
                    "finish_reason": pl.String,
                }
            )
        )
    }
)
#: What an answer may hold, whatever it answers.
_ANSWER = pl.Struct(
    {
        "analysis": pl.String,
        "output": pl.String,
        "errors": pl.List(
            pl.Struct(
                {
                    "location": pl.String,
                    "context": pl.String,
                    "suggestion": pl.String,
                    "explanation": pl.String,
                    "aspect": pl.String,
                    "severity": pl.String,
                    "score_reduction": pl.Float64,
                }
            )
        ),
    }
)


def read_examples(directory: Path) -> pl.DataFrame:
    """Return the examples of all files, columns of ``EXAMPLES`` but for ``reference_system``."""
    frames = []
    for channel, files in FILES.items():
        for source, name in files.items():
            rows = _READERS[source](directory, directory / name)
            frames.append(_examples(rows, channel, source, str(directory / name)))
    examples = pl.concat(frames)
    inputs = examples.select("task", "instruction", "input_context").unique()
    keys = [source_key(*row) for row in inputs.iter_rows()]
    return (
        examples.join(
            inputs.with_columns(pl.Series("key", keys)),
            on=["task", "instruction", "input_context"],
            maintain_order="left",
        )
        .with_columns(pl.coalesce("item", pl.col("key").str.head(KEY_LENGTH // 2)))
        .select([name for name in schema.EXAMPLES if name != "reference_system"])
    )


def _examples(rows: pl.DataFrame, channel: str, source: str, path: str) -> pl.DataFrame:
    """Return the examples of rows: input_context, references, and perhaps further columns."""
    split = split_of_file(path)
    given = {
        "instruction": pl.lit(SOURCES[source].instruction),
        "item": pl.lit(None, dtype=pl.String),
        "stratum": pl.lit(None, dtype=pl.String),
        "outputs": _NO_OUTPUT,
    }
    first_line = 2 if path.endswith(".csv") else 1
    rows = rows.with_columns(
        *(text.alias(name) for name, text in given.items() if name not in rows.columns),
        pl.int_range(first_line, pl.len() + first_line).alias("line"),
    )
    if channel == schema.SYNTHETIC:
        rows = rows.with_columns(
            *(pl.lit(None, dtype=kind).alias(name) for name, kind in _OUTPUT.items())
        )
    else:
        rows = rows.explode("outputs").unnest("outputs")
    return rows.select(
        pl.lit(channel).alias("channel"),
        pl.lit(SOURCES[source].task).alias("task"),
        pl.lit(source).alias("source"),
        "stratum",
        pl.lit(split, dtype=pl.String).alias("split"),
        "item",
        pl.col("instruction", "input_context").str.strip_chars(),
        "references",
        pl.col("hypothesis").str.strip_chars(),
        "system",
        "quality",
        pl.lit(path).alias("file"),
        "line",
        pl.col("line").is_first_distinct().cast(pl.Int64).alias("input_rows"),
    )


def _beside(source: str, path: Path) -> pl.DataFrame:
    """Return the outputs of a file of lines of JSON: item and outputs."""
    lines = {"id": pl.String, "system": pl.String, "output": pl.String}
    rows = pl.read_ndjson(path.parent / OUTPUTS[source], schema=lines)
    output = _output(pl.col("system"), pl.col("output"))
    return rows.group_by("id", maintain_order=True).agg(output.alias("outputs"))


def _output(system: pl.Expr, text: pl.Expr, quality: pl.Expr | None = None) -> pl.Expr:
    quality = pl.lit(None, dtype=pl.Float64) if quality is None else quality.cast(pl.Float64)
    return pl.struct(system.alias("system"), text.alias("hypothesis"), quality.alias("quality"))


def _one(text: pl.Expr) -> pl.Expr:
    return pl.concat_list(text.str.strip_chars()).alias("references")


def _samsum(directory: Path, path: Path) -> pl.DataFrame:
    rows = pl.read_json(path).select(
        pl.col("dialogue").alias("input_context"),
        _one(pl.col("summary")),
        pl.col("id").alias("item"),
    )
    if path.name != FILES["real"]["samsum"]:
        return rows
    beside = _beside("samsum", path)
    return rows.join(beside, left_on="item", right_on="id", how="left", maintain_order="left")


def _direct_assessments(directory: Path, path: Path) -> pl.DataFrame:
    rows = pl.read_csv(path)
    pairs = rows["lp"].unique().to_list()
    return rows.select(
        pl.col("src").alias("input_context"),
        _one(pl.col("ref")),
        pl.col("lp").alias("stratum"),
        pl.col("lp").replace(pairs, [instruction_for(pair) for pair in pairs]).alias("instruction"),
        pl.concat_list(_output(pl.lit("unknown"), pl.col("mt"), pl.col("score"))).alias("outputs"),
    )


def _parallel(directory: Path, path: Path) -> pl.DataFrame:
    codes = ("zh", "de", "cs", "ru", "en", "fr")
    columns = {"translation": pl.Struct(dict.fromkeys(codes, pl.String))}
    rows = pl.read_ndjson(path, schema=columns).unnest("translation")
    context, reference, stratum = [], [], []
    for pair in PARALLEL_PAIRS:
        source, target = (pl.col(code) for code in pair.split("-"))
        both = pl.when(source.is_not_null() & target.is_not_null())
        context.append(both.then(source))
        reference.append(both.then(target))
        stratum.append(both.then(pl.lit(pair)))
    names = [instruction_for(pair) for pair in PARALLEL_PAIRS]
    pairs = pl.coalesce(stratum)
    return rows.select(
        pl.coalesce(context).alias("input_context"),
        _one(pl.coalesce(reference)),
        pairs.alias("stratum"),
        pairs.replace_strict(list(PARALLEL_PAIRS), names).alias("instruction"),
    )


def _table(directory: Path, path: Path) -> pl.DataFrame:
    texts = pl.List(pl.String)
    columns: Schema = {"headers": texts, "content": texts, "reference": pl.String}
    rows = pl.read_ndjson(path, schema=dict(columns)).with_row_index("row")
    cells = (
        rows.select("row", "headers", "content")
        .explode("headers", "content")
        .group_by("row", maintain_order=True)
        .agg(pl.format("the {} is {}", "headers", "content").str.join(" , ") + " .")
    )
    outputs = [
        _output(
            pl.lit(system),
            pl.lit(pl.Series((directory / f"{system}.txt").read_text().splitlines())),
        )
        for system in SYSTEMS["wikitabletext"]
    ]
    return rows.select(
        cells["headers"].alias("input_context"),
        _one(pl.col("reference")),
        pl.concat_list(outputs).alias("outputs"),
    )


def _dart(directory: Path, path: Path) -> pl.DataFrame:
    tuples = pl.format("( {})", pl.element().list.join(", "))
    texts = pl.col("annotations").list.eval(pl.element().struct.field("text"))
    return pl.read_json(path).select(
        pl.col("tripleset").list.eval(tuples).list.join("\n").alias("input_context"),
        texts.list.reverse().list.unique(maintain_order=True).alias("references"),
    )


def _eli5(directory: Path, path: Path) -> pl.DataFrame:
    answers = pl.Struct({"text": pl.List(pl.String), "score": pl.List(pl.Int64)})
    columns: Schema = {"q_id": pl.String, "title": pl.String, "answers": answers}
    rows = pl.read_ndjson(path, schema=dict(columns)).unnest("answers")
    best = (
        rows.explode("text", "score")
        .group_by("q_id", maintain_order=True)
        .agg(pl.col("text").sort_by("score", descending=True, maintain_order=True))
    )
    return rows.select(
        pl.col("title").alias("input_context"),
        best["text"].list.unique(maintain_order=True).alias("references"),
        pl.col("q_id").alias("item"),
    ).join(_beside("eli5", path), left_on="item", right_on="id", how="left", maintain_order="left")


def _cosmosqa(directory: Path, path: Path) -> pl.DataFrame:
    right = [pl.when(pl.col("label") == n).then(f"answer{n}") for n in range(4)]
    return pl.read_csv(path).select(
        pl.format("Context: {}\nQuestion: {}", "context", "question").alias("input_context"),
        _one(pl.coalesce(right)),
        pl.col("id").alias("item"),
    )


def _gsm8k(directory: Path, path: Path) -> pl.DataFrame:
    if path.name != FILES["real"]["gsm8k"]:
        problem = {"question": pl.String, "answer": pl.String}
        return pl.read_ndjson(path, schema=problem).select(
            pl.col("question").alias("input_context"), _one(pl.col("answer"))
        )
    solution = pl.Struct({"is_correct": pl.Boolean, "solution": pl.String})
    columns = {"question": pl.String, "ground_truth": pl.String}
    rows = pl.read_ndjson(path, schema=columns | dict.fromkeys(SYSTEMS["gsm8k"], solution))
    outputs = [
        _output(
            pl.lit(system),
            pl.col(system).struct.field("solution"),
            pl.col(system).struct.field("is_correct"),
        )
        for system in SYSTEMS["gsm8k"]
    ]
    return rows.select(
        pl.col("question").alias("input_context"),
        _one(pl.col("ground_truth")),
        pl.concat_list(outputs).alias("outputs"),
    )


def _mixinstruct(directory: Path, path: Path) -> pl.DataFrame:
    scores = pl.Struct({"bartscore": pl.Float64})
    candidate = pl.Struct({"model": pl.String, "text": pl.String, "scores": scores})
    columns = dict.fromkeys(("id", "instruction", "input", "output"), pl.String)
    rows = pl.read_ndjson(path, schema={**columns, "candidates": pl.List(candidate)})
    field = pl.element().struct.field
    output = _output(field("model"), field("text"), field("scores").struct.field("bartscore"))
    return rows.select(
        pl.col("input").alias("input_context"),
        _one(pl.col("output")),
        "instruction",
        pl.col("id").alias("item"),
        pl.col("candidates").list.eval(output).alias("outputs"),
    )


def _dolly(directory: Path, path: Path) -> pl.DataFrame:
    columns = dict.fromkeys(("instruction", "context", "response"), pl.String)
    return pl.read_ndjson(path, schema=columns).select(
        pl.col("context").alias("input_context"), _one(pl.col("response")), "instruction"
    )


_READERS = {
    "samsum": _samsum,
    "wmt_da": _direct_assessments,
    "wmt19": _parallel,
    "wikitabletext": _table,
    "dart": _dart,
    "eli5": _eli5,
    "cosmosqa": _cosmosqa,
    "gsm8k": _gsm8k,
    "mixinstruct": _mixinstruct,
    "dolly": _dolly,
}


def read_answers(pattern: str) -> pl.DataFrame:
    """Return every cached answer: request, analysis, output, errors; and how unusable ones end."""
    rows = pl.read_ndjson(pattern, schema={"key": pl.String, "body": pl.String})
    choice = pl.col("body").str.json_decode(_REPLY).struct.field("choices").list.first()
    rows = (
        rows.unique("key", keep="first")
        .select(pl.col("key").alias("request"), choice.alias("choice"))
        .unnest("choice")
        .unnest("message")
    )
    content = pl.col("content")
    end = (
        pl.when(pl.col("refusal").is_not_null())
        .then(pl.lit("refused"))
        .when(pl.col("finish_reason") == "length")
        .then(pl.lit("truncated"))
        .when(~content.str.starts_with("{"))
        .then(pl.lit("bad_json"))
    )
    return (
        rows.with_columns(end.alias("error_class"))
        .with_columns(
            pl.when(pl.col("error_class").is_null()).then(content).str.json_decode(_ANSWER)
        )
        .select("request", "error_class", "content")
        .unnest("content")
    )
