from __future__ import annotations

import pytest

from pipelines.metricinstruct.sources.linearise import (
    highlighted_cells,
    highlighted_rows,
    record,
    triples,
    tuples,
)
from pipelines.metricinstruct.sources.values import Unusable


def cell(value, header=False, rows=1, columns=1):
    return {"value": value, "is_header": header, "row_span": rows, "column_span": columns}


def test_triples_and_tuples():
    rows = [["a", "b", "c"], ["d", "e", "f, g"]]
    assert triples(rows) == "(a,b,c)\n(d,e,f, g)"
    assert tuples(rows) == "( a, b, c)\n( d, e, f, g)"


def test_record():
    assert record(["year", "title"], ["1788", "mill"]) == "the year is 1788 , the title is mill ."


def test_highlighted_rows_are_sorted_and_grouped():
    table = [["Year", "Name"], ["1788", "Mill"], ["1800", "Inn"]]
    assert highlighted_rows("Houses", table, [[2, 0], [1, 1], [1, 0]]) == (
        'Given the table title of "Houses" . In row 1 , the Year is 1788 , the Name is Mill . '
        "In row 2 , the Year is 1800 . "
    )


def test_headers_reach_over_the_spans_of_cells():
    table = [
        [cell("Month", True, rows=2), cell("Games", True, columns=2)],
        [cell("won", True), cell("lost", True)],
        [cell("May", True), cell("3"), cell("1")],
    ]
    assert highlighted_cells("Club", "", table, [[2, 2], [1, 0]]) == (
        "Given the table title of Club . "
        "Given the cell value of 1 . The column header : Games , lost . The row header : May . "
        "Given the cell value of won . The column header : Games . The row header : Month ."
    )


@pytest.mark.parametrize("place", [[5, 0], [0, 5], [-1, 0], [0], ["0", "1"]])
def test_cells_outside_the_table_are_unusable(place):
    with pytest.raises(Unusable, match="cell_outside_table"):
        highlighted_rows("a", [["h"], ["v"]], [place])
    with pytest.raises(Unusable, match="cell_outside_table"):
        highlighted_cells("a", "b", [[cell("v")]], [place])
