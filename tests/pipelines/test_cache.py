"""``remint cache`` on a real cache: sound, damaged, torn, foreign, compacted, in use."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from pipelines.cli import main
from transforms.llm.cache import PartitionCache
from transforms.publishing.lock import lock_dataset


def reply(tokens: int, finish_reason: str = "stop") -> str:
    choice = {"message": {"content": '{"a": 1}'}, "finish_reason": finish_reason}
    usage = {"prompt_tokens": 10 * tokens, "completion_tokens": tokens}
    return json.dumps({"model": "m-1", "choices": [choice], "usage": usage})


@pytest.fixture
def dataset(tmp_path: Path) -> Path:
    place = tmp_path / "prosocial"
    place.mkdir()
    (place / "dataset.json").write_text(json.dumps({"settings": {"partitions": 2}}))
    for partition, prompt, bodies in (
        (0, "rots.v1", [reply(1), reply(2, "length")]),
        (0, "vote.v1", [reply(3)]),
        (1, "vote.v1", [reply(4), reply(4)]),
    ):
        cache = PartitionCache(str(place / "cache"), partition)
        cache.load()
        for number, body in enumerate(bodies):
            key = hashlib.sha256(f"{prompt} {partition} {number}".encode()).hexdigest()
            cache.put(key, prompt, 200, body)
        cache.close()
    return place


def segments(dataset: Path) -> list[Path]:
    return sorted(path for path in (dataset / "cache").rglob("p-*/*"))


def test_a_sound_cache(dataset: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cache", "verify", str(dataset)]) == 0
    assert capsys.readouterr().out == (
        f"{dataset}/cache: 5 records in 3 segments, 0 duplicates: sound\n"
    )


def test_what_a_killed_run_leaves_is_a_warning(
    dataset: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    torn = segments(dataset)[-1]
    torn.write_bytes(torn.read_bytes()[:-9])
    (dataset / "cache" / "p-00000" / "notes.txt").write_text("mine")
    (dataset / "cache" / "p-00002").mkdir()
    (dataset / "cache" / "p-00002" / "x.jsonl").write_text("")
    assert main(["cache", "verify", str(dataset)]) == 0
    out = capsys.readouterr().out
    assert f"warning: {torn}: its last record is cut off (a killed run's)\n" in out
    assert "notes.txt: no segment of this version\n" in out
    assert "warning: p-00002: no folder of one of the 2 partitions\n" in out
    assert out.endswith("4 records in 3 segments, 0 duplicates: sound\n")


def test_damage_is_a_fault(dataset: Path, capsys: pytest.CaptureFixture[str]) -> None:
    damaged = segments(dataset)[0]
    data = damaged.read_bytes()
    damaged.write_bytes(data.replace(b'"status":200', b'"status":2x0', 1))
    assert main(["cache", "verify", str(dataset)]) == 1
    out = capsys.readouterr().out
    assert f"failed: {damaged}: 1 damaged records\n" in out
    assert "4 records in 3 segments, 0 duplicates: 1 faults\n" in out


def test_compacting(dataset: Path, capsys: pytest.CaptureFixture[str]) -> None:
    again = segments(dataset)[0].read_bytes()
    (dataset / "cache" / "p-00000" / f"{'f' * 16}-x.jsonl").write_bytes(again + again[:20])
    assert main(["cache", "compact", str(dataset / "cache")]) == 0
    out = capsys.readouterr().out
    assert "4 segments, 0.0 MB, became 2, 0.0 MB; " in out
    assert "; 2 duplicates and 1 damaged records were dropped\n" in out
    assert [path.suffix for path in segments(dataset)] == [".zst", ".zst"]
    assert main(["cache", "verify", str(dataset)]) == 0
    assert "5 records in 2 segments, 0 duplicates: sound" in capsys.readouterr().out
    broken = segments(dataset)[0]
    broken.write_bytes(broken.read_bytes()[:-9])
    assert main(["cache", "verify", str(dataset)]) == 1
    assert f"failed: {broken}: a compacted segment that is not whole\n" in capsys.readouterr().out


def test_compacting_leaves_what_a_run_is_writing(
    dataset: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    running = PartitionCache(str(dataset / "cache"), 1)
    running.load()
    running.put("0" * 64, "vote.v1", 200, reply(9))
    assert main(["cache", "compact", str(dataset)]) == 0
    assert "1 segments were left as they are: a run is writing\n" in capsys.readouterr().out
    running.close()


def test_two_compactions_at_once_are_refused(
    dataset: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with lock_dataset(str(dataset / "cache")):
        assert main(["cache", "compact", str(dataset)]) == 2
    assert "in use" in capsys.readouterr().err


def test_statistics_by_prompt(dataset: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["cache", "compact", str(dataset)])
    capsys.readouterr()
    assert main(["cache", "statistics", str(dataset)]) == 0
    first, period, models, _, *rows = capsys.readouterr().out.splitlines()
    assert first.startswith(f"{dataset}/cache: 5 records, 2 segments (2 compacted), 0.0 MB")
    assert period.startswith("from 2")
    assert models == "models: m-1 (5)"
    sizes = len(reply(1)) + len(reply(2, "length"))
    assert [row.split() for row in rows] == [
        ["rots.v1", "2", str(sizes), "30", "3", "1", "ok,", "1", "truncated"],
        ["vote.v1", "3", str(3 * len(reply(4))), "110", "11", "3", "ok"],
    ]


def test_an_empty_cache_and_what_is_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "dataset.json").write_text(json.dumps({"settings": {"partitions": 2}}))
    assert main(["cache", "statistics", str(tmp_path)]) == 0
    assert main(["cache", "verify", str(tmp_path)]) == 0
    assert main(["cache", "compact", str(tmp_path)]) == 0
    assert capsys.readouterr().out.count("0 records") == 2
    assert main(["cache", "verify", str(tmp_path / "nothing")]) == 2
    assert main(["cache", "tidy", str(tmp_path)]) == 2
    assert "verify, compact, statistics" in capsys.readouterr().err
    assert main(["cache"]) == 2
    assert main(["cache", "--help"]) == 0
