"""The endpoint's key: where a process reads it.

Settings, options and logs hold the name of the source alone; each process that makes calls reads
the key itself.
"""

from __future__ import annotations

import os
import re
import socket
from typing import Any

from transforms.errors import EndpointError

DEFAULT_SOURCE = "env:OPENAI_API_KEY"
FORMS = "env:NAME, file:/PATH or gcp-secret:projects/PROJECT/secrets/NAME/versions/VERSION"
_SOURCE = re.compile(
    r"env:[A-Za-z_][A-Za-z0-9_]*|file:.+"
    r"|gcp-secret:projects/[\w.:-]+(/locations/[\w-]+)?/secrets/[\w-]+/versions/[\w-]+"
)
_SECONDS = 30.0


def is_source(text: str) -> bool:
    """Return whether ``text`` says where a key is, and is not, say, a key itself."""
    return _SOURCE.fullmatch(text) is not None


def read_api_key(source: str, secrets: Any = None) -> str | None:
    """Return the key at ``source``; None where an environment variable has none.

    Args:
        source: one of FORMS.
        secrets: the client of Google's Secret Manager; by default one with this machine's
            credentials.

    Raises:
        EndpointError: it can't be read, or can't be a key.
    """
    kind, _, place = source.partition(":")
    if kind == "env":
        key = os.environ.get(place, "")
        if not key:
            return None
    elif kind == "file":
        try:
            with open(place, encoding="utf-8") as file:
                key = file.read().strip()
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is no text"
            raise EndpointError(f"the API key can't be read from {source}: {reason}") from None
    else:
        key = _from_secret_manager(source, place, secrets)
    if not key or not key.isascii() or not key.isprintable() or " " in key:
        raise EndpointError(f"{source} is empty, or has characters that no key has")
    return key


def key_of_worker(source: str, *, required: bool) -> str:
    """Return the key that this process calls with; "none" for endpoints that need none.

    Args:
        source: see ``read_api_key``.
        required: the process that started the run has one.

    Raises:
        EndpointError: there is none although the run has one, or it can't be read.
    """
    try:
        key = read_api_key(source)
    except EndpointError as error:
        raise EndpointError(f"a worker on {socket.gethostname()}: {error}") from None
    if key is None and required:
        raise EndpointError(
            f"a worker on {socket.gethostname()} has no API key in {source}, where the run has "
            f"one; set it in the workers' environment, or say by --api-key where they can read it "
            f"({FORMS})"
        )
    return key or "none"


def _from_secret_manager(source: str, name: str, secrets: Any) -> str:
    try:
        from google.api_core.exceptions import GoogleAPICallError
        from google.auth.exceptions import GoogleAuthError
        from google.cloud import secretmanager
    except ImportError:
        raise EndpointError(
            f"{source} needs Google's Secret Manager client: install remint[gcp]"
        ) from None
    try:
        client = secrets or secretmanager.SecretManagerServiceClient()
        answer = client.access_secret_version(name=name, timeout=_SECONDS)
        return str(answer.payload.data.decode("utf-8")).strip()
    except (GoogleAPICallError, GoogleAuthError) as error:
        # What it says beside its class may quote what it was sent.
        raise EndpointError(
            f"the API key can't be read from {source} ({type(error).__name__}); see that the "
            "account which runs this may access that secret version"
        ) from None
    except UnicodeDecodeError:
        raise EndpointError(f"{source} is no text") from None
