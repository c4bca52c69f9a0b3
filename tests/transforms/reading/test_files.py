from __future__ import annotations

import bz2
import gzip
import hashlib
import lzma
from pathlib import Path

import pyarrow as pa
import pytest

from tests.bucket import BucketFileSystem
from transforms.errors import InputError
from transforms.reading.files import expand, fingerprint, open_bytes, reading, stored_size

CONTENT = b"text\n" + b"a line of some length\n" * 5000


def read(path: Path | str) -> bytes:
    with open_bytes(str(path)) as file, reading(str(path)):
        return file.read()


def test_expand_gives_each_file_once_in_order(tmp_path: Path) -> None:
    for name in ("b.csv", "a.csv", "c.tsv"):
        (tmp_path / name).touch()
    (tmp_path / "link.csv").symlink_to(tmp_path / "b.csv")

    found = expand([f"{tmp_path}/*.csv", f"{tmp_path}/./a.csv", f"{tmp_path}/c.tsv"])

    assert found == [f"{tmp_path}/{name}" for name in ("a.csv", "b.csv", "c.tsv")]


def test_expand_takes_an_existing_name_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "seeds[1].csv").touch()
    assert expand([f"{tmp_path}/seeds[1].csv"]) == [f"{tmp_path}/seeds[1].csv"]


def test_expand_walks_down_double_stars(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "b" / "x.csv").touch()
    assert expand([f"{tmp_path}/**/*.csv"]) == [f"{tmp_path}/a/b/x.csv"]


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("{}/absent.csv", "absent.csv: no such file"),
        ("{}/*.parquet", "no file matches"),
        ("{}", "is a directory; name its files"),
        ("nowhere://bucket/x.csv", "no file system for this scheme"),
        ("file:///tmp/x.csv", "without file://"),
    ],
)
def test_expand_refuses_what_names_no_file(tmp_path: Path, pattern: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        expand([pattern.format(tmp_path)])


def test_open_bytes_decompresses_by_extension(tmp_path: Path) -> None:
    stored = {
        "x.csv": CONTENT,
        "x.csv.gz": gzip.compress(CONTENT[:100]) + gzip.compress(CONTENT[100:]),
        "x.csv.BZ2": bz2.compress(CONTENT),
        "x.csv.xz": lzma.compress(CONTENT),
        "x.csv.zst": pa.Codec("zstd").compress(CONTENT, asbytes=True),
    }
    for name, data in stored.items():
        (tmp_path / name).write_bytes(data)
        assert read(tmp_path / name) == CONTENT


@pytest.mark.parametrize("name", ["x.gz", "x.bz2", "x.xz", "x.zst"])
def test_damaged_compression_names_the_file(tmp_path: Path, name: str) -> None:
    compress = {
        "x.gz": gzip.compress,
        "x.bz2": bz2.compress,
        "x.xz": lzma.compress,
        "x.zst": lambda data: pa.Codec("zstd").compress(data, asbytes=True),
    }[name]
    cut_off, foreign = tmp_path / f"cut_{name}", tmp_path / f"foreign_{name}"
    stored = compress(hashlib.sha512(CONTENT).digest() * 50 + CONTENT)
    cut_off.write_bytes(stored[: len(stored) - 9])
    foreign.write_bytes(b"no compression at all, only text")
    for path in (cut_off, foreign):
        with pytest.raises(InputError, match=path.name):
            read(path)


def test_any_file_system_of_beam_serves(tmp_path: Path) -> None:
    from apache_beam.io.filesystem import CompressionTypes, FileMetadata, MatchResult
    from apache_beam.io.localfilesystem import LocalFileSystem

    class Remote(LocalFileSystem):
        @classmethod
        def scheme(cls) -> str:
            return "remote"

        def match(self, patterns, limits=None):  # type: ignore[no-untyped-def]
            local = super().match([pattern.removeprefix("remote:/") for pattern in patterns])
            return [
                MatchResult(
                    result.pattern,
                    [
                        FileMetadata("remote:/" + found.path, found.size_in_bytes)
                        for found in result.metadata_list
                    ],
                )
                for result in local
            ]

        def open(self, path, mime_type="", compression_type=CompressionTypes.AUTO):  # type: ignore[no-untyped-def]
            return super().open(path.removeprefix("remote:/"), mime_type, compression_type)

    for name in ("b.csv.gz", "a.csv.gz"):
        (tmp_path / name).write_bytes(gzip.compress(CONTENT))

    found = expand([f"remote:/{tmp_path}/*.csv.gz"])

    assert found == [f"remote:/{tmp_path}/{name}" for name in ("a.csv.gz", "b.csv.gz")]
    with open_bytes(found[0]) as file:
        assert file.read() == CONTENT
    stored = gzip.compress(CONTENT)
    assert fingerprint(found[0])["bytes"] == len(stored)
    for act in (open_bytes, fingerprint, lambda path: expand([path])):
        with pytest.raises(InputError, match=r"gone\.csv"):
            act(f"remote:/{tmp_path}/gone.csv")


@pytest.mark.parametrize("name", ["a[1].csv", "a*.csv", "a?.csv", "[a.csv", "a1.csv"])
def test_an_object_is_taken_as_it_is_even_where_its_name_holds_glob_characters(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(BucketFileSystem, "root", tmp_path, raising=False)
    (tmp_path / "in").mkdir()
    for each in {name, "a1.csv", "a2.csv"}:
        (tmp_path / "in" / each).write_bytes(each.encode())
    (found,) = expand([f"bucket://in/{name}"])
    assert found == f"bucket://in/{name}"
    assert read(found) == name.encode()
    assert stored_size(found) == len(name)
    assert len(expand(["bucket://in/a[12].csv"])) == 2


def test_fingerprint_is_of_the_stored_bytes(tmp_path: Path) -> None:
    path = tmp_path / "x.csv.gz"
    stored = gzip.compress(CONTENT)
    path.write_bytes(stored)
    assert fingerprint(str(path)) == {
        "path": str(path),
        "bytes": len(stored),
        "sha256": hashlib.sha256(stored).hexdigest(),
    }


def test_missing_file_has_a_message(tmp_path: Path) -> None:
    for act in (open_bytes, fingerprint):
        with pytest.raises(InputError, match="no such file; check the path"):
            act(str(tmp_path / "gone.csv"))
