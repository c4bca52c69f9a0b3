"""The calls a run misses: taken down where items are worked on, read where they are submitted.

    <requests>/p-00003-<hash>.tsv      key, prompt's id and body of each request, by tabs

A partition that is worked on twice (a runner may do that) writes the same file twice.
"""

from __future__ import annotations

import hashlib
import posixpath
import re
from collections.abc import Iterator
from typing import NamedTuple

from transforms.llm.admission import PendingCall
from transforms.llm.answers import Verdict
from transforms.llm.calls import CallClass
from transforms.llm.prompts import Prompt
from transforms.llm.retrying import Outcome
from transforms.publishing import storage

_FILE = re.compile(r"p-(\d+)-[0-9a-f]{16}\.tsv")


class MissingRequest(NamedTuple):
    """A request that no cache has an answer to: its partition, key, prompt's id and JSON body."""

    partition: int
    key: str
    prompt: str
    body: bytes


class MissingCalls:
    """Takes down the calls of one partition's items in the place of making them.

    Each ends in ``CallClass.BATCH``, so that an item ends at its first missing call; those that it
    would make side by side are all taken down.
    """

    def __init__(self) -> None:
        self._requests: dict[str, bytes] = {}

    async def outcome(self, body: bytes, prompt: Prompt, call: PendingCall) -> tuple[Outcome, bool]:
        """Take down a request; see ``transforms.llm.calling.Calls``."""
        shared = call.key in self._requests
        self._requests[call.key] = b"\t".join((call.key.encode(), prompt.id.encode(), body))
        return Outcome(None, Verdict(CallClass.BATCH, detail="waits for a batch"), 0), shared

    def write(self, directory: str, partition: int) -> None:
        """Write what was taken down below ``directory``; nothing where nothing is missing.

        Raises:
            OSError: it could not be written.
        """
        if self._requests:
            data = b"\n".join([*self._requests.values(), b""])
            name = f"p-{partition:05d}-{hashlib.sha256(data).hexdigest()[:16]}.tsv"
            storage.write_bytes(storage.join(directory, name), data)


def read_missing(directory: str) -> Iterator[MissingRequest]:
    """Yield what all partitions wrote below ``directory``, in one run by partition.

    Raises:
        OSError: a file could not be read.
    """
    for name in storage.files_below(directory):
        match = _FILE.fullmatch(posixpath.basename(name))
        if match is None:
            continue
        for line in storage.read_bytes(storage.join(directory, name)).splitlines():
            key, prompt, body = line.split(b"\t", 2)
            yield MissingRequest(int(match[1]), key.decode(), prompt.decode(), body)
