"""Decoding: the bytes of a text file to blocks of whole lines in UTF-8, whatever it was saved as.

Taken are UTF-8 with or without a byte order mark and UTF-16 with one. Lines end in LF, with or
without CR before it; a file whose first megabyte holds CR but no LF is one of CR-ended lines,
elsewhere a lone CR is content.
Bytes that aren't UTF-8 stay as they are: it is the row's reader who rejects the row, not the file.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

from transforms.errors import InputError
from transforms.reading.files import open_bytes, reading

BLOCK_BYTES = 8 * 1024 * 1024
#: By so much of its beginning a file's encoding and line ends are told, however it is read.
_HEAD_BYTES = 1 << 20
#: A line, or a record of several lines, may be so long; a longer one is a reject (one that ends
#: within the block in which it gets too long may be read nevertheless).
MAX_RECORD_BYTES = 16 * 1024 * 1024
#: So much of a file may be bytes that text doesn't have before it counts as not being text.
MAX_FOREIGN_SHARE = 0.3
#: How much of a rejected text is kept beside the reason.
MAX_REJECTED_CHARACTERS = 2000

_SIGNATURES = {
    b"PAR1": "a parquet file",
    b"ARROW1": "an Arrow file",
    b"\x1f\x8b": "gzip data",
    b"BZh": "bzip2 data",
    b"\x28\xb5\x2f\xfd": "zstd data",
    b"\xfd7zXZ": "xz data",
    b"PK\x03\x04": "a zip archive or a spreadsheet",
    b"\x89PNG": "a PNG image",
    b"\xff\xd8\xff": "a JPEG image",
    b"GIF8": "a GIF image",
    b"%PDF": "a PDF document",
    b"\xd0\xcf\x11\xe0": "an old office document",
    b"SQLite format 3": "a SQLite database",
    b"\x89HDF": "an HDF5 file",
}
_UTF16 = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}
_CONTROLS = bytes(set(range(32)) - set(b"\t\n\r\f\x1b"))
_INVALID = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True)
class TextBlock:
    """Whole lines of a file.

    Attributes:
        data: the lines, UTF-8 but for invalid bytes, each with its LF, the file's last one too.
        line: number of the first line, from 1.
        too_long: ``data`` is only the beginning of one line longer than ``MAX_RECORD_BYTES``.
    """

    data: bytes
    line: int
    too_long: bool = False


def text_encoding(head: bytes, path: str) -> str:
    """Return the encoding of a file that starts with ``head``: utf-8, utf-16-le or utf-16-be.

    Raises:
        InputError: the file isn't text, or text in an encoding that can't be told.
    """
    for signature, what in _SIGNATURES.items():
        if head.startswith(signature):
            raise InputError(f"{path}: is {what}, not text; give it the extension of its kind")
    if head.startswith((codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)):
        raise InputError(f"{path}: is UTF-32 text; save it as UTF-8")
    for mark, encoding in _UTF16.items():
        if head.startswith(mark):
            return encoding
    sample = head[:_HEAD_BYTES]
    zeros = sample.count(0)
    if zeros > MAX_FOREIGN_SHARE * len(sample):
        # Latin text in UTF-16 has its zeros all on one side of each pair.
        if max(sample[::2].count(0), sample[1::2].count(0)) > 0.9 * zeros:
            raise InputError(f"{path}: looks like UTF-16 without a byte order mark; save as UTF-8")
        raise InputError(f"{path}: is binary data, not text")
    invalid = len(_INVALID.findall(sample.decode("utf-8", "surrogateescape")))
    controls = len(sample) - len(sample.translate(None, _CONTROLS))
    if invalid + controls > MAX_FOREIGN_SHARE * len(sample):
        raise InputError(f"{path}: is not UTF-8 text (nor UTF-16 with a mark); save it as UTF-8")
    return "utf-8"


def text_blocks(path: str, block_bytes: int = BLOCK_BYTES) -> Iterator[TextBlock]:
    """Yield the lines of ``path`` in blocks of about ``block_bytes``; nothing for an empty file.

    Raises:
        InputError: the file can't be read, is damaged, or is not text.
    """
    line = 1
    skipping = False
    pending = b""
    for piece in _utf8_pieces(path, block_bytes):
        if skipping:
            end = piece.find(b"\n") + 1
            if not end:
                continue
            piece, skipping = piece[end:], False
        pending += piece
        end = pending.rfind(b"\n") + 1
        if end:
            yield TextBlock(pending[:end], line)
            line += pending.count(b"\n", 0, end)
            pending = pending[end:]
        if len(pending) > MAX_RECORD_BYTES:
            yield TextBlock(pending[: 4 * MAX_REJECTED_CHARACTERS], line, too_long=True)
            line, pending, skipping = line + 1, b"", True
    if pending:
        yield TextBlock(pending + b"\n", line)


def whole_text(path: str) -> str:
    """Return all text of ``path``, of lines of any length, decoded as by ``decode_rows``.

    Raises:
        InputError: the file can't be read, is damaged, or is not text.
    """
    return decode_rows(b"".join(_utf8_pieces(path, BLOCK_BYTES)))


def decode_rows(data: bytes) -> str:
    """Return ``data`` as text in which each invalid byte stands as a lone surrogate."""
    return data.decode("utf-8", "surrogateescape")


def encode_rows(text: str) -> bytes:
    """Return the bytes that ``decode_rows`` was given."""
    return text.encode("utf-8", "surrogateescape")


def fault_of(text: str) -> str | None:
    """Return the rule that decoded ``text`` breaks: invalid_bytes or nul_byte, None for neither."""
    if "\0" in text:
        return "nul_byte"
    if not text.isascii() and _INVALID.search(text):
        return "invalid_bytes"
    return None


def printable(text: str, characters: int = MAX_REJECTED_CHARACTERS) -> str:
    """Return the beginning of ``text`` as valid text without NUL, to be kept with its reason."""
    return _INVALID.sub("\ufffd", text[:characters]).replace("\0", "\ufffd")


def _utf8_pieces(path: str, block_bytes: int) -> Iterator[bytes]:
    """Yield the file's content as UTF-8, its mark removed and CR line ends turned into LF."""
    with open_bytes(path) as file:
        with reading(path):
            head = _read(file, _HEAD_BYTES)
        encoding = text_encoding(head, path)
        transcode = _Transcoder(encoding) if encoding != "utf-8" else None
        mac = _has_lone_returns(head, encoding)
        pending = head[2:] if transcode else head.removeprefix(codecs.BOM_UTF8)
        while True:
            data, pending = pending[:block_bytes], pending[block_bytes:]
            with reading(path):
                data += _read(file, block_bytes - len(data))
            piece = transcode(data, not data) if transcode else data
            if piece:
                yield piece.replace(b"\r", b"\n") if mac else piece
            if not data:
                return


def _has_lone_returns(head: bytes, encoding: str) -> bool:
    """Return whether lines end in CR alone in a file that starts with ``head``."""
    text = head.decode(encoding, "ignore")
    if len(head) == _HEAD_BYTES:
        text = text[:-1]  # an LF may follow the last one
    return "\r" in text and "\n" not in text


def _read(file: BinaryIO, size: int) -> bytes:
    """Read ``size`` bytes or to the end: compressed and remote files return less at will."""
    parts = []
    while size > 0 and (part := file.read(size)):
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


class _Transcoder:
    """Incremental UTF-16 to UTF-8; halves of pairs and odd bytes become invalid UTF-8."""

    def __init__(self, encoding: str) -> None:
        self._decoder = codecs.getincrementaldecoder(encoding)("surrogatepass")

    def __call__(self, data: bytes, last: bool) -> bytes:
        text = self._decoder.decode(data)
        cut_off = b"\xff" if last and self._decoder.getstate()[0] else b""
        return text.encode("utf-8", "surrogatepass") + cut_off
