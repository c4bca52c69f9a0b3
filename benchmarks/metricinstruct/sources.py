"""Source files of the size of the release, made up: all six tasks, both channels, eleven sources.

Each is in the form in which its publishers give it, so that remint reads it as a user's. A file's
rows follow from its name and their number, so the same size gives the same files.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

from benchmarks.metricinstruct import texts

#: The issue's size, and how many rows of each source and channel the release has (V1).
EXAMPLES = 50_000
REAL = {
    "samsum": 4_867, "wmt_da": 5_708, "wikitabletext": 5_614, "eli5": 3_352, "gsm8k": 3_558,
    "mixinstruct": 2_248,
}  # fmt: skip
SYNTHETIC = {
    "samsum": 3_999, "wmt19": 4_996, "dart": 3_000, "cosmosqa": 3_999, "gsm8k": 1_999,
    "dolly": 4_937,
}  # fmt: skip
FILES = {
    "real": {
        "samsum": "samsum-train.json",
        "wmt_da": "wmt-da-train.csv",
        "wikitabletext": "wikitabletext-train.jsonl",
        "eli5": "eli5-train.jsonl",
        "gsm8k": "gsm8k-solutions-test.jsonl",
        "mixinstruct": "mixinstruct-train.jsonl",
    },
    "synthetic": {
        "samsum": "samsum-more-train.json",
        "wmt19": "wmt19-train.jsonl",
        "dart": "dart-train.json",
        "cosmosqa": "cosmosqa-valid.csv",
        "gsm8k": "gsm8k-train.jsonl",
        "dolly": "dolly.jsonl",
    },
}
#: Files of outputs beside their sources: lines of JSON by id, or a text file for each system.
OUTPUTS = {
    "samsum": "samsum-outputs.jsonl",
    "eli5": "eli5-outputs.jsonl",
    "wikitabletext": "tables-*.txt",
}
SYSTEMS = {
    "samsum": ("bart", "pegasus", "t5"),
    "wikitabletext": ("tables-alder", "tables-birch"),
    "eli5": ("longform",),
    "gsm8k": ("175b_verification", "6b_finetuning"),
    "mixinstruct": ("alpaca-13b", "dolly-12b", "koala-7b", "vicuna-13b"),
}
#: Language pairs of direct assessments, and of parallel texts.
_JUDGED, _PARALLEL = ("en-zh", "de-en", "ru-en"), ("zh-en", "de-en", "cs-en", "ru-en", "fr-de")
#: Every so many outputs one that equals another system's, and one that nearly equals the last row.
_SAME_EVERY, _NEAR_EVERY = 40, 60


def arguments(directory: Path) -> list[str]:
    """Return what ``remint metricinstruct`` is given to read the files."""
    named = {
        "--sources": FILES["real"],
        "--synthetic": FILES["synthetic"],
        "--outputs": OUTPUTS,
    }
    return [
        text
        for option, files in named.items()
        for text in (option, *(f"{source}={directory / name}" for source, name in files.items()))
    ]


def sizes(examples: int) -> dict[tuple[str, str], int]:
    """Return how many inputs each channel and source has, so many ``examples`` in all."""
    rows = {("real", name): n for name, n in REAL.items()}
    rows |= {("synthetic", name): n for name, n in SYNTHETIC.items()}
    whole = sum(rows.values())
    wanted, given, seen = {}, 0, 0
    for place, n in rows.items():
        seen += n
        wanted[place] = seen * examples // whole - given
        given += wanted[place]
    return wanted


def write_sources(directory: Path, examples: int) -> None:
    """Write all files of so many examples."""
    for (channel, source), rows in sizes(examples).items():
        path = directory / FILES[channel][source]
        inputs = _made(f"{channel} {source}", rows)
        _WRITERS[channel, source](path, inputs)


def _made(name: str, rows: int) -> Iterator[tuple[int, Random]]:
    """Yield a number and a generator for each row of the file called ``name``."""
    for index in range(rows):
        yield index, Random(f"{name} {index}")


_Rows = Iterator[tuple[int, Random]]


def _samsum(path: Path, rows: _Rows) -> None:
    _dump(path, [_chat(f"{path.stem}-{index}", made) for index, made in rows])


def _samsum_with_outputs(path: Path, rows: _Rows) -> None:
    chats = []
    with (path.parent / OUTPUTS["samsum"]).open("w") as file:
        for index, made in rows:
            chat = _chat(f"{path.stem}-{index}", made)
            chats.append(chat)
            for system, output in _outputs(index, made, chat["summary"], SYSTEMS["samsum"]):
                _line(file, {"id": chat["id"], "system": system, "output": output})
    _dump(path, chats)


def _chat(name: str, made: Random) -> dict[str, str]:
    return {
        "id": name,
        "summary": texts.sentences(made, made.randint(1, 2)),
        "dialogue": texts.dialogue(made, made.randint(6, 12) * (1 if made.random() < 0.97 else 5)),
    }


def _direct_assessments(path: Path, rows: _Rows) -> None:
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("lp", "src", "mt", "ref", "score", "raw", "annotators", "domain", "year"))
        last = ("", "", "")
        for index, made in rows:
            pair = _JUDGED[index % 3]
            source, target = pair.split("-")
            if index and index % _NEAR_EVERY == 0:
                src, ref = last[:2]
                output = f"{last[2]}!"
            else:
                src, ref = texts.foreign(made, source), texts.foreign(made, target)
                output = texts.altered(made, ref, 2)
            if index % 3 == 0:
                last = src, ref, output
            score = round(made.uniform(-2, 1), 6)
            writer.writerow((pair, src, output, ref, score, 50, 1, "news", 2018 + index % 4))


def _parallel(path: Path, rows: _Rows) -> None:
    with path.open("w") as file:
        for index, made in rows:
            pair = _PARALLEL[index % len(_PARALLEL)]
            _line(
                file,
                {"translation": {code: texts.foreign(made, code) for code in pair.split("-")}},
            )


def _tables_with_outputs(path: Path, rows: _Rows) -> None:
    systems = SYSTEMS["wikitabletext"]
    files = {name: (path.parent / f"{name}.txt").open("w") for name in systems}
    with path.open("w") as file:
        for index, made in rows:
            headers, cells = texts.table(made)
            reference = texts.sentence(made)
            _line(file, {"headers": headers, "content": cells, "reference": reference})
            for system, output in _outputs(index, made, reference, systems):
                files[system].write(f"{output}\n")
    for each in files.values():
        each.close()


def _dart(path: Path, rows: _Rows) -> None:
    _dump(
        path,
        [
            {
                "tripleset": texts.tuples(made),
                "subtree_was_extended": False,
                "annotations": [
                    {"source": "made up", "text": texts.sentence(made)}
                    for _ in range(made.randint(1, 3))
                ],
            }
            for _, made in rows
        ],
    )


def _questions_with_outputs(path: Path, rows: _Rows) -> None:
    with path.open("w") as file, (path.parent / OUTPUTS["eli5"]).open("w") as outputs:
        for index, made in rows:
            answers = [texts.sentences(made, made.randint(2, 5)) for _ in range(3)]
            scores = made.sample(range(1, 90), 3)
            row = {"q_id": f"q{index}", "title": texts.question(made) + f" ({index})"}
            _line(file, {**row, "answers": {"a_id": ["a", "b", "c"], "text": answers,
                                            "score": scores}})  # fmt: skip
            best = answers[max(range(3), key=scores.__getitem__)]
            for system, output in _outputs(index, made, best, SYSTEMS["eli5"]):
                _line(outputs, {"id": row["q_id"], "system": system, "output": output})


def _cosmosqa(path: Path, rows: _Rows) -> None:
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        names = [f"answer{number}" for number in range(4)]
        writer.writerow(("id", "context", "question", *names, "label"))
        for index, made in rows:
            answers = [texts.sentence(made) for _ in names]
            context = texts.sentences(made, made.randint(3, 5))
            label = made.randrange(4)
            writer.writerow((f"c{index}", context, texts.question(made), *answers, label))


def _problems(path: Path, rows: _Rows) -> None:
    with path.open("w") as file:
        for _, made in rows:
            question, answer = texts.problem(made)
            _line(file, {"question": question, "answer": answer})


def _solutions(path: Path, rows: _Rows) -> None:
    with path.open("w") as file:
        for index, made in rows:
            question, answer = texts.problem(made)
            solved = {
                system: {"is_correct": made.random() < 0.5, "solution": output}
                for system, output in _outputs(index, made, answer, SYSTEMS["gsm8k"])
            }
            _line(file, {"question": question, "ground_truth": answer, **solved})


def _mixinstruct(path: Path, rows: _Rows) -> None:
    with path.open("w") as file:
        for index, made in rows:
            instruction, given, answer = _request(index, made)
            candidates: list[dict[str, Any]] = [
                {
                    "decoding_method": "top_p_sampling",
                    "model": system,
                    "text": output,
                    "scores": {"logprobs": -0.03, "bartscore": round(made.uniform(-5, -1), 4)},
                }
                for system, output in _outputs(index, made, answer, SYSTEMS["mixinstruct"])
            ]
            row = {"id": f"unified_chip2/{index}", "instruction": instruction, "input": given}
            _line(file, {**row, "output": answer, "candidates": candidates, "cmp_results": None})


def _dolly(path: Path, rows: _Rows) -> None:
    with path.open("w") as file:
        for index, made in rows:
            instruction, given, answer = _request(index, made)
            row = {"instruction": instruction, "context": given, "response": answer}
            _line(file, {**row, "category": "open_qa"})


def _request(index: int, made: Random) -> tuple[str, str, str]:
    given = texts.sentences(made, made.randint(2, 4)) if index % 3 == 0 else ""
    answer = texts.paragraphs(made, made.randint(1, 3))
    return f"{texts.question(made)} ({index})", given, answer


def _outputs(
    index: int, made: Random, reference: str, systems: tuple[str, ...]
) -> Iterator[tuple[str, str]]:
    """Yield an output of each system; in some rows the first two gave the same one."""
    first = texts.altered(made, reference, made.randint(1, 4))
    for number, system in enumerate(systems):
        if number == 0 or (number == 1 and index % _SAME_EVERY == 0):
            yield system, first
        else:
            yield system, texts.altered(made, reference, made.randint(1, 6))


def _dump(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, ensure_ascii=False))


def _line(file: Any, value: Any) -> None:
    file.write(json.dumps(value, ensure_ascii=False) + "\n")


_WRITERS = {
    ("real", "samsum"): _samsum_with_outputs,
    ("real", "wmt_da"): _direct_assessments,
    ("real", "wikitabletext"): _tables_with_outputs,
    ("real", "eli5"): _questions_with_outputs,
    ("real", "gsm8k"): _solutions,
    ("real", "mixinstruct"): _mixinstruct,
    ("synthetic", "samsum"): _samsum,
    ("synthetic", "wmt19"): _parallel,
    ("synthetic", "dart"): _dart,
    ("synthetic", "cosmosqa"): _cosmosqa,
    ("synthetic", "gsm8k"): _problems,
    ("synthetic", "dolly"): _dolly,
}
