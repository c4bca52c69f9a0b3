"""Options of the ProsocialDialog pipeline."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, field_validator

from pipelines.option_parsing import OptionParser, new_parser
from pipelines.option_values import one_as_many, pairs_of
from pipelines.options import RunOptions

DEFAULT_ANNOTATOR_SALT = "remint"


class ProsocialOptions(RunOptions):
    """Everything a run of the ProsocialDialog pipeline needs to know.

    ``seeds`` and ``field_map`` hold ``NAME=PATTERN`` and ``NAME:FIELD=COLUMN,...`` as given.
    """

    seeds: tuple[str, ...] = Field(min_length=1)
    field_map: tuple[str, ...] = ()
    crowd: Literal["files", "llm"] = "files"
    responses: tuple[str, ...] = ()
    annotations: tuple[str, ...] = ()
    filters: str | None = None
    annotator_salt: str = Field(default=DEFAULT_ANNOTATOR_SALT, min_length=1)

    @field_validator("seeds", mode="before")
    @classmethod
    def _pairs_from_mapping(cls, value: Any) -> Any:
        return pairs_of(value)

    @field_validator("field_map", "responses", "annotations", mode="before")
    @classmethod
    def _one_as_many(cls, value: Any) -> Any:
        return one_as_many(value)


def prosocial_parser() -> OptionParser:
    """Return the command's parser."""
    parser = new_parser(
        "remint prosocial",
        "Regenerate ProsocialDialog from seed texts.",
        "so many seeds, chosen by key: the same ones each time",
    )
    data = parser.add_argument_group("seeds and crowd")
    data.add_argument(
        "--seeds",
        nargs="+",
        action="extend",
        metavar="NAME=PATTERN",
        help="seed files; socialchemistry, sbic and ethics have readers, other names are generic",
    )
    data.add_argument(
        "--field-map",
        nargs="+",
        action="extend",
        metavar="NAME:FIELD=COLUMN,...",
        help="columns of generic seeds: situation=, split=, rots=, etc=",
    )
    data.add_argument(
        "--crowd",
        metavar="MODE",
        help="files (default): people do the crowd's part; llm: the model does what files lack",
    )
    data.add_argument(
        "--responses", nargs="+", action="extend", metavar="PATTERN", help="crowd responses, JSONL"
    )
    data.add_argument(
        "--annotations", nargs="+", action="extend", metavar="PATTERN", help="safety votes, JSONL"
    )
    data.add_argument(
        "--filters",
        metavar="FILE",
        help="YAML of the filters' levels and thresholds that differ from filters.yaml",
    )
    data.add_argument(
        "--annotator-salt",
        metavar="TEXT",
        help="secret under which annotator ids are hashed for publication",
    )
    return parser
