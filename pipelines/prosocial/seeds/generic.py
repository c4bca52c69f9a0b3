"""Seeds of your own: any table, with a map from our fields to its columns."""

from __future__ import annotations

from dataclasses import dataclass, fields

import polars as pl

from pipelines.option_values import mapped_columns
from pipelines.prosocial.seeds.cells import cell_texts, stripped
from pipelines.prosocial.seeds.rows import ROT_SEPARATOR, Reading, Rule, seed_rows
from transforms.errors import OptionError
from transforms.splits import SPLIT_NAMES, split_of_column


@dataclass(frozen=True)
class FieldMap:
    """Which columns of a file hold a seed's fields; None where the file has no such column.

    Attributes:
        situation: the seed text.
        split: train, validation, test (or dev, valid, trn, ...); blank draws one from the key.
        rots: candidate rules-of-thumb: in CSV and TSV one text or a JSON list of texts, in JSON and
            parquet a list or one text.
        etc: an id of the source's own, published as it is.
    """

    situation: str
    split: str | None = None
    rots: str | None = None
    etc: str | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        """The mapped columns, each once."""
        named = (self.situation, self.split, self.rots, self.etc)
        return tuple(dict.fromkeys(column for column in named if column is not None))


_FORM = (
    "NAME:situation=COLUMN,split=COLUMN,rots=COLUMN,etc=COLUMN with the NAME given to --seeds; all "
    "but situation can be left out"
)

#: What is read where no field map is given: columns named like the fields, if they are there.
DEFAULT_FIELD_MAP = FieldMap(situation="situation", split="split", rots="rots", etc="etc")


def parse_field_map(option: str) -> tuple[str, FieldMap]:
    """Return source name and map of ``NAME:situation=COLUMN[,split=COLUMN,rots=...,etc=...]``.

    Raises:
        OptionError: the text has another form, an unknown field, one twice, or no situation.
    """
    name, columns = mapped_columns(option, _FORM)
    known = [field.name for field in fields(FieldMap)]
    for field in columns:
        if field not in known:
            raise OptionError(
                f"--field-map {option!r}: no field {field!r}; the fields are {', '.join(known)}"
            )
    if "situation" not in columns:
        raise OptionError(f"--field-map {option!r}: add situation=COLUMN, the seed text's column")
    return name, FieldMap(**columns)


def rows(
    frame: pl.DataFrame, path: str, source_name: str, field_map: FieldMap
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return seed rows and rejects of rows with the columns of ``field_map``.

    Every row with a usable situation is selected, unless its split has a name that is none of ours.
    """
    split: pl.Expr = pl.lit(None, dtype=pl.String)
    rules: tuple[Rule, ...] = ()
    if field_map.split is not None:
        split = split_of_column(field_map.split)
        name = stripped(field_map.split)
        known = (name == "") | name.str.to_lowercase().is_in(list(SPLIT_NAMES))
        rules = (Rule("split", known, name),)
    rot: pl.Expr = pl.lit(None, dtype=pl.String)
    if field_map.rots is not None:
        rot = _rot(field_map.rots, frame.schema[field_map.rots])
    reading = Reading(
        source=pl.lit(source_name),
        split=split,
        situation=stripped(field_map.situation),
        situation_field=field_map.situation,
        etc=pl.lit("") if field_map.etc is None else stripped(field_map.etc),
        rot=rot,
        rules=rules,
    )
    return seed_rows(frame, reading, path)


def _rot(column: str, dtype: pl.DataType) -> pl.Expr:
    """Return a cell's rules-of-thumb one per line, null where it has none."""
    texts = pl.col(column)
    if dtype == pl.String:
        texts = texts.map_elements(cell_texts, return_dtype=pl.List(pl.String))
    cleaned = texts.list.eval(pl.element().str.replace_all(r"\s+", " ").str.strip_chars())
    filled = cleaned.list.eval(pl.element().filter(pl.element() != ""))
    return pl.when(filled.list.len() > 0).then(filled.list.join(ROT_SEPARATOR))
