from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from transforms.errors import InputError
from transforms.reading import decode, json_records
from transforms.reading.decode import TextBlock
from transforms.reading.json_records import json_fields, read_json_array, read_json_lines

SCHEMA = {"id": pl.String, "turn": pl.Int64, "done": pl.Boolean, "rots": pl.List(pl.String)}


def read(tmp_path: Path, data: bytes) -> tuple[list[tuple[Any, ...]], list[tuple[Any, ...]]]:
    """Return rows, and rejects as (line, rule, field)."""
    path = tmp_path / "x.jsonl"
    path.write_bytes(data)
    chunks = list(read_json_lines(str(path), SCHEMA))
    rows = [row for chunk in chunks for row in chunk.frame.iter_rows()]
    rejects = [
        row
        for chunk in chunks
        for row in chunk.rejected.select("line", "rule", "field").iter_rows()
    ]
    assert len(rows) + len(rejects) == sum(chunk.rows for chunk in chunks)
    return rows, rejects


@pytest.mark.parametrize(
    ("line", "row"),
    [
        ('{"id": "a", "turn": 1, "done": true, "rots": ["x", null]}', ("a", 1, True, ["x", None])),
        ('{"id": 12, "turn": 1.0, "rots": "one alone"}', ("12", 1, None, ["one alone"])),
        ('{"id": 12.0, "turn": null, "rots": []}', ("12", None, None, [])),
        ('{"id": -0, "rots": [1, "2"]}', ("0", None, None, ["1", "2"])),
        ('{"id": 123456789012345678901234567890}', ("1" + "234567890" * 3 + "12",) + (None,) * 3),
        ('{"id": "\\ud83d\\ude00 \\u2019 \\" \\n", "x": {"y": [1]}}', ('😀 ’ " \n',) + (None,) * 3),
        ('{"\\u0069d": "escaped key"}', ("escaped key", None, None, None)),
        ('\ufeff{"id": "mark"}', ("mark", None, None, None)),
        ('{"other": 1e999, "other": {"a": 1, "a": 2}}', (None,) * 4),
        ('{"id": "\u2028\x85"}', ("\u2028\x85",) + (None,) * 3),
        ("{}", (None,) * 4),
    ],
)
def test_values_that_are_taken(tmp_path: Path, line: str, row: tuple[Any, ...]) -> None:
    if row[0] and row[0].startswith("1234"):
        row = ("123456789012345678901234567890", *row[1:])
    good = '{"id": "g", "turn": 0, "done": false, "rots": ["r"]}'
    rows, rejects = read(tmp_path, f"{good}\n\n{line}\r\n{good}".encode())
    assert rejects == []
    plain = ("g", 0, False, ["r"])
    assert rows == [(1, *plain), (3, *row), (4, *plain)]


@pytest.mark.parametrize(
    ("line", "rule", "field"),
    [
        (b'{"id": "a"', "bad_json", None),
        (b'{"id": "a"} {"id": "b"}', "bad_json", None),
        (b'{"id": "a"},{"id": "b"}', "bad_json", None),
        (b'{"id": NaN}', "bad_json", None),
        (b'{"turn": -Infinity}', "bad_json", None),
        (b"{'id': 'a'}", "bad_json", None),
        (b'{"id": "tab\there"}', "bad_json", None),
        (b'{"id": ' + b"9" * 5000 + b"}", "bad_json", None),
        (b'{"x": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", "bad_json", None),
        (b"[1]", "not_an_object", None),
        (b'"text"', "not_an_object", None),
        (b"null", "not_an_object", None),
        (b'{"id": "a", "id": "b"}', "duplicate_field", "id"),
        (b'{"id": "a", "\\u0069d": "a"}', "duplicate_field", "id"),
        (b'{"id": true}', "wrong_type", "id"),
        (b'{"id": 1.5}', "wrong_type", "id"),
        (b'{"id": 1e30}', "wrong_type", "id"),
        (b'{"id": 1e999}', "wrong_type", "id"),
        (b'{"id": ["a"]}', "wrong_type", "id"),
        (b'{"id": {"a": 1}}', "wrong_type", "id"),
        (b'{"turn": "1"}', "wrong_type", "turn"),
        (b'{"turn": true}', "wrong_type", "turn"),
        (b'{"turn": 9223372036854775808}', "wrong_type", "turn"),
        (b'{"done": 1}', "wrong_type", "done"),
        (b'{"rots": 1}', "wrong_type", "rots"),
        (b'{"rots": [["a"]]}', "wrong_type", "rots"),
        (b'{"rots": {"a": "b"}}', "wrong_type", "rots"),
        (b'{"id": "\\ud800"}', "lone_surrogate", "id"),
        (b'{"rots": ["\\udc00\\ud800"]}', "lone_surrogate", "rots"),
        (b'{"id": "a\\u0000b"}', "nul_byte", "id"),
        (b'{"id": "a\0b"}', "nul_byte", None),
        (b'{"id": "a\xffb"}', "invalid_bytes", None),
    ],
)
def test_a_bad_line_costs_itself_only(
    tmp_path: Path, line: bytes, rule: str, field: str | None
) -> None:
    good = b'{"id": "g"}\n'
    rows, rejects = read(tmp_path, good + line + b"\n" + good)
    assert [row[:2] for row in rows] == [(1, "g"), (3, "g")]
    assert rejects == [(2, rule, field)]


def test_lines_that_only_together_are_json(tmp_path: Path) -> None:
    rows, rejects = read(tmp_path, b'{"id": "a", "rots": ["x"\n, "y"]}\n{"id": "b"}{"id": "c"}\n')
    assert rows == []
    assert [reject[:2] for reject in rejects] == [(1, "bad_json"), (2, "bad_json"), (3, "bad_json")]


def test_ids_as_numbers_and_rots_as_one_string_keep_the_fast_way() -> None:
    lines = pl.DataFrame({"line": [1, 2], "text": ['{"id": 7, "rots": "x"}\n', '{"id": 8}\n']})
    frame = json_records.read_plain(lines, SCHEMA)
    assert frame is not None
    assert frame.rows() == [(1, "7", None, None, ["x"]), (2, "8", None, None, None)]


def test_a_line_that_is_too_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decode, "MAX_RECORD_BYTES", 1000)
    monkeypatch.setattr(json_records, "text_blocks", lambda path: decode.text_blocks(path, 100))
    rows, rejects = read(tmp_path, b'{"id": "' + b"x" * 5000 + b'"}\n{"id": "a"}\n')
    assert [row[:2] for row in rows] == [(2, "a")]
    assert rejects == [(1, "too_long", None)]


def test_an_array_of_objects(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_records, "_ARRAY_CHUNK_ROWS", 2)
    path = tmp_path / "x.json"
    path.write_text('\n[{"id": 1}, {"id": true},\n {"id": "b", "id": "c"}, 5, {"rots": "x"}]')
    chunks = list(read_json_array(str(path), SCHEMA))
    assert [chunk.rows for chunk in chunks] == [2, 2, 1]
    assert pl.concat(chunk.frame for chunk in chunks).rows() == [
        (1, "1", None, None, None),
        (5, None, None, None, ["x"]),
    ]
    rejected = pl.concat(chunk.rejected for chunk in chunks)
    assert rejected.select("line", "rule", "text").rows() == [
        (2, "wrong_type", '{"id": true}'),
        (3, "duplicate_field", '{"id": "c"}'),
        (4, "not_an_object", "5"),
    ]
    assert json_fields(str(path), "json") == ["id", "rots"]


@pytest.mark.parametrize(
    ("data", "kind", "message"),
    [
        (b"\n\n", "jsonl", "no JSON object"),
        (b"{\n}\n", "jsonl", "no JSON object"),
        (b"[1, 2]", "json", "no JSON object"),
        (b'[{"id": 1}', "json", "not valid JSON .*line 1 column 11"),
        (b'{"id": [1]}', "json", "not a JSON array"),
        (b"[" * 100_000, "json", "nested too deeply"),
    ],
)
def test_files_without_objects_are_refused(
    tmp_path: Path, data: bytes, kind: str, message: str
) -> None:
    path = tmp_path / "x.json"
    path.write_bytes(data)
    with pytest.raises(InputError, match=message):
        json_fields(str(path), kind)


strings = st.text(st.sampled_from('ab"\\\n\0é😀\ud800{},:'), max_size=5)
scalars = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), strings, st.integers(-3, 3).map(float)
)
values = st.one_of(scalars, st.lists(scalars, max_size=3), st.dictionaries(strings, scalars))
objects = st.lists(
    st.tuples(st.sampled_from(["id", "turn", "done", "rots", "x", "é"]), values), max_size=4
)


@st.composite
def json_line(draw: st.DrawFn) -> str:
    ascii_only = draw(st.booleans())

    def dump(value: object) -> str:
        text = json.dumps(value, ensure_ascii=ascii_only)
        return text.encode("utf-8", "replace").decode()

    line = ",".join(f"{dump(name)}: {dump(value)}" for name, value in draw(objects))
    line = "{" + line + "}"
    cut = draw(st.one_of(st.just(len(line)), st.just(len(line)), st.integers(0, len(line))))
    return line[:cut] + draw(st.sampled_from(["", "", "", "\r", " ", "{}", "\ufeff"]))


@given(st.lists(json_line(), min_size=1, max_size=6))
def test_both_ways_of_reading_agree(lines: list[str]) -> None:
    block = TextBlock(("\n".join(lines) + "\n").encode(), 3)
    fast = json_records._read_block(block, SCHEMA, "x")
    texts = json_records._numbered_lines(block)
    frame, rejected = json_records._rows_one_by_one(texts, SCHEMA, "x", is_text=True)
    assert fast.frame.equals(frame)
    assert fast.rejected.equals(rejected)
    assert fast.rows == len(texts) == frame.height + rejected.height


def test_an_array_on_one_long_line_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decode, "MAX_RECORD_BYTES", 1000)
    path = tmp_path / "x.json"
    path.write_text(json.dumps([{"id": str(n), "x": "y" * 50} for n in range(300)]))
    assert json_fields(str(path), "json") == ["id", "x"]
    (chunk,) = read_json_array(str(path), {"id": pl.String})
    assert chunk.frame["id"].to_list() == [str(n) for n in range(300)]


def test_fields_are_those_of_the_first_lines_that_can_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decode, "MAX_RECORD_BYTES", 1000)
    path = tmp_path / "x.jsonl"
    path.write_text('{"long": "' + "x" * (1 << 20) + '"}\n{"id": 1}\n')
    assert json_fields(str(path), "jsonl") == ["id"]
