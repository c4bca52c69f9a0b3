"""The sources by name, and those that a user describes by a map of fields."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from pipelines.metricinstruct.schema import CHANNELS, TASKS
from pipelines.metricinstruct.sources import (
    data_to_text,
    instructions,
    question_answering,
    summarization,
    translation,
)
from pipelines.metricinstruct.sources.source import (
    Example,
    Rejected,
    Row,
    Source,
    beside_input,
    row_by_row,
)
from pipelines.metricinstruct.sources.values import Unusable, shown
from transforms.errors import OptionError
from transforms.reading.decode import fault_of
from transforms.splits import SPLIT_NAMES

SOURCES: dict[str, Source] = {
    source.name: source
    for module in (summarization, translation, data_to_text, question_answering, instructions)
    for source in module.SOURCES
}

#: What is known of the licence of a source that a user describes.
OWN_LICENCE = "as its user knows it"

#: How the outputs of each source are chosen (``choice.ChoiceSettings.choices``).
DEFAULT_CHOICES = {name: source.choice for name, source in SOURCES.items()}

#: What a map of fields may name, beside ``instruction``.
MAPPED = ("input_context", "reference", "hypothesis", "system", "id", "split", "quality")


def source_named(name: str, channel: str) -> Source:
    """Return the source ``name``, which must serve ``channel``.

    Raises:
        OptionError: there is none, or it doesn't serve it.
    """
    if name not in SOURCES:
        raise OptionError(f"there is no source {name}; known are {', '.join(sorted(SOURCES))}")
    source = SOURCES[name]
    if channel not in source.channels:
        raise OptionError(
            f"{name} doesn't serve the {channel} channel, only {', '.join(source.channels)}; "
            "describe its file by a map of fields if it has what is needed"
        )
    return source


def described_source(
    name: str, task: str, fields: Mapping[str, str], instruction: str | None = None
) -> Source:
    """Return a source of JSON lines, CSV, parquet or a Hub dataset by a map of its fields.

    Args:
        name: how it is called in the data.
        task: one of ``TASKS``.
        fields: from ``input_context``, ``reference``, ``hypothesis``, ``system``, ``id``,
            ``split``, ``quality`` and ``instruction`` to the file's fields. A reference may be a
            text or a list of texts.
        instruction: of all rows; needed where ``fields`` has none.

    Raises:
        OptionError: the task or a field is unknown, what every row needs is missing, or the
            instruction says nothing.
    """
    if task not in TASKS:
        raise OptionError(f"{name}: there is no task {task}; known are {', '.join(TASKS)}")
    if unknown := sorted(set(fields) - {*MAPPED, "instruction"}):
        raise OptionError(
            f"{name}: can't map {', '.join(unknown)}; fields are {', '.join(MAPPED)}, instruction"
        )
    if name in SOURCES:
        raise OptionError(f"{name}: is a source of that name already; call yours something else")
    if (instruction is None) == ("instruction" not in fields):
        raise OptionError(f"{name}: give either an instruction or the field that has it")
    if instruction is not None and fault_of(instruction):
        raise OptionError(f"{name}: its instruction is not text; give it in UTF-8")
    if instruction is not None and not instruction.strip():
        raise OptionError(
            f"{name}: its instruction is blank; say what the systems were asked to do"
        )
    if not {"input_context", "instruction"} & set(fields):
        raise OptionError(f"{name}: map input_context (or, without an input, instruction)")

    def read(row: Row) -> Iterator[Example | Rejected]:
        def optional(column: str) -> str | None:
            return row.optional(fields[column]) if column in fields else None

        input_context = optional("input_context") or ""
        if "instruction" not in fields:
            input_context = row.text(fields["input_context"])
        example = Example(
            input_context,
            item=row.identifier(fields["id"]) if "id" in fields else None,
            instruction=row.text(fields["instruction"]) if "instruction" in fields else None,
        )
        with beside_input(example):
            references: tuple[str, ...] = ()
            if (reference := fields.get("reference")) and reference in row:
                is_list = isinstance(row.fields[reference], list)
                references = row.texts(reference) if is_list else (row.text(reference),)
            yield replace(
                example,
                references=references,
                hypothesis=row.text(fields["hypothesis"]) if "hypothesis" in fields else None,
                system=optional("system") or "unknown",
                split=_split(optional("split"), fields),
                quality=row.number(fields["quality"]) if "quality" in fields else None,
            )

    needed = tuple(
        fields[column]
        for column in ("input_context", "reference", "hypothesis", "instruction")
        if column in fields
    )
    return Source(
        name,
        task,
        CHANNELS,
        instruction,
        OWN_LICENCE,
        f"rows with {', '.join(needed)}",
        row_by_row(read),
        (needed,),
    )


def _split(name: str | None, fields: Mapping[str, str]) -> str | None:
    if name is None:
        return None
    split = SPLIT_NAMES.get(name.lower())
    if split is None:
        raise Unusable("unknown_split", fields["split"], shown(name))
    return split
