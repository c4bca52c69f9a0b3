"""Sources: from ``--seeds NAME=PATTERN`` to the seed rows of each file.

The names ``socialchemistry``, ``sbic`` and ``ethics`` select the reader of that source; any other
name is a source of the user's own, published under that name and read with a field map.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import polars as pl

from pipelines.option_values import named_value
from pipelines.prosocial.schema import REJECTED, SBIC, SOCIAL_CHEMISTRY, SOURCES
from pipelines.prosocial.seeds import ethics, generic, sbic, social_chemistry
from pipelines.prosocial.seeds.generic import DEFAULT_FIELD_MAP, FieldMap, parse_field_map
from transforms.errors import InputError, OptionError
from transforms.frames import polars_schema
from transforms.reading.files import expand
from transforms.reading.records import TableFormat
from transforms.reading.tables import header, read_table, table_format

ETHICS = "ethics"

Rows = Callable[[pl.DataFrame, str], tuple[pl.DataFrame, pl.DataFrame]]

_REJECTED_SCHEMA = polars_schema(REJECTED)


class SeedRows(NamedTuple):
    """Some rows of a file: seed rows (SEED_ROWS), rejects (REJECTED), and how many were read."""

    seed_rows: pl.DataFrame
    rejected: pl.DataFrame
    rows: int


@dataclass(frozen=True)
class SeedInput:
    """One seed file and how it is read; picklable.

    Attributes:
        source_name: the name given to ``--seeds``.
        path: the file.
        form: its layout.
        field_map: the columns of a source of the user's own; None where its columns are named like
            the fields (only ``situation`` must be there), and for the known sources.
    """

    source_name: str
    path: str
    form: TableFormat
    field_map: FieldMap | None = None


@dataclass(frozen=True)
class _Reader:
    """How the files of a source are read.

    ``required`` columns must be there, ``optional`` ones may be, ``lists`` hold lists of texts.
    """

    required: tuple[str, ...]
    rows: Rows
    optional: tuple[str, ...] = ()
    lists: tuple[str, ...] = ()


_READERS = {
    SOCIAL_CHEMISTRY: _Reader(social_chemistry.COLUMNS, social_chemistry.rows),
    SBIC: _Reader(sbic.COLUMNS, sbic.rows),
    ETHICS: _Reader(ethics.COLUMNS, ethics.rows),
}
_AMBIGUOUS_ETHICS = _Reader(ethics.AMBIGUOUS_COLUMNS, ethics.ambiguous_rows)


def parse_seed_option(option: str) -> tuple[str, str]:
    """Return source name and path or pattern of ``NAME=PATTERN``.

    Raises:
        OptionError: the text has another form, or the name can't be a source's.
    """
    form = f"NAME=PATH, with one of the names {', '.join(_READERS)} or a name of your own"
    name, pattern = named_value("--seeds", option, form)
    if name in SOURCES and name not in _READERS:
        raise OptionError(f"--seeds {option!r}: {name} seeds come from the reader {ETHICS}=...")
    return name, pattern


def seed_inputs(seeds: Sequence[str], field_maps: Sequence[str] = ()) -> list[SeedInput]:
    """Return the checked seed files that the options name, each file of a source once, sorted.

    Args:
        seeds: ``NAME=PATTERN`` texts.
        field_maps: ``NAME:situation=COLUMN,...`` texts, each for one name of the user's own.

    Raises:
        OptionError: an option that can't be read, or a field map for no source.
        InputError: no file for a pattern, or a file that ``check`` refuses.
    """
    patterns: dict[str, list[str]] = {}
    for option in seeds:
        name, pattern = parse_seed_option(option)
        patterns.setdefault(name, []).append(pattern)
    maps = _maps_by_name(field_maps, patterns)
    inputs = [
        seed_input(name, path, maps.get(name))
        for name in sorted(patterns)
        for path in expand(patterns[name])
    ]
    for one in inputs:
        check(one)
    return inputs


def seed_input(source_name: str, path: str, field_map: FieldMap | None = None) -> SeedInput:
    """Return the seed file at ``path`` with its layout, which its name and first lines tell.

    Raises:
        InputError: the file can't be read.
    """
    if source_name == ETHICS and ethics.is_named_ambiguous(path):
        # Posts are full of the other delimiters: the first one would be taken for a header's.
        form = table_format(path, delimiter=",")
        if ethics.is_headerless(header(path, form)):
            form = replace(form, columns=ethics.AMBIGUOUS_COLUMNS)
    else:
        form = table_format(path)
    return SeedInput(source_name, path, form, field_map)


def check(one: SeedInput) -> None:
    """Refuse a file whose header lacks a column that its source needs.

    Raises:
        InputError: names the file, the missing columns, those that are there, and the remedy.
    """
    there = header(one.path, one.form)
    missing = [column for column in _reader(one).required if column not in there]
    if not missing:
        return
    if one.source_name in _READERS:
        remedy = (
            f"give the original {one.source_name} file, or read it as a source of your own with "
            "--seeds mine=PATH --field-map mine:situation=COLUMN"
        )
    else:
        remedy = f"name the columns with --field-map {one.source_name}:situation=COLUMN,..."
    raise InputError(
        f"{one.path}: no column {', '.join(missing)} (there are: {_listed(there)}); {remedy}"
    )


def read_seed_rows(one: SeedInput) -> Iterator[SeedRows]:
    """Yield the rows of a seed file chunk by chunk; each row is a seed row or a reject.

    Raises:
        InputError: the file can't be read to its end.
    """
    reader = _reader(one)
    schema: dict[str, pl.DataType | type[pl.DataType]] = {
        column: pl.List(pl.String) if column in reader.lists else pl.String()
        for column in (*reader.required, *reader.optional)
    }
    for chunk in read_table(one.path, one.form, schema, frozenset(reader.optional)):
        seed_rows, unusable = reader.rows(chunk.frame, one.path)
        unread = chunk.rejected.select(
            pl.lit("seed_row").alias("unit"),
            "rule",
            "value",
            pl.lit("rejected").alias("outcome"),
            pl.lit(None).alias("key"),
            pl.lit(None).alias("turn"),
            "field",
            pl.lit(one.source_name).alias("source"),
            pl.lit(None).alias("split"),
            "file",
            "line",
            "text",
            pl.lit(1).alias("input_rows"),
        ).cast(dict(_REJECTED_SCHEMA))  # type: ignore[arg-type]
        yield SeedRows(seed_rows, pl.concat([unread, unusable]), chunk.rows)


def _reader(one: SeedInput) -> _Reader:
    if one.source_name == ETHICS and one.form.columns == ethics.AMBIGUOUS_COLUMNS:
        return _AMBIGUOUS_ETHICS
    if one.source_name in _READERS:
        return _READERS[one.source_name]
    field_map = one.field_map or DEFAULT_FIELD_MAP
    rows = partial(_generic_rows, one.source_name, field_map)
    columns = field_map.columns
    needed = len(columns) if one.field_map is not None else 1
    in_cells = field_map.rots is None or one.form.kind in ("csv", "tsv")
    lists = () if in_cells else (str(field_map.rots),)
    return _Reader(columns[:needed], rows, columns[needed:], lists)


def _generic_rows(
    source_name: str, field_map: FieldMap, frame: pl.DataFrame, path: str
) -> tuple[pl.DataFrame, pl.DataFrame]:
    return generic.rows(frame, path, source_name, field_map)


def _maps_by_name(
    field_maps: Sequence[str], patterns: Mapping[str, Sequence[str]]
) -> dict[str, FieldMap]:
    maps: dict[str, FieldMap] = {}
    for option in field_maps:
        name, field_map = parse_field_map(option)
        if name in _READERS:
            raise OptionError(f"--field-map {option!r}: {name} has its own columns; leave it out")
        if name not in patterns:
            raise OptionError(f"--field-map {option!r}: add --seeds {name}=PATH, or leave it out")
        if name in maps:
            raise OptionError(f"--field-map {option!r}: a second map for {name}; leave one")
        maps[name] = field_map
    return maps


def _listed(columns: Sequence[str], most: int = 40, characters: int = 60) -> str:
    """Return column names for a message; a headerless file's first row stays out of it."""
    if any(len(column) > characters for column in columns):
        return f"{len(columns)} that don't look like names; the file may have no header line"
    shown = ", ".join(columns[:most])
    return shown if len(columns) <= most else f"{shown}, and {len(columns) - most} more"
