"""Records of the cache: one reply a line, and an index of lines by request key.

A line is a JSON object with the fields of ``FORMAT_VERSION``, always in the same order, so that
what kind of line it is can be told without parsing it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import NamedTuple

from transforms.llm.parsing import parse_json

#: Goes up whenever a record is written in another form; others are passed over and counted.
FORMAT_VERSION = 1

_HEAD = b'{"version":%d,"key":"' % FORMAT_VERSION
_KEY = slice(len(_HEAD), len(_HEAD) + 64)
_AFTER = slice(_KEY.stop, _KEY.stop + 11)
_VERSIONED = b'{"version":'


@dataclass
class CacheFaults:
    """What a partition's segments held beside usable records."""

    torn: int = 0  # lines cut off, or damaged
    foreign: int = 0  # lines of another format, files that are no segments
    duplicates: int = 0  # further answers to the same request

    def __bool__(self) -> bool:
        return bool(self.torn or self.foreign or self.duplicates)


class Record(NamedTuple):
    """A raw reply: the request's key, the prompt's id, when it came, HTTP status and body."""

    key: str
    prompt: str
    created: str
    status: int
    body: str


def new_line(key: str, prompt: str, status: int, body: str) -> bytes:
    """Return the line, without its line break, of a reply that came just now."""
    record = {
        "version": FORMAT_VERSION,
        "key": key,
        "prompt": prompt,
        "created": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "status": status,
        "body": body,
    }
    return json.dumps(record, separators=(",", ":")).encode()


def parse_line(line: bytes) -> Record | None:
    """Return the record of a line, or None where it is torn or damaged."""
    try:
        fields = parse_json(line)
        key, prompt, created = str(fields["key"]), str(fields["prompt"]), str(fields["created"])
        return Record(key, prompt, created, int(fields["status"]), str(fields["body"]))
    except (ValueError, KeyError, TypeError):
        return None


def looks_whole(line: bytes) -> bool:
    """Return whether ``line`` has the beginning and the end of one of our records."""
    return line.startswith(_HEAD) and line[_AFTER] == b'","prompt":' and line[-2:] == b'"}'


def is_foreign(line: bytes) -> bool:
    """Return whether ``line`` does not even begin like one of our records."""
    return not line.startswith(_HEAD)


def is_of_another_version(line: bytes) -> bool:
    """Return whether ``line`` may be a record that another version of remint can read."""
    return is_foreign(line) and line.startswith(_VERSIONED)


class Records:
    """Lines by the key of their request; the line that was added first counts.

    Lines are parsed when they are asked for: nearly all of a cache's are read just once.
    """

    def __init__(self) -> None:
        self.faults = CacheFaults()
        self._lines: dict[bytes, bytes] = {}
        self._later: dict[bytes, list[bytes]] = {}

    def add(self, lines: Iterable[bytes]) -> None:
        """Take a segment's lines; what is no record of ours is counted."""
        for line in lines:
            if looks_whole(line):
                if self._lines.setdefault(line[_KEY], line) is not line:
                    self._later.setdefault(line[_KEY], []).append(line)
                    self.faults.duplicates += 1
            elif is_foreign(line):
                self.faults.foreign += 1
            else:
                self.faults.torn += 1

    def put(self, key: str, line: bytes) -> None:
        """Take one line, unless there is one of that key."""
        self._lines.setdefault(key.encode(), line)

    def __len__(self) -> int:
        return len(self._lines)

    def __contains__(self, key: str) -> bool:
        return key.encode() in self._lines

    def get(self, key: str) -> tuple[int, str] | None:
        """Return HTTP status and raw body of the reply to request ``key``, or None."""
        name = key.encode()
        while (line := self._lines.get(name)) is not None:
            try:
                record = parse_json(line)
                return int(record["status"]), str(record["body"])
            except (ValueError, KeyError, TypeError):
                self.faults.torn += 1
                # An earlier run has asked again for what is damaged here: its answer counts.
                later = self._later.get(name)
                if later:
                    self._lines[name] = later.pop(0)
                else:
                    del self._lines[name]
        return None
