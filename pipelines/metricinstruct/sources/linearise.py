"""Linearisation: tables and triples as the text in which MetricInstruct gives them to systems."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pipelines.metricinstruct.sources.values import Unusable, as_object, as_whole, distinct, shown

#: A cell that spans more rows or columns than any table has is damage.
MAX_SPAN = 10_000


def triples(rows: Sequence[Sequence[str]]) -> str:
    """Return WebNLG triples as ``(s,p,o)``, one a line."""
    return "\n".join(f"({','.join(row)})" for row in rows)


def tuples(rows: Sequence[Sequence[str]]) -> str:
    """Return DART tuples as ``( a, b, c)``, one a line."""
    return "\n".join(f"( {', '.join(row)})" for row in rows)


def record(headers: Sequence[str], cells: Sequence[str]) -> str:
    """Return one row of a table as ``the HEADER is VALUE , the HEADER is VALUE .``.

    Raises:
        Unusable: there are not as many headers as cells, or there is none.
    """
    if not headers or len(headers) != len(cells):
        raise Unusable("ragged_table", "headers", f"{len(cells)}/{len(headers)}")
    pairs = zip(headers, cells, strict=True)
    return " , ".join(f"the {header} is {cell}" for header, cell in pairs) + " ."


def highlighted_rows(title: str, table: list[list[str]], cells: list[list[Any]]) -> str:
    """Return the highlighted cells of a FeTaQA table, row by row, below the title.

    Args:
        title: of the table.
        table: its rows of cells, the first of them the header.
        cells: ``[row, column]`` of each highlighted cell.

    Raises:
        Unusable: a highlighted cell is outside the table.
    """
    by_row: dict[int, list[tuple[str, str]]] = {}
    for row, column in sorted(_place(cell, "highlighted_cell_ids") for cell in cells):
        if row >= len(table) or column >= min(len(table[0]), len(table[row])):
            raise Unusable("cell_outside_table", "highlighted_cell_ids", f"{row},{column}")
        by_row.setdefault(row, []).append((table[0][column], table[row][column]))
    text = f'Given the table title of "{title}" . '
    for row, pairs in by_row.items():
        text += f"In row {row} , " + record(*zip(*pairs, strict=True)) + " "
    return text


def highlighted_cells(
    page: str, section: str, table: list[list[Any]], cells: list[list[Any]]
) -> str:
    """Return the highlighted cells of a ToTTo table, each with its headers, below the titles.

    Headers are the header cells above a cell in its columns, and before it in its rows, with spans
    taken into account.

    Args:
        page: title of the page, may be empty.
        section: title of the section, may be empty.
        table: rows of cells as ``as_cell`` gives them.
        cells: row, and index within that row, of each highlighted cell.

    Raises:
        Unusable: a highlighted cell is outside the table.
    """
    placed = _placed(table)
    parts = []
    if page:
        parts.append(f"Given the table title of {page} .")
    if section:
        parts.append(f"Given the table section title of {section} .")
    for row, index in (_place(cell, "highlighted_cells") for cell in cells):
        if row >= len(table) or index >= len(table[row]):
            raise Unusable("cell_outside_table", "highlighted_cells", f"{row},{index}")
        cell, area = table[row][index], placed[row][index]
        parts.append(f"Given the cell value of {cell['value']} .")
        if columns := _headers(table, placed, area, above=True):
            parts.append(f"The column header : {' , '.join(columns)} .")
        if rows := _headers(table, placed, area, above=False):
            parts.append(f"The row header : {' , '.join(rows)} .")
    return " ".join(parts)


def as_cell(value: Any) -> dict[str, Any]:
    """Return a ToTTo cell with ``value``, ``is_header``, ``row_span`` and ``column_span``.

    Raises:
        Unusable: one of them is missing or of another type.
    """
    cell = as_object(value, "table")
    if not isinstance(cell.get("value"), str) or not isinstance(cell.get("is_header"), bool):
        raise Unusable("not_a_cell", "table", shown(value))
    spans = {name: as_whole(cell.get(name), name) for name in ("row_span", "column_span")}
    if any(not 0 <= span <= MAX_SPAN for span in spans.values()):
        raise Unusable("not_a_cell", "table", shown(value))
    return {"value": cell["value"], "is_header": cell["is_header"], **spans}


def _place(cell: list[Any], name: str) -> tuple[int, int]:
    """Return row and column of a highlighted cell."""
    if len(cell) != 2 or any(type(part) is not int or part < 0 for part in cell):
        raise Unusable("cell_outside_table", name, shown(cell))
    return cell[0], cell[1]


#: First row, row behind the last, first column, column behind the last.
_Area = tuple[int, int, int, int]


def _placed(table: list[list[Any]]) -> list[list[_Area]]:
    """Return where each cell stands in the grid that the spans of all cells make."""
    taken: set[tuple[int, int]] = set()
    result = []
    for number, row in enumerate(table):
        column, areas = 0, []
        for cell in row:
            while (number, column) in taken:
                column += 1
            height, width = max(1, cell["row_span"]), max(1, cell["column_span"])
            areas.append((number, number + height, column, column + width))
            below = range(number + 1, min(number + height, len(table)))
            taken.update((r, c) for r in below for c in range(column, column + width))
            column += width
        result.append(areas)
    return result


def _headers(
    table: list[list[Any]], placed: list[list[_Area]], area: _Area, above: bool
) -> tuple[str, ...]:
    top, bottom, left, right = area
    found = []
    for cells, areas in zip(table, placed, strict=True):
        for cell, (from_row, to_row, from_column, to_column) in zip(cells, areas, strict=True):
            if not cell["is_header"] or not cell["value"]:
                continue
            if above and to_row <= top and from_column < right and to_column > left:
                found.append(cell["value"])
            if not above and to_column <= left and from_row < bottom and to_row > top:
                found.append(cell["value"])
    return distinct(*found)
