"""Cells: where the records of a csv or tsv text stand, and whether its quotes are in order.

``split_records`` walks through any text; ``clean_layout`` proves of most blocks, with array
operations alone, that they hold no fault, so that they need not be walked through.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from transforms.reading.decode import MAX_RECORD_BYTES
from transforms.reading.records import TableFormat

_MARK = "\ufeff"
_LINE_END = re.compile("\r*\n")
#: So many lines within a ragged record that look like rows are rows that a quote swallowed.
_WHOLE_ROWS = 3


class Record(NamedTuple):
    """One record of a text: where it stands, and its cells or the rule that it breaks.

    Attributes:
        begin: index of its first character.
        end: index behind its line end.
        cells: its cells; none for a blank line, which is no record.
        rule: the rule broken by its quotes, or None.
    """

    begin: int
    end: int
    cells: list[str]
    rule: str | None = None


@dataclass(frozen=True)
class Layout:
    """Where the whole records of a clean block end.

    Attributes:
        end: bytes of the block that are whole records.
        lines: for each record, how many line ends precede it in the block (int64).
    """

    end: int
    lines: npt.NDArray[np.int64]


def split_records(
    text: str, form: TableFormat, final: bool, width: int | None = None
) -> Iterator[Record]:
    """Yield the records, blank ones too, of ``text``, which consists of whole lines.

    A record whose quoted cell does not end within ``text`` is yielded as broken only if the text is
    ``final`` or the record longer than ``MAX_RECORD_BYTES``; else the records end before it. Where
    ``width`` is given, a record of another number of cells is ragged; if all the lines within it
    are rows of that number, another row's quote closed its own, and it ends with its first line.
    """
    unquoted_cell = re.compile(f"[^\n{re.escape(form.delimiter)}]*")
    begin, size = 0, len(text)
    while begin < size:
        line_end = end = text.index("\n", begin) + 1
        start = begin + 1 if text[begin] == _MARK else begin
        rule = None
        if form.quoted and text.find('"', start, end) >= 0:
            cells, end, rule = _quoted_record(text, start, form.delimiter, unquoted_cell)
            if rule == "open":
                if not final and size - begin <= MAX_RECORD_BYTES:
                    return
                rule = "unclosed_quote"
        else:
            content = text[start : end - 1].rstrip("\r")
            cells = content.split(form.delimiter) if content else []
        if width and cells and len(cells) != width and not rule:
            rule = "ragged_row"
            between = text[line_end:end].split("\n")[:-2]
            are_rows = all(line.count(form.delimiter) == width - 1 for line in between)
            if width > 1 and len(between) >= _WHOLE_ROWS and are_rows:
                rule, end = "unclosed_quote", line_end
        yield Record(begin, end, cells, rule)
        begin = end


def clean_layout(data: bytes, form: TableFormat, width: int) -> Layout | None:
    """Return the layout of a block without any fault, or None where it may have one.

    Quotes are numbered from 0. As long as all is well, an even one opens a cell or is the second
    half of a doubled quote, an odd one closes a cell or is the first half; so each even one must
    stand at a cell's beginning or right behind an odd one, each odd one at a cell's end or right
    before an even one. Where that holds for all, line ends and delimiters behind an even number of
    quotes, and only those, part records and cells.
    """
    if b"\0" in data or data.startswith(codecs.BOM_UTF8) or b"\n" + codecs.BOM_UTF8 in data:
        return None
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return None
    octets = np.frombuffer(data, dtype=np.uint8)
    if not octets.size:
        return Layout(0, np.zeros(0, dtype=np.int64))
    line_ends = np.flatnonzero(octets == ord("\n"))
    delimiters = np.flatnonzero(octets == ord(form.delimiter))
    quotes = np.flatnonzero(octets == ord('"')) if form.quoted else line_ends[:0]
    if quotes.size and not _quotes_are_paired(octets, quotes, ord(form.delimiter)):
        return None
    ending = np.flatnonzero(_outside(line_ends, quotes))
    delimiters = delimiters[_outside(delimiters, quotes)]
    returns = np.flatnonzero(octets == ord("\r"))
    if (octets[returns[_outside(returns, quotes)] + 1] != ord("\n")).any():
        return None
    if not ending.size:
        return Layout(0, line_ends[:0])
    ends = line_ends[ending]
    starts = np.concatenate(([0], ends[:-1] + 1))
    is_blank = (ends == starts) | ((ends == starts + 1) & (octets[starts] == ord("\r")))
    cells = np.diff(np.searchsorted(delimiters, ends), prepend=0) + 1
    if is_blank.any() or (cells != width).any():
        return None
    return Layout(int(ends[-1]) + 1, np.concatenate(([0], ending[:-1] + 1)))


def _outside(
    positions: npt.NDArray[np.int64], quotes: npt.NDArray[np.int64]
) -> npt.NDArray[np.bool_]:
    """Return which positions are outside of quoted cells."""
    outside: npt.NDArray[np.bool_] = np.searchsorted(quotes, positions) & 1 == 0
    return outside


def _quotes_are_paired(
    octets: npt.NDArray[np.uint8], quotes: npt.NDArray[np.int64], delimiter: int
) -> bool:
    line_feed, carriage_return = ord("\n"), ord("\r")
    opening, closing = quotes[::2], quotes[1::2]
    before = octets[opening - 1]  # index -1 is the block's last line end: also a beginning
    at_beginning = (before == delimiter) | (before == line_feed)
    # A block ends with a line end, so one octet always follows; a second only behind a CR.
    after = octets[closing + 1]
    at_end = (after == delimiter) | (after == line_feed)
    at_end |= (after == carriage_return) & (
        octets[np.minimum(closing + 2, octets.size - 1)] == line_feed
    )
    doubled = closing[: opening.size - 1] + 1 == opening[1:]
    at_beginning[1:] |= doubled
    at_end[: doubled.size] |= doubled
    return bool(at_beginning.all() and at_end.all())


def _quoted_record(
    text: str, position: int, delimiter: str, unquoted_cell: re.Pattern[str]
) -> tuple[list[str], int, str | None]:
    """Return the cells of the record at ``position``, the index behind it, and its fault.

    The fault is ``open`` where the text ends within a quoted cell.
    """
    cells: list[str] = []
    while True:
        if text[position] == '"':
            opened = position
            position = text.find('"', opened + 1)
            while position >= 0 and text[position + 1] == '"':
                position = text.find('"', position + 2)
            if position < 0:
                return cells, text.index("\n", opened) + 1, "open"
            cells.append(text[opened + 1 : position].replace('""', '"'))
            behind = _LINE_END.match(text, position + 1)
            position = behind.end() - 1 if behind else position + 1
            if text[position] not in (delimiter, "\n"):
                resume = text.index("\n", opened) + 1
                return cells, resume, "stray_quote" if position < resume else "unclosed_quote"
        else:
            end = unquoted_cell.match(text, position).end()  # type: ignore[union-attr]
            cell = text[position:end]
            cells.append(cell.rstrip("\r") if text[end] == "\n" else cell)
            position = end
        if text[position] == "\n":
            return cells, position + 1, None
        position += 1
