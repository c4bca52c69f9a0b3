"""The endpoint's files and batches, by the openai package; its failures as ours."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from transforms.errors import EndpointError
from transforms.llm.proxy import http_client
from transforms.llm.settings import EngineSettings, endpoint_identity

PATH: Final = "/v1/chat/completions"
WINDOW: Final = "24h"
#: The key of a batch's metadata that holds its record's name.
METADATA = "remint_batch"
_UPLOAD_SECONDS = 900.0
#: HTTP statuses after which a batch was certainly not made.
_REFUSALS = frozenset(range(400, 500)) - {408, 409}
_CODE = re.compile(r"[\w.-]{1,64}", re.ASCII)


@dataclass(frozen=True)
class EndpointBatch:
    """What the endpoint says of a batch.

    Attributes:
        id: its name there.
        status: validating, in_progress, finalizing, completed, failed, expired, cancelling or
            cancelled.
        done: nothing will come any more.
        output: id of the file of answers, if there is one.
        errors: id of the file of errors, if there is one.
        error_codes: why it failed as a whole.
        completed: requests answered so far.
    """

    id: str
    status: str
    done: bool
    output: str | None
    errors: str | None
    error_codes: tuple[str, ...]
    completed: int


class BatchNotMadeError(EndpointError):
    """The endpoint refused to make a batch, so that nothing is to be paid for it."""


class BatchEndpoint:
    """The endpoint of ``settings``, asked by the driver of a run alone.

    Raises EndpointError where the environment names a proxy that it can't take.
    """

    def __init__(self, settings: EngineSettings, api_key: str) -> None:
        import httpx2
        import openai

        self._openai = openai
        self._where = endpoint_identity(settings.base_url)
        self._client = openai.OpenAI(
            api_key=api_key,
            base_url=settings.base_url,
            timeout=httpx2.Timeout(settings.timeout, connect=settings.connect_timeout),
            max_retries=settings.retries,
            http_client=http_client(settings.base_url),
        )

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def check(self) -> None:
        """Return if the endpoint has batches.

        Raises:
            EndpointError: it has none, or can't be asked.
        """
        with self._told("asked for its batches"):
            try:
                self._client.batches.list(limit=1)
            except self._openai.APIStatusError as error:
                if error.status_code not in (404, 405, 501):
                    raise
                raise EndpointError(
                    f"{self._where}: has no offline batches (HTTP {error.status_code}); "
                    "leave --batch out to make the calls one by one"
                ) from None

    def upload(self, name: str, data: bytes) -> str:
        """Return the id of a new file for a batch's input; files cost nothing.

        Raises:
            EndpointError: it was not taken.
        """
        with self._told(f"sent {len(data):,} bytes"):
            uploads = self._client.with_options(timeout=_UPLOAD_SECONDS)
            made = uploads.files.create(file=(f"{name}.jsonl", data), purpose="batch")
            return str(made.id)

    def create(self, name: str, file: str) -> EndpointBatch:
        """Make the batch called ``name`` of an uploaded file: from here on it is to be paid for.

        Never tried twice: where the reply is lost, only ``find`` tells what became of it.

        Raises:
            BatchNotMadeError: it was refused.
            EndpointError: nothing is known of it.
        """
        try:
            with self._told("asked to make a batch"):
                once = self._client.with_options(max_retries=0)
                return _batch(
                    once.batches.create(
                        input_file_id=file,
                        endpoint=PATH,
                        completion_window=WINDOW,
                        metadata={METADATA: name},
                    )
                )
        except EndpointError as error:
            cause = error.__cause__
            if isinstance(cause, self._openai.APIStatusError) and cause.status_code in _REFUSALS:
                raise BatchNotMadeError(str(error)) from None
            raise

    def find(self, files: Mapping[str, str]) -> dict[str, EndpointBatch]:
        """Return those of the batches called like the keys of ``files`` that there are.

        All are looked through, whenever they were made: what is overlooked is paid for twice, and
        neither clocks nor an order of the listing are anything to go by.

        Args:
            files: of each batch's name its input file's id; not every endpoint keeps the name.

        Raises:
            EndpointError: the endpoint can't be asked.
        """
        names = {file: name for name, file in files.items()}
        found: dict[str, EndpointBatch] = {}
        seen: set[str] = set()
        with self._told("asked for its batches"):
            for batch in self._client.batches.list(limit=100):
                name = (batch.metadata or {}).get(METADATA, "")
                name = name if name in files else names.get(batch.input_file_id, "")
                if name:
                    found[name] = _batch(batch)
                # One that is listed again is the beginning of the same page.
                if len(found) == len(files) or batch.id in seen:
                    break
                seen.add(batch.id)
        return found

    def retrieve(self, batch: str) -> EndpointBatch:
        """Return the batch with the endpoint's id ``batch``.

        Raises:
            EndpointError: there is none, or it can't be asked.
        """
        with self._told(f"asked for batch {batch}"):
            return _batch(self._client.batches.retrieve(batch))

    def lines(self, file: str) -> Iterator[dict[str, Any]]:
        """Yield the JSON objects of a file.

        Raises:
            EndpointError: it is not there, or can't be had.
        """
        with self._told(f"asked for file {file}"):
            content = self._client.with_options(timeout=_UPLOAD_SECONDS).files.content(file).content
        for line in content.split(b"\n"):
            if line.strip():
                try:
                    found = json.loads(line)
                except ValueError:
                    found = None
                if isinstance(found, dict):
                    yield found

    @contextmanager
    def _told(self, what: str) -> Iterator[None]:
        """Raise a failure of the package as one of ours; never with the endpoint's own words."""
        try:
            yield
        except self._openai.APIStatusError as error:
            code = error.code if isinstance(error.code, str) and _CODE.fullmatch(error.code) else ""
            told = f"HTTP {error.status_code}" + (f", code {code}" if code else "")
            raise EndpointError(f"{self._where}: {what}, it answers {told}") from error
        except self._openai.APIConnectionError as error:
            raise EndpointError(f"{self._where}: {what}, it gives no reply") from error


_DONE = frozenset({"completed", "failed", "expired", "cancelled"})


def _batch(batch: Any) -> EndpointBatch:
    errors = batch.errors.data if batch.errors is not None else None
    codes = {error.code for error in errors or () if error.code and _CODE.fullmatch(error.code)}
    return EndpointBatch(
        id=batch.id,
        status=batch.status,
        done=batch.status in _DONE,
        output=batch.output_file_id,
        errors=batch.error_file_id,
        error_codes=tuple(sorted(codes)),
        completed=batch.request_counts.completed if batch.request_counts is not None else 0,
    )
