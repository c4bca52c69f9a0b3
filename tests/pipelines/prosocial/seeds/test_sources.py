from __future__ import annotations

import gzip
import json
import pickle
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from pipelines.prosocial.schema import REJECTED, SEED_ROWS
from pipelines.prosocial.seeds.selection import Selection, select
from pipelines.prosocial.seeds.sources import (
    SeedInput,
    parse_seed_option,
    read_seed_rows,
    seed_input,
    seed_inputs,
)
from transforms.errors import InputError, OptionError
from transforms.frames import concat, polars_schema
from transforms.ledger import build_ledger

SharedData = Callable[[str], Path]

ETHICS_HEADER = "label,input,is_short,edited\n"


def read(inputs: list[SeedInput]) -> tuple[pl.DataFrame, pl.DataFrame, int]:
    """Return all seed rows, all rejects and the number of rows of the files."""
    chunks = [chunk for one in inputs for chunk in read_seed_rows(one)]
    for chunk in chunks:
        assert chunk.seed_rows.height + chunk.rejected["input_rows"].sum() == chunk.rows
    return (
        concat((chunk.seed_rows for chunk in chunks), SEED_ROWS),
        concat((chunk.rejected for chunk in chunks), polars_schema(REJECTED)),
        sum(chunk.rows for chunk in chunks),
    )


def test_options_name_source_and_pattern() -> None:
    assert parse_seed_option("sbic=data/SBIC.v2.*.csv") == ("sbic", "data/SBIC.v2.*.csv")
    assert parse_seed_option("mine=a=b.csv") == ("mine", "a=b.csv")


@pytest.mark.parametrize(
    ("option", "part"),
    [
        ("seeds.csv", "NAME=PATH"),
        ("sbic=", "NAME=PATH"),
        ("=seeds.csv", "lower-case"),
        ("My Seeds=seeds.csv", "lower-case"),
        ("ethics_amt=seeds.csv", "ethics=..."),
    ],
)
def test_wrong_options_are_refused_with_the_remedy(option: str, part: str) -> None:
    with pytest.raises(OptionError, match=part):
        parse_seed_option(option)


@pytest.mark.parametrize(
    ("field_maps", "part"),
    [
        (["other:situation=text"], "add --seeds other=PATH"),
        (["sbic:situation=post"], "sbic has its own columns"),
        (["mine:situation=text", "mine:situation=text"], "a second map for mine"),
    ],
)
def test_field_maps_belong_to_one_source_of_the_users_own(field_maps: list[str], part: str) -> None:
    with pytest.raises(OptionError, match=part):
        seed_inputs(["mine=seeds.csv"], field_maps)


def test_inputs_are_sorted_each_file_once_and_picklable(tmp_path: Path) -> None:
    for name in ("cm_train.csv", "cm_test.csv"):
        (tmp_path / name).write_text(ETHICS_HEADER, encoding="utf-8")
    inputs = seed_inputs([f"ethics={tmp_path}/cm_t*.csv", f"ethics={tmp_path}/cm_train.csv"])
    assert [Path(one.path).name for one in inputs] == ["cm_test.csv", "cm_train.csv"]
    assert pickle.loads(pickle.dumps(inputs)) == inputs


def test_a_pattern_that_matches_nothing_stops_the_run(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no file matches"):
        seed_inputs([f"sbic={tmp_path}/SBIC.*.csv"])


@pytest.mark.parametrize(
    ("source", "missing", "remedy"),
    [
        ("socialchemistry", "split, rot-agree, rot-char-targeting", "the original socialchemistry"),
        ("sbic", "post, targetMinority, targetStereotype", "the original sbic file"),
        ("ethics", "input, is_short", "the original ethics file"),
        ("mine", "situation", "--field-map mine:situation=COLUMN"),
    ],
)
def test_wrong_columns_stop_the_run_with_file_columns_and_remedy(
    tmp_path: Path, source: str, missing: str, remedy: str
) -> None:
    path = tmp_path / "seeds.csv"
    path.write_text("label,text\n1,hiding keys\n", encoding="utf-8")
    with pytest.raises(InputError) as caught:
        seed_inputs([f"{source}={path}"])
    message = str(caught.value)
    assert message.startswith(f"{path}: no column {missing}")
    assert "(there are: label, text)" in message
    assert remedy in message


def test_mapped_columns_must_be_there(tmp_path: Path) -> None:
    path = tmp_path / "seeds.csv"
    path.write_text("text\nhiding keys\n", encoding="utf-8")
    with pytest.raises(InputError, match="no column part "):
        seed_inputs([f"mine={path}"], ["mine:situation=text,split=part"])


def test_a_headerless_file_of_another_name_is_not_shown_in_the_message(tmp_path: Path) -> None:
    path = tmp_path / "posts.csv"
    path.write_text(f'"AITA for hiding keys? | {"A long story. " * 20}"\n', encoding="utf-8")
    with pytest.raises(InputError, match="may have no header line") as caught:
        seed_inputs([f"ethics={path}"])
    assert "hiding keys" not in str(caught.value)


def test_an_ambiguous_file_needs_no_header(tmp_path: Path) -> None:
    path = tmp_path / "cm_ambig.csv"
    path.write_text('AITA for hiding keys? | a; b\n"WIBTA if I hid? | a,\n\nb"\n', encoding="utf-8")
    rows, rejected, number = read(seed_inputs([f"ethics={path}"]))
    assert rejected.is_empty()
    assert number == 2
    assert rows.select("line", "situation", "rule").rows() == [
        (1, "hiding keys", "no_label"),
        (2, "I hid", "no_label"),
    ]


def test_rows_that_can_not_be_read_are_rejects_beside_those_that_can_not_be_used(
    tmp_path: Path,
) -> None:
    path = tmp_path / "cm_train.csv"
    path.write_text(
        ETHICS_HEADER + "1,I hid keys.,True,False\n1,ragged\n1,,True,False\n", encoding="utf-8"
    )
    rows, rejected, number = read(seed_inputs([f"ethics={path}"]))
    assert number == 3
    assert rows["situation"].to_list() == ["I hid keys."]
    assert rejected.select("unit", "rule", "outcome", "source", "line", "input_rows").rows() == [
        ("seed_row", "ragged_row", "rejected", "ethics", 3, 1),
        ("seed_row", "blank_situation", "rejected", "ethics_amt", 4, 1),
    ]


OWN = [
    {"situation": "hiding keys", "split": "dev", "rots": ["It's mean.", "You should ask."]},
    {"situation": "hiding maps", "split": None, "rots": None},
]


def write_own(path: Path) -> None:
    if path.suffix == ".parquet":
        pl.DataFrame(OWN).write_parquet(path)
    elif path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in OWN), encoding="utf-8")
    elif path.suffix == ".json":
        path.write_text(json.dumps(OWN), encoding="utf-8")
    else:
        cells = [{**row, "rots": row["rots"] and json.dumps(row["rots"])} for row in OWN]
        separator = "\t" if path.suffix == ".tsv" else ","
        pl.DataFrame(cells).write_csv(path, separator=separator)


@pytest.mark.parametrize("extension", ["csv", "tsv", "jsonl", "json", "parquet"])
def test_own_seeds_of_any_kind_are_read_alike(tmp_path: Path, extension: str) -> None:
    path = tmp_path / f"seeds.{extension}"
    write_own(path)
    for field_maps in ([], ["mine:situation=situation,split=split,rots=rots"]):
        rows, rejected, _ = read(seed_inputs([f"mine={path}"], field_maps))
        assert rejected.is_empty()
        assert rows.select("source", "situation", "split", "rot", "etc").rows() == [
            ("mine", "hiding keys", "validation", "It's mean.\nYou should ask.", ""),
            ("mine", "hiding maps", None, None, ""),
        ]


def selected(inputs: list[SeedInput]) -> tuple[Selection, pl.DataFrame, int]:
    rows, rejected, number = read(inputs)
    selection = select(rows, salt="s")
    ended = selection.seeds["input_rows"].sum() + selection.rejected["input_rows"].sum()
    assert ended + rejected.height == number
    assert build_ledger(selection.counts, ["select"])["closes"]
    return selection, rejected, number


def lines_of(path: Path) -> int:
    """Return the number of records of a gzipped CSV, counted by Polars."""
    with gzip.open(path) as file:
        return pl.read_csv(file.read(), has_header=False, infer_schema=False).height


def test_every_real_social_chemistry_row_is_accounted_for(shared_data: SharedData) -> None:
    paths = [
        shared_data(f"social_chem_101/{kind}_sc101.csv.gz") for kind in ("obligatory", "optional")
    ]
    selection, rejected, number = selected([seed_input("socialchemistry", str(p)) for p in paths])
    assert number == sum(lines_of(path) - 1 for path in paths)
    assert rejected.is_empty()
    raw = pl.concat(
        pl.read_csv(path, infer_schema=False).select(
            "situation", "rot-char-targeting", pressure=pl.col("action-pressure").cast(pl.Float64)
        )
        for path in paths
    )
    qualifying = raw.filter(
        (pl.col("rot-char-targeting") == "char-0")
        & ((pl.col("pressure") < 0) | (pl.col("pressure") == 2))
    )
    expected = {text.strip().casefold() for text in qualifying["situation"]}
    assert {text.casefold() for text in selection.seeds["situation"]} == expected
    assert selection.seeds["split"].unique().to_list() == ["train"]
    assert selection.seeds["rots"].list.len().is_between(1, 5).all()


def test_every_real_ethics_row_is_accounted_for(shared_data: SharedData) -> None:
    paths = [shared_data(f"ethics_commonsense/cm_{kind}.csv.gz") for kind in ("test", "ambig")]
    selection, rejected, number = selected([seed_input("ethics", str(path)) for path in paths])
    assert number == lines_of(paths[0]) - 1 + lines_of(paths[1])
    assert rejected.is_empty()
    raw = pl.read_csv(paths[0], infer_schema=False)
    short = raw.filter((pl.col("label") == "1") & (pl.col("is_short") == "True"))["input"]
    amt = selection.seeds.filter(pl.col("source") == "ethics_amt")["situation"]
    assert {text.casefold() for text in amt} == {text.strip().casefold() for text in short}
    reddit = selection.seeds.filter(pl.col("source") == "ethics_reddit")
    assert reddit.height > 800
    assert not reddit["situation"].str.contains(r"(?i)^\W*(aita|wibta)").any()
    assert not reddit["situation"].str.contains("|", literal=True).any()
    assert selection.seeds["split"].unique().to_list() == ["test"]
    no_label = selection.rejected.filter(pl.col("rule") == "no_label")
    assert no_label["input_rows"].sum() == lines_of(paths[1])


def test_every_real_sbic_row_is_accounted_for(shared_data: SharedData) -> None:
    paths = [
        shared_data(f"schema_fixtures/social_bias_frames__SBIC.v2.{part}.csv")
        for part in ("trn", "dev", "tst")
    ]
    selection, rejected, number = selected([seed_input("sbic", str(path)) for path in paths])
    assert number == 8
    assert rejected.is_empty()
    assert selection.seeds.select("source", "split", "input_rows").rows() == [
        ("sbic", "validation", 3)
    ]
    assert selection.seeds["rots"].list.len().to_list() == [2]
    assert set(selection.rejected["rule"]) == {"target"}
