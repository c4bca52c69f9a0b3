"""Requests: the body that is sent, and the key under which its answer is cached.

The key is the SHA-256 over everything that shapes the answer: the key's own format version,
endpoint, model, rendered messages, every sampling parameter, the response schema and how it is
imposed, the extra body, and the index of the sample. What all calls of a prompt share is rendered
and hashed once, so that a call costs the rendering and hashing of its last message.
"""

from __future__ import annotations

import hashlib
import json
import weakref
from collections.abc import Callable, Mapping, Sequence
from json.encoder import encode_basestring_ascii
from typing import Any

from transforms.llm.prompts import Prompt
from transforms.llm.settings import LENGTHS, EngineSettings, StructuredMode
from transforms.llm.tokens import (
    TOKENS_BEFORE_ANSWER,
    TOKENS_PER_MESSAGE,
    estimated_tokens,
    token_counter,
    tokens_of_bytes,
)

#: Goes up whenever the same call would get another key or another body.
KEY_VERSION = 1

_HERE = "\x00question\x00"
#: What a request without a bound on its answer is counted with.
_UNBOUNDED_TOKENS = 4096
#: How much of a malformed answer is shown to the model again, in characters.
_SHOWN_AGAIN = 8000
_CORRECTION = (
    "That reply could not be used: {fault}. Answer the same question again, completely, with a "
    "single JSON object that has exactly the form asked for, and with nothing before or after it."
)


class RequestForm:
    """The requests of one prompt under one engine's settings: all but the last message is fixed.

    ``room`` multiplies the tokens that an answer may have (2 for the one larger retry of an answer
    that was cut): another body, hence another key.
    """

    def __init__(self, settings: EngineSettings, prompt: Prompt, room: int = 1) -> None:
        fields = _body(settings, prompt, room)
        body = json.dumps(fields, separators=(",", ":"))
        head, mark, tail = body.partition(json.dumps(_HERE))
        if not mark:
            raise ValueError("extra_body must not replace the messages")
        self._head, self._tail = head.encode(), tail.encode()
        self._question = prompt.question
        shared = [KEY_VERSION, settings.endpoint, settings.structured.value, prompt.schema, body]
        self.model = str(fields["model"])
        #: The prompt's id and the model, under which its calls are counted.
        self.label = f"{prompt.id} {self.model}"
        #: The most that an answer may have.
        self.completion_tokens = answer_bound(fields)
        self._tokens = _token_counting(settings, fields["messages"])
        self._shared_hash = hashlib.sha256(json.dumps(shared, sort_keys=True).encode())

    def question(self, variables: Mapping[str, Any]) -> bytes:
        """Return the last message's text, rendered and as a JSON string (ASCII)."""
        return encode_basestring_ascii(self._question(variables)).encode()

    def correction(self, question: bytes, content: str, fault: str) -> bytes:
        """Return ``question`` with the malformed answer to it, and what is wrong with that.

        It stands for a question in ``key`` and ``body``.
        """
        shown = encode_basestring_ascii(content[:_SHOWN_AGAIN] or "(nothing)")
        request = encode_basestring_ascii(_CORRECTION.format(fault=fault))
        return (
            question
            + b'},{"role":"assistant","content":%b' % shown.encode()
            + b'},{"role":"user","content":%b' % request.encode()
        )

    def prompt_tokens(self, question: bytes) -> int:
        """Return how many tokens the request's messages are counted or estimated at."""
        return self._tokens(question)

    def key(self, question: bytes, sample: int) -> str:
        """Return the request key (64 hex digits) of ``sample`` for what ``question`` returned."""
        digest = self._shared_hash.copy()
        digest.update(b"%d\x00%b" % (sample, question))
        return digest.hexdigest()

    def body(self, question: bytes, samples: int = 1) -> bytes:
        """Return the request's JSON body, which asks for so many choices."""
        tail = self._tail if samples == 1 else b'%b,"n":%d}' % (self._tail[:-1], samples)
        return self._head + question + tail


def answer_bound(body: Mapping[str, Any]) -> int:
    """Return the most tokens that one answer to a request may have, as far as its body says.

    Of two bounds an endpoint may heed either.
    """
    return max((int(body[name]) for name in LENGTHS if body.get(name)), default=_UNBOUNDED_TOKENS)


def _body(settings: EngineSettings, prompt: Prompt, room: int) -> dict[str, Any]:
    messages = [*(dict(message) for message in prompt.prefix), {"role": "user", "content": _HERE}]
    if settings.structured is not StructuredMode.JSON_SCHEMA:
        messages[0]["content"] += "\n\n" + _schema_text(prompt.schema)
    body: dict[str, Any] = {
        "model": settings.model,
        "messages": messages,
        **prompt.sampling.parameters(),
        **_response_format(settings.structured, prompt),
        **settings.extra(),
    }
    body = {name: value for name, value in body.items() if value is not None}
    for length in LENGTHS:
        if length in body:
            body[length] *= room
    return body


def _response_format(mode: StructuredMode, prompt: Prompt) -> dict[str, Any]:
    if mode is StructuredMode.NONE:
        return {}
    if mode is StructuredMode.JSON_OBJECT:
        return {"response_format": {"type": "json_object"}}
    name = prompt.id.replace(".", "_")
    schema = {"name": name, "strict": True, "schema": prompt.schema}
    return {"response_format": {"type": "json_schema", "json_schema": schema}}


def _schema_text(schema: Mapping[str, Any]) -> str:
    compact = json.dumps(schema, ensure_ascii=False, separators=(",", ":"))
    return (
        "Reply with a single JSON object and nothing before or after it. "
        f"It has to be valid under this JSON schema: {compact}"
    )


def _token_counting(
    settings: EngineSettings, messages: Sequence[Mapping[str, str]]
) -> Callable[[bytes], int]:
    """Return what counts a request's tokens from its question, the rest counted once.

    By the model's own encoding, where it is at hand, when tokens are limited; by bytes otherwise.
    """
    count = estimated_tokens if settings.tpm is None else token_counter(settings.model).count
    fixed = sum(count(message["content"]) for message in messages[:-1])
    fixed += TOKENS_PER_MESSAGE * len(messages) + TOKENS_BEFORE_ANSWER
    if count is estimated_tokens:
        return lambda question: fixed + tokens_of_bytes(len(question))

    def exactly(question: bytes) -> int:
        # A correction is a question and two further messages.
        messages = json.loads(b'[{"content":%b}]' % question)
        more = TOKENS_PER_MESSAGE * (len(messages) - 1)
        return fixed + more + sum(count(message["content"]) for message in messages)

    return exactly


class RequestForms:
    """The forms of the prompts that were used under one engine's settings, made once each."""

    def __init__(self, settings: EngineSettings) -> None:
        self._settings = settings
        #: Most samples that a call may ask for.
        self.samples_per_call = settings.samples_per_call
        # By identity: a prompt is no hash key, and two with the same hash may differ in what was
        # replaced after loading. A form goes with its prompt, of which each bundle of work brings
        # a new one; so no other one can have had its identity.
        self._forms: dict[tuple[int, int], tuple[RequestForm, weakref.ref[Prompt]]] = {}

    def get(self, prompt: Prompt, room: int) -> RequestForm:
        """Return the form of ``prompt`` for ``room`` times its tokens."""
        place = id(prompt), room
        found = self._forms.get(place)
        if found is None:
            form = RequestForm(self._settings, prompt, room)
            found = form, weakref.ref(prompt, lambda _: self._forms.pop(place, None))
            self._forms[place] = found
        return found[0]
