"""Virtual environments for tools that are not to be installed beside remint."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path


class InstallationError(Exception):
    """A tool could not be installed; the message says why."""


def python_with(name: str, requirements: tuple[str, ...], directory: Path) -> Path:
    """Return the interpreter of an environment that has ``requirements``.

    It is made below ``directory``, unless it is there from an earlier run: by ``venv`` and pip, or
    by uv in a fraction of the time where that is found.

    Raises:
        InstallationError: the environment could not be made.
    """
    place = directory / name
    python = place / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    finished = place / "requirements.txt"
    wanted = "\n".join(requirements)
    if finished.is_file() and finished.read_text(encoding="utf-8") == wanted:
        return python
    shutil.rmtree(place, ignore_errors=True)
    place.parent.mkdir(parents=True, exist_ok=True)
    _run(sys.executable, "-m", "venv", str(place))
    uv = shutil.which("uv") or shutil.which("uv", path=str(Path(sys.executable).parent))
    if uv is None:
        pip = (str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
        _run(*pip, *requirements)
    else:
        install = (uv, "pip", "install", "--quiet", "--compile-bytecode", "--python", str(python))
        _run(*install, *requirements)
    finished.write_text(wanted, encoding="utf-8")
    return python


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        said = (done.stderr or done.stdout).strip().splitlines()
        raise InstallationError(" ".join(said[-3:]) or f"{command[0]} failed")
