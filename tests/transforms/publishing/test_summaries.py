from __future__ import annotations

import polars as pl

from transforms.publishing.summaries import markdown_table, parts, ratio, shares, spoken


def test_shares_name_what_is_wanted_first_and_add_up():
    counts = pl.DataFrame({"kind": ["b", "a", "b", "c"], "n": [1, 4, 2, 1]})
    found = shares(counts, ("c", "none"), "kind")
    assert [(row["value"], row["n"]) for row in found] == [
        ("c", 1),
        ("none", 0),
        ("a", 4),
        ("b", 3),
    ]
    assert sum(row["share"] for row in found) == 1
    assert parts(found) == "c 1, none 0, a 4, b 3"
    nothing = shares(counts.clear(), ("a",), "kind")
    assert nothing == [{"value": "a", "n": 0, "share": None}]
    assert parts([]) == "none"


def test_a_table_tells_undefined_from_zero():
    table = markdown_table(("name", "n"), [("rows", 1234), ("share", 0.5), ("alpha", None)])
    assert table.splitlines() == [
        "| name | n |",
        "| --- | --- |",
        "| rows | 1,234 |",
        "| share | 0.500 |",
        "| alpha | undefined |",
    ]
    assert ratio(1, 0) is None
    assert spoken("error_free_share") == "error free share"


def test_what_a_name_from_data_holds_stays_in_its_cell():
    table = markdown_table(("name", "n"), [("a|b\nc\r\n`d|`", 1)])
    assert table.splitlines()[2:] == ["| a\\|b c `d\\|` | 1 |"]
