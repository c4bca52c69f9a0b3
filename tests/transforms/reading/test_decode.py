from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from transforms.errors import InputError
from transforms.reading import decode
from transforms.reading.decode import (
    TextBlock,
    decode_rows,
    encode_rows,
    fault_of,
    printable,
    text_blocks,
    whole_text,
)

TEXT = "first é\nsecond 😀\r\nthird \u2028 and \x85 same line\n"


def blocks(tmp_path: Path, data: bytes, block_bytes: int = 1 << 20) -> list[TextBlock]:
    path = tmp_path / "x.txt"
    path.write_bytes(data)
    return list(text_blocks(str(path), block_bytes))


@pytest.mark.parametrize(
    "data",
    [
        TEXT.encode(),
        b"\xef\xbb\xbf" + TEXT.encode(),
        b"\xff\xfe" + TEXT.encode("utf-16-le"),
        b"\xfe\xff" + TEXT.encode("utf-16-be"),
    ],
)
@pytest.mark.parametrize("block_bytes", [3, 7, 1 << 20])
def test_every_encoding_gives_the_same_lines(tmp_path: Path, data: bytes, block_bytes: int) -> None:
    found = blocks(tmp_path, data, block_bytes)
    assert b"".join(block.data for block in found) == TEXT.encode()
    lines = 1
    for block in found:
        assert block.line == lines
        assert block.data.endswith(b"\n")
        lines += block.data.count(b"\n")


def test_last_line_gets_its_end(tmp_path: Path) -> None:
    assert blocks(tmp_path, b"a\nb") == [TextBlock(b"a\n", 1), TextBlock(b"b\n", 2)]
    utf16 = b"\xff\xfe" + "a\nb".encode("utf-16-le")
    assert b"".join(block.data for block in blocks(tmp_path, utf16)) == b"a\nb\n"


@pytest.mark.parametrize("data", [b"", b"\xef\xbb\xbf", b"\xff\xfe"])
def test_an_empty_file_has_no_lines(tmp_path: Path, data: bytes) -> None:
    assert blocks(tmp_path, data) == []


def test_lines_ended_by_carriage_returns_alone(tmp_path: Path) -> None:
    assert blocks(tmp_path, b"a\rb\r") == [TextBlock(b"a\nb\n", 1)]
    assert blocks(tmp_path, b"a\rb\n") == [TextBlock(b"a\rb\n", 1)]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16-le"])
@pytest.mark.parametrize("block_bytes", [7, 40, 1 << 20])
@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("a\r" * 30 + "b\n", 31),  # within what a megabyte is here, CR alone
        ("a\rb\n" + "c\r" * 30, 2),
        ("a" * 19 + "\r\n" + "b\r\n", 2),  # cut between CR and LF
    ],
    ids=["returns", "content", "cut"],
)
def test_line_ends_are_told_alike_however_a_file_is_read(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    encoding: str,
    block_bytes: int,
    text: str,
    lines: int,
) -> None:
    mark = b"\xff\xfe" if encoding == "utf-16-le" else b""
    monkeypatch.setattr(decode, "_HEAD_BYTES", len(mark) + len("x".encode(encoding)) * 20)
    found = blocks(tmp_path, mark + text.encode(encoding), block_bytes)
    assert b"".join(block.data for block in found).count(b"\n") == lines


def test_broken_utf16_leaves_invalid_bytes_in_its_line_only(tmp_path: Path) -> None:
    lone = b"\xff\xfe" + "a\n".encode("utf-16-le") + b"\x00\xd8" + "b\nc\nd".encode("utf-16-le")
    text = decode_rows(b"".join(block.data for block in blocks(tmp_path, lone + b"\x41")))
    assert [fault_of(line) for line in text.splitlines()] == [
        None,
        "invalid_bytes",
        None,
        "invalid_bytes",
    ]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"PAR1" + bytes(50), "is a parquet file"),
        (b"\x1f\x8b\x08" + bytes(50), "is gzip data"),
        (b"\x89PNG\r\n\x1a\n" + bytes(50), "is a PNG image"),
        (b"PK\x03\x04" + bytes(50), "spreadsheet"),
        ("text,label\nx,1\n".encode("utf-16-le"), "UTF-16 without a byte order mark"),
        ("text,label\nx,1\n".encode("utf-16-be"), "UTF-16 without a byte order mark"),
        ("text".encode("utf-32"), "UTF-32"),
        (bytes(1000), "binary data|UTF-16"),
        (random.Random(1).randbytes(5000).replace(b"\0", b"\x01"), "is not UTF-8 text"),
        ("ситуация,текст\n".encode("cp1251"), "is not UTF-8 text"),
    ],
)
def test_what_is_not_text_is_refused_by_name(tmp_path: Path, data: bytes, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        blocks(tmp_path, data)
    assert "x.txt" in str(caught.value)


def test_a_line_without_end_does_not_fill_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decode, "MAX_RECORD_BYTES", 1000)
    found = blocks(tmp_path, b"a\n" + b"x" * 5000 + b"\nb\nc\n", block_bytes=300)
    assert [(block.line, block.too_long) for block in found][:2] == [(1, False), (2, True)]
    assert b"".join(block.data for block in found[2:]) == b"b\nc\n"
    assert found[2].line == 3


def test_all_of_a_file_is_read_whatever_the_length_of_its_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decode, "MAX_RECORD_BYTES", 1000)
    path = tmp_path / "x.json"
    path.write_bytes(b"\xff\xfe" + ("a" * 20_000 + "\n\u00e9").encode("utf-16-le"))
    assert whole_text(str(path)) == "a" * 20_000 + "\n\u00e9"


def test_rows_are_decoded_and_encoded_without_loss() -> None:
    data = os.urandom(1000) + b"\xed\xa0\x80" + "é😀".encode()
    assert encode_rows(decode_rows(data)) == data


def test_what_is_shown_of_a_row_is_valid_text() -> None:
    shown = printable(decode_rows(b"a\0b\xff" + b"c" * 5000))
    assert shown.startswith("a\ufffdb\ufffdc")
    assert len(shown) == decode.MAX_REJECTED_CHARACTERS
    shown.encode()
