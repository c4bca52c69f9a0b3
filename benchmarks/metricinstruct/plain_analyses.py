"""The plain Polars script's analyses: which answers the chosen examples have, and their errors."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from json.encoder import encode_basestring_ascii

import polars as pl

from benchmarks.replies import MODEL
from pipelines.metricinstruct import schema
from pipelines.metricinstruct.corruption import CorruptionSettings, aspects_asked, kind_of
from pipelines.metricinstruct.drafts import ANALYSED
from pipelines.metricinstruct.errors.places import place
from pipelines.metricinstruct.errors.record import ERRORS_TYPE, ErrorRecord
from pipelines.metricinstruct.lengths import Lengths
from pipelines.metricinstruct.sources.source import output_id
from pipelines.metricinstruct.task_prompts import TaskPrompts
from transforms.llm.prompts import Prompt
from transforms.llm.quoting import quote
from transforms.llm.request import RequestForm
from transforms.llm.settings import EngineSettings
from transforms.tokens import cut

_DETAILS = {
    "refused": "the refusal field is set",
    "truncated": "finish_reason length",
    "bad_json": "no JSON object in the answer",
}
_FIELDS = [field.name for field in dataclasses.fields(ErrorRecord)]
_PLACED = ("location", "quoted", "start", "end", "occurrence", "candidates", "placement")
_TEXTS = pl.List(pl.String)


def analyse(
    chosen: pl.DataFrame, answers: pl.DataFrame, prompts: TaskPrompts, base_url: str
) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame]:
    """Return the analyses (``ANALYSED``), what came back unchanged, and the dead ones."""
    items = _items(chosen)
    ask = _Asking(answers, prompts, EngineSettings(base_url, MODEL, cache=""))
    real = items.filter(pl.col("channel") == schema.REAL).with_columns(pl.lit("real").alias("kind"))
    reviewed, dead = ask(real, "review")
    reviewed = reviewed.with_columns(pl.col("analysis").str.strip_chars().alias("analysis_text"))
    itemised, more = ask(reviewed, "itemise", pl.col("analysis_text"))
    itemised = itemised.with_columns(pl.lit("structured").alias("form"))
    ended = [dead, more]
    made = items.filter(pl.col("channel") != schema.REAL)
    names = made.select("id", "task").rows()
    made = made.with_columns(
        pl.Series("kind", [kind_of(id_, task, CorruptionSettings()) for id_, task in names])
    )
    asked = [aspects_asked(id_, schema.ASPECTS[task]) for id_, task in names]
    made = made.with_columns(
        pl.when(pl.col("kind") == "corrupted").then(pl.Series(asked, dtype=_TEXTS)).alias(
            "aspects_asked"
        )
    )  # fmt: skip
    corrupted, dead = ask(made.filter(pl.col("kind") == "corrupted"), "corrupt")
    paraphrased, more = ask(made.filter(pl.col("kind") == "paraphrase"), "paraphrase")
    ended += [dead, more]
    as_they_are = made.filter(pl.col("kind") == "reference").with_columns(
        pl.col("reference").alias("output")
    )
    corrupted = corrupted.with_columns(pl.lit("structured").alias("form"))
    synthetic = pl.concat([corrupted, paraphrased, as_they_are], how="diagonal").with_columns(
        pl.col("output").str.strip_chars().alias("hypothesis")
    )
    rows = pl.concat([itemised, synthetic], how="diagonal")
    texts = rows.select("key", "input_context", "hypothesis")
    rows = rows.with_columns(
        pl.col("id").alias("example_id"),
        pl.Series("id", [output_id(*row) for row in texts.iter_rows()]),
    )
    unchanged = (pl.col("kind") == "corrupted") & (
        pl.col("hypothesis") == pl.col("reference").str.strip_chars()
    )
    back = rows.filter(unchanged).select(
        pl.col("example_id").alias("id"), "channel", pl.col("hypothesis").alias("made")
    )
    back = chosen.join(back, on=["id", "channel"]).with_columns(
        pl.lit("unchanged_output").alias("rule"),
        *(pl.lit(None, dtype=pl.String).alias(name) for name in ("value", "field")),
    )
    return _analysed(rows.filter(~unchanged)), back, _dead(pl.concat(ended), chosen)


def _items(chosen: pl.DataFrame) -> pl.DataFrame:
    """Return the chosen examples with their texts cut, and the names of those that were."""
    lengths = Lengths()
    names = {task: lengths.of_input(task) for task in schema.TASKS}
    of_input = pl.col("task").replace_strict(names, return_dtype=pl.Int64)
    most = {
        "instruction": of_input,
        "input_context": of_input,
        "reference": pl.lit(lengths.reference, dtype=pl.Int64),
        "hypothesis": pl.lit(lengths.output, dtype=pl.Int64),
    }
    rows = chosen.with_columns(pl.col("references").list.first().alias("reference"))
    flags = []
    for name, tokens in most.items():
        length = pl.col(name).str.len_chars()
        ascii_only = pl.col(name).str.len_bytes() == length
        long = rows.select(
            ((length > 4 * tokens) | (~ascii_only & (length > tokens))).fill_null(value=False)
        ).to_series()
        full = rows.with_columns(tokens.alias("tokens")).filter(long)
        shorter = pl.Series(
            [cut(*row) for row in full.select(name, "tokens").iter_rows()], dtype=pl.String
        )
        places = long.arg_true()
        was_cut = places.filter(shorter != full[name])
        flags.append(pl.int_range(pl.len()).is_in(was_cut.implode()).alias(f"cut {name}"))
        rows = rows.with_columns(rows[name].scatter(places, shorter))
    told = [pl.when(flag).then(pl.lit(name)) for name, flag in zip(most, flags, strict=True)]
    return rows.with_columns(pl.concat_list(told).list.drop_nulls().alias("truncated"))


class _Asking:
    """Looks up the answers of a step, and says for which rows there is none to use."""

    def __init__(
        self, answers: pl.DataFrame, prompts: TaskPrompts, settings: EngineSettings
    ) -> None:
        self._answers, self._prompts, self._settings = answers, prompts, settings

    def __call__(
        self, rows: pl.DataFrame, step: str, notes: pl.Expr | None = None
    ) -> tuple[pl.DataFrame, pl.DataFrame]:
        """Return the rows with their answers, and those whose answers are of no use."""
        shown = pl.lit("") if notes is None else notes
        rows = rows.drop("analysis", "output", "errors", strict=False).with_columns(
            shown.alias("notes")
        )
        parts = []
        for (task,), part in rows.partition_by("task", as_dict=True).items():
            prompt = self._prompts[str(task)][step]
            questions = _questions(part, prompt)
            request = self._requests(prompt, questions, room=1)
            more_room = self._requests(prompt, questions, room=2)
            parts.append(
                part.with_columns(
                    request.alias("request"),
                    pl.lit(prompt.id).alias("step"),
                    more_room.alias("again"),
                )
            )
        asked = pl.concat(parts).join(self._answers, on="request", how="left")
        ended = pl.col("error_class").is_not_null()
        lost = asked.filter(ended).with_columns(
            pl.when(pl.col("error_class") == "truncated")
            .then("again")
            .otherwise("request")
            .alias("request_hash")
        )
        dead = lost.select("channel", "id", "step", "error_class", "request_hash")
        nothing = pl.lit([], dtype=_TEXTS)
        prompts, requests = (
            pl.concat_list(pl.col(name) if name in rows.columns else nothing, new).alias(name)
            for name, new in (("prompts", "step"), ("requests", "request"))
        )
        answered = asked.filter(~ended).with_columns(prompts, requests)
        return answered.drop("request", "step", "again", "error_class"), dead

    def _requests(self, prompt: Prompt, questions: Sequence[bytes], room: int) -> pl.Series:
        form = RequestForm(self._settings, prompt, room)
        return pl.Series([form.key(question, 0) for question in questions], dtype=pl.String)


def _questions(rows: pl.DataFrame, prompt: Prompt) -> list[bytes]:
    """Return the last message of each row's call, as a JSON string."""
    templates: dict[tuple[bool, bool], str] = {}
    marks = {"input": "\ue000", "reference": "\ue001", "output": "\ue002", "analysis": "\ue003"}
    for has_input in (False, True):
        for is_cut in (False, True):
            variables = {name: [mark] for name, mark in marks.items()}
            variables |= {"aspects": ["\ue004"]}
            given = {**variables, "instruction": "\ue005", "cut": is_cut}
            templates[has_input, is_cut] = prompt.question(
                given if has_input else {**given, "input": []}
            )
    names = ("input_context", "reference", "hypothesis", "notes", "instruction")
    columns = [rows[name].to_list() for name in names]
    aspects = (
        rows["aspects_asked"].to_list() if "aspects_asked" in rows.columns else [()] * len(rows)
    )
    were_cut = (rows["truncated"].list.len() > 0).to_list()
    questions = []
    for text, reference, output, notes, instruction, some, short in zip(
        *columns, aspects, were_cut, strict=True
    ):
        filled = (
            templates[bool(text), short]
            .replace("\ue000", _lines(text))
            .replace("\ue001", _lines(reference))
            .replace("\ue002", _lines(output))
            .replace("\ue003", _lines(notes))
            .replace("\ue004", ", ".join(some or ()))
            .replace("\ue005", quote(instruction))
        )
        questions.append(encode_basestring_ascii(filled.strip()).encode())
    return questions


def _lines(text: str | None) -> str:
    return "\n".join(map(quote, text.splitlines())) if text else ""


def _analysed(rows: pl.DataFrame) -> pl.DataFrame:
    """Return the rows with placed errors and all columns of ``ANALYSED``."""
    errors = _placed(rows)
    came = errors.group_by("id").agg(pl.col("aspect").unique(maintain_order=True).alias("came"))
    lists = errors.group_by("id", maintain_order=True).agg(pl.struct(_FIELDS).alias("errors"))
    empty = pl.lit([], dtype=ERRORS_TYPE)
    aspects = pl.DataFrame(
        {"task": list(schema.ASPECTS), "aspects": [list(of) for of in schema.ASPECTS.values()]}
    )
    asked, nothing = pl.col("aspects_asked"), pl.lit([], dtype=_TEXTS)
    missing = asked.list.set_difference("came")
    beside = pl.col("came").list.set_difference(asked)
    rows = (
        rows.drop("errors", "came", strict=False)
        .join(lists, on="id", how="left", maintain_order="left")
        .join(came, on="id", how="left", maintain_order="left")
        .join(aspects, on="task", maintain_order="left")
        .with_columns(
            pl.col("errors").cast(ERRORS_TYPE).fill_null(empty),
            pl.col("came").fill_null(nothing),
            pl.col("prompts", "requests").fill_null(nothing),
            pl.lit([], dtype=ANALYSED["faults"]).alias("faults"),
        )
        .with_columns(
            pl.when(asked.is_null()).then(nothing).otherwise(missing).alias("aspects_missing"),
            pl.when(asked.is_null()).then(nothing).otherwise(beside).alias("aspects_unasked"),
        )
    )
    absent = {name: kind for name, kind in ANALYSED.items() if name not in rows.columns}
    return rows.with_columns(
        pl.lit(None, dtype=kind).alias(name) for name, kind in absent.items()
    ).select(*ANALYSED)


def _placed(rows: pl.DataFrame) -> pl.DataFrame:
    """Return the errors of all rows, each with its place in the output."""
    errors = (
        rows.select("id", "hypothesis", "errors")
        .explode("errors", empty_as_null=False)
        .drop_nulls("errors")
        .unnest("errors")
        .with_row_index("row")
    )
    output, location = pl.col("hypothesis"), pl.col("location")
    start = output.str.find(location, literal=True).cast(pl.Int32)
    again = output.str.slice(start + 1).str.contains(location, literal=True)
    ascii_only = output.str.len_bytes() == output.str.len_chars()
    plain = ascii_only & ~again & (location.str.strip_chars() != "")
    errors = errors.with_columns(plain.fill_null(value=False).alias("plain"))
    once = errors.filter("plain").with_columns(
        start.alias("start"),
        (start + location.str.len_chars()).cast(pl.Int32).alias("end"),
        pl.lit(None, dtype=pl.String).alias("quoted"),
        pl.lit(1, dtype=pl.Int32).alias("occurrence"),
        pl.concat_list(start).alias("candidates"),
        pl.lit("exact").alias("placement"),
    )
    others = errors.filter(~pl.col("plain"))
    names = ("location", "aspect", "explanation", "severity", "score_reduction")
    columns = [others[name].to_list() for name in (*names, "suggestion", "context")]
    outputs = others["hypothesis"].to_list()
    found = [
        place(ErrorRecord(*error), text)
        for *error, text in zip(*columns, outputs, strict=True)
    ]  # fmt: skip
    kinds: Mapping[str, pl.DataType] = {
        "start": pl.Int32(), "end": pl.Int32(), "occurrence": pl.Int32(),
        "candidates": pl.List(pl.Int32),
    }  # fmt: skip
    others = others.with_columns(
        pl.Series(name, [getattr(one, name) for one in found], dtype=kinds.get(name, pl.String()))
        for name in _PLACED
    )
    return pl.concat([once, others], how="diagonal").sort("row")


def _dead(ended: pl.DataFrame, chosen: pl.DataFrame) -> pl.DataFrame:
    """Return the examples that an unusable answer ended, in the columns of the dead ones."""
    return (
        chosen.join(ended, on=["channel", "id"])
        .with_columns(
            pl.col("error_class").replace_strict(_DETAILS).alias("detail"),
            pl.lit(0, dtype=pl.Int32).alias("attempts"),
        )
        .select(schema.DEAD.names)
    )
