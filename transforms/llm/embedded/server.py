"""Serving the embedded model: llama.cpp's own OpenAI-compatible server, in a child process.

The child listens on loopback and ends with its parent, in whichever way that ends: it watches a
pipe that the parent holds.
"""

from __future__ import annotations

import importlib.util
import json
import logging
import os
import platform
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from pathlib import Path
from types import TracebackType
from typing import IO, NamedTuple

from transforms.errors import EndpointError
from transforms.llm.embedded.weights import find_weights, weights_named

#: Seconds for one answer; a small machine that does other things besides needs them.
TIMEOUT = 300.0
#: Merged over every request. llama.cpp counts the prompt's words as repetitions too, where OpenAI's
#: penalties look at the answer alone, so they are off; ``min_p`` drops the less likely words, over
#: which a small model stumbles at the temperatures that large ones are asked at.
EXTRA_BODY = json.dumps({"repeat_last_n": 0, "min_p": 0.3})
_MOST_CALLS = 4

#: A slot keeps the prompt it answered last, and the next one goes where it has most in common: one
#: for each of a dataset's prompts, and some to spare.
_SLOTS = 8
_TOKENS_PER_SLOT = 2048
_START_SECONDS = 180.0
_STOP_SECONDS = 10.0

logger = logging.getLogger("remint.embedded")


class EmbeddedEndpoint(NamedTuple):
    """How the running model is called.

    ``identity`` is what it is known by in request keys, ``slots`` the calls in flight that suit
    it, ``timeout`` the seconds to allow for one, and ``extra_body`` is to be merged over requests.
    """

    base_url: str
    model: str
    identity: str
    slots: int
    timeout: float
    extra_body: str


class EmbeddedModel:
    """An embedded model that runs between ``start`` and ``stop``, or inside a with statement.

    Args:
        name: a key of ``WEIGHTS``.
        path: the user's own copy of the weights; else they are found or fetched.
        cache_dir: where fetched weights stay.
    """

    def __init__(
        self,
        name: str,
        path: str | Path | None = None,
        cache_dir: Path | None = None,
    ) -> None:
        self._weights = weights_named(name)
        self._path = Path(path) if path is not None else None
        self._cache_dir = cache_dir
        self._child: subprocess.Popen[bytes] | None = None

    def start(self) -> EmbeddedEndpoint:
        """Find the weights, start the server and wait until it answers.

        Raises:
            EndpointError: the runtime is not installed, this processor is too old for it, no
                source has the weights, or the server does not come up.
        """
        if self._child is not None:
            raise RuntimeError("the embedded model is running already")
        check_runtime()
        name = self._weights.name
        path = find_weights(name, self._path, self._cache_dir)
        logger.info("starting the embedded model %s", name)
        with tempfile.TemporaryFile() as errors:
            self._child = _start_child(path, name, errors)
            try:
                address = _address(self._child, errors)
                _await_health(address)
            except BaseException:
                self.stop()
                raise
        logger.warning(
            "the embedded model %s writes the texts: good for trying out, not for publishing", name
        )
        return embedded_endpoint(name, f"{address}/v1")

    def stop(self) -> None:
        """End the server; calls that are under way are cut."""
        child, self._child = self._child, None
        if child is None:
            return
        for pipe in (child.stdin, child.stdout):
            if pipe is not None:
                pipe.close()
        try:
            child.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()

    @property
    def pid(self) -> int | None:
        """The server's process id while it runs."""
        return self._child.pid if self._child is not None else None

    def __enter__(self) -> EmbeddedEndpoint:
        """Start."""
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop."""
        self.stop()


def embedded_endpoint(name: str, base_url: str = "") -> EmbeddedEndpoint:
    """Return how the model called ``name`` is called when it is served at ``base_url``.

    Raises:
        OptionError: there is none of that name.
    """
    identity = weights_named(name).identity
    return EmbeddedEndpoint(base_url, name, identity, suitable_calls(), TIMEOUT, EXTRA_BODY)


def suitable_calls(cores: int | None = None) -> int:
    """Return how many calls are best in flight on ``cores``: one for two cores, at most four.

    Measured on two cores, calls side by side take as long as one after the other, and each has to
    read a prompt's examples into a slot of its own before it can use them again.
    """
    return max(1, min(_MOST_CALLS, (cores or os.cpu_count() or 1) // 2))


def check_runtime() -> None:
    """See that llama.cpp's package is here and can run on this processor.

    Raises:
        EndpointError: with the remedy.
    """
    if importlib.util.find_spec("xllamacpp") is None:
        raise EndpointError(
            "no endpoint is given and the embedded model's runtime is not installed: "
            "pip install 'remint[embedded]', or name an endpoint with --base-url"
        )
    if platform.machine().lower() in ("x86_64", "amd64") and not _has_avx2():
        raise EndpointError(
            "the embedded model needs a processor with AVX2, which this one lacks: "
            "name an endpoint with --base-url"
        )


def _has_avx2(information: Path = Path("/proc/cpuinfo")) -> bool:
    """Whether the processor has AVX2; taken for granted where the system does not say."""
    try:
        text = information.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return True
    flags = [line for line in text.splitlines() if line.startswith("flags")]
    return not flags or " avx2" in flags[0]


def _start_child(path: Path, name: str, errors: IO[bytes]) -> subprocess.Popen[bytes]:
    settings = {
        "path": str(path),
        "alias": name,
        "hostnames": ["127.0.0.1"],
        "port": 0,
        "n_parallel": _SLOTS,
        "n_ctx": _SLOTS * _TOKENS_PER_SLOT,
        "cont_batching": True,
        "n_gpu_layers": 0,
        "fit_params": False,
        "ui": False,
        "offline": True,
        "no_extra_bufts": True,  # saves 0.6 GB
        "cache_ram_mib": 0,  # the slots' own caches do
    }
    return subprocess.Popen(
        [sys.executable, str(Path(__file__).with_name("child.py")), json.dumps(settings)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=errors,
        # Threads that wait for work must not burn the cores that the pipeline works on.
        env={**os.environ, "OMP_WAIT_POLICY": "passive"},
    )


def _address(child: subprocess.Popen[bytes], errors: IO[bytes]) -> str:
    assert child.stdout is not None  # noqa: S101 - a pipe was asked for
    limit = threading.Timer(_START_SECONDS, child.kill)
    limit.start()
    try:
        line = child.stdout.readline()
    finally:
        limit.cancel()
    if line:
        return str(json.loads(line)["address"])
    code = child.wait()
    errors.seek(0)
    said = errors.read().decode("utf-8", "replace").strip().splitlines()
    raise EndpointError(
        f"the embedded model did not start (exit code {code}): {said[-1] if said else 'no reason'}"
    )


def _await_health(address: str) -> None:
    # Proxies are for the world outside, not for loopback.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    until = time.monotonic() + _START_SECONDS
    while True:
        try:
            with opener.open(f"{address}/health", timeout=5):
                return
        except OSError as error:
            if time.monotonic() > until:
                raise EndpointError("the embedded model does not get ready") from error
            time.sleep(0.2)
