"""The child process that serves the embedded model; run as a script by ``server.py``.

Takes its settings as one JSON object in argv[1], prints ``{"address": ...}`` when it listens, and
ends when its standard input closes, that is, when its parent ends in whichever way.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any


def serve(settings: dict[str, Any]) -> None:
    """Serve until standard input closes.

    ``settings`` are ``path`` and ``alias`` of the model, and fields of xllamacpp's CommonParams.
    """
    import xllamacpp

    parameters = xllamacpp.CommonParams()
    parameters.model.path = settings.pop("path")
    parameters.model_alias = {settings.pop("alias")}
    for name, value in settings.items():
        setattr(parameters, name, value)
    server = xllamacpp.Server(parameters)
    sys.stdout.write(json.dumps({"address": server.listening_address}) + "\n")
    sys.stdout.flush()
    sys.stdin.buffer.read()
    # The server's threads may be in the middle of an answer nobody waits for any more.
    os._exit(0)


if __name__ == "__main__":
    serve(json.loads(sys.argv[1]))
