from __future__ import annotations

import json
import pickle
from pathlib import Path

import pytest

from pipelines.metricinstruct.inputs import (
    SourceInput,
    excluded_keys,
    excluded_paths,
    input_fingerprints,
    source_inputs,
)
from pipelines.metricinstruct.schema import REAL, SYNTHETIC
from pipelines.metricinstruct.sources.samples import FOLDER
from pipelines.metricinstruct.stages import read_source
from transforms.errors import InputError, OptionError
from transforms.keys import content_key

TOTTO = f"totto={FOLDER}/totto_sample_data.jsonl"
MAP = "mine:task=summarization,input_context=text,reference=gold,hypothesis=out,system=who"
INSTRUCTION = "mine=Write a summary, in one line."


@pytest.fixture
def own_file(tmp_path: Path) -> Path:
    path = tmp_path / "mine.jsonl"
    rows = [
        {"text": "A long text.", "gold": ["Short."], "out": "Long.", "who": "s1", "part": "dev"},
        {"text": "Another text.", "gold": ["Brief."], "out": "Text.", "who": "s2", "part": "odd"},
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def read(one: SourceInput) -> dict[str, list[dict[str, object]]]:
    found: dict[str, list[dict[str, object]]] = {}
    for name, frame in read_source(pickle.loads(pickle.dumps(one))):
        found.setdefault(name, []).extend(frame.to_dicts())
    return found


def test_files_of_both_channels_are_found_with_the_outputs_beside_them() -> None:
    inputs = source_inputs(
        {REAL: [TOTTO], SYNTHETIC: [TOTTO, f"dart={FOLDER}/dart-*.json"]},
        [f"totto={FOLDER}/totto_sample_outputs.jsonl"],
    )
    assert [(one.file.source, one.file.channel, len(one.file.outputs)) for one in inputs] == [
        ("totto", REAL, 1),
        ("dart", SYNTHETIC, 0),
        ("totto", SYNTHETIC, 0),
    ]
    assert [Path(one["path"]).name for one in input_fingerprints(inputs)] == [
        "dart-sample.json",
        "totto_sample_data.jsonl",
        "totto_sample_outputs.jsonl",
    ]
    assert len(read(inputs[0])["examples"]) == 6


def test_a_source_of_ones_own_is_read_by_its_map(own_file: Path) -> None:
    (one,) = source_inputs(
        {REAL: [f"mine={own_file}"]}, field_maps=[f"{MAP},split=part"], instructions=[INSTRUCTION]
    )
    frames = read(one)
    (example,) = frames["examples"]
    assert example["instruction"] == "Write a summary, in one line."
    assert (example["hypothesis"], example["system"]) == ("Long.", "s1")
    assert example["split"] == "validation"
    (rejected,) = frames["rejected"]
    assert (rejected["rule"], rejected["field"], rejected["value"]) == (
        "unknown_split",
        "part",
        "odd",
    )
    entered = {(row["stage"], row["n"]) for row in frames["counts"]}
    assert entered == {("input_rows", 2), ("examples", 1)}


@pytest.mark.parametrize(
    ("files", "more", "error", "message"),
    [
        ({REAL: ["totto"]}, {}, OptionError, "--sources 'totto': write NAME=PATH"),
        ({REAL: ["Totto=a.jsonl"]}, {}, OptionError, "lower-case letters"),
        ({REAL: [f"nope={FOLDER}/dart-sample.json"]}, {}, OptionError, "no source nope"),
        ({REAL: [f"dolly={FOLDER}/dolly-sample.jsonl"]}, {}, OptionError, "doesn't serve"),
        ({SYNTHETIC: ["dart=/nowhere.json"]}, {}, InputError, "no such file"),
        ({SYNTHETIC: [f"dart={FOLDER}/dolly-sample.jsonl"]}, {}, InputError, "not a file of dart"),
        ({REAL: [TOTTO]}, {"outputs": ["dart=a.txt"]}, OptionError, "add --sources dart=PATH"),
        ({REAL: [TOTTO]}, {"field_maps": [MAP]}, OptionError, "either an instruction"),
        (
            {REAL: [TOTTO]},
            {"field_maps": [MAP], "instructions": [INSTRUCTION]},
            OptionError,
            "--field-map mine: add --sources mine=PATH",
        ),
        ({REAL: [TOTTO]}, {"field_maps": ["mine:text"]}, OptionError, "write NAME:task=TASK"),
        ({REAL: [TOTTO]}, {"field_maps": ["mine:id=a,id=b"]}, OptionError, "id is given twice"),
        ({REAL: [TOTTO]}, {"instructions": [INSTRUCTION]}, OptionError, "add --field-map mine"),
    ],
)
def test_what_cannot_be_used_is_refused_with_its_remedy(
    files: dict[str, list[str]],
    more: dict[str, list[str]],
    error: type[Exception],
    message: str,
) -> None:
    with pytest.raises(error, match=message):
        source_inputs(files, **more)


def test_evaluation_inputs_come_from_keys_or_from_files_of_a_source(tmp_path: Path) -> None:
    keys = tmp_path / "keys.txt"
    keys.write_text(f"{content_key('one')}\n\n{content_key('two')}\n")
    of_source = excluded_keys([f"dart={FOLDER}/dart-sample.json"])
    (dart,) = source_inputs({SYNTHETIC: [f"dart={FOLDER}/dart-sample.json"]})
    assert of_source == sorted({row["key"] for row in read(dart)["examples"]})
    both = excluded_keys([str(keys), f"dart={FOLDER}/dart-sample.json"])
    assert both == sorted([*of_source, content_key("one"), content_key("two")])
    keys.write_text("not a key\n")
    with pytest.raises(InputError, match=r"keys.txt, line 1: is no key"):
        excluded_keys([str(keys)])
    with pytest.raises(OptionError, match="there is no source webnlg"):
        excluded_keys(["webnlg=test.json"])


def test_of_a_files_inputs_those_with_the_ids_of_a_list_are_left_out(tmp_path: Path) -> None:
    annotated = FOLDER / "model_annotations.aligned.paired.jsonl"
    (one,) = source_inputs({REAL: [f"summeval={annotated}"]})
    by_id = {str(row["item"]): str(row["key"]) for row in read(one)["examples"]}
    some = sorted(by_id)[:2]
    ids = tmp_path / "ids.txt"
    ids.write_text("\n".join([*some, ""]))
    assert excluded_keys([f"summeval={annotated}#{ids}"]) == sorted(by_id[item] for item in some)
    assert excluded_paths([f"summeval={annotated}#{ids}", str(ids)]) == sorted(
        [str(annotated), str(ids)]
    )
    ids.write_text("\n".join([*some, "another", "a third"]))
    with pytest.raises(InputError, match=r"no input with the ids a third, another; check"):
        excluded_keys([f"summeval={annotated}#{ids}"])


def test_an_evaluation_input_that_cannot_be_read_does_not_stay_in_unnoticed(tmp_path: Path) -> None:
    path = tmp_path / "test.jsonl"
    good = '{"document": "A.", "summary": "B.", "id": "1"}\n'
    path.write_text(f'{good}{{"document": "cut\n{{"summary": "B."}}\n{good}')
    with pytest.raises(InputError, match=r"lines 2 \(bad_json\), 3 \(missing\), and would not"):
        excluded_keys([f"xsum={path}"])
    ids = tmp_path / "ids.txt"
    ids.write_text("1\n")
    assert excluded_keys([f"xsum={path}#{ids}"]) == [content_key("A.")]


@pytest.mark.parametrize(
    ("source", "name", "content", "inputs"),
    [
        (
            "cosmosqa",
            "test.csv",
            "id,context,question,answer0,answer1,answer2,answer3,label\n"
            "1,A mill.,Old?,Yes.,b,c,d,0\n2,A mill.,New?,a,b,c,d,\n",
            [f"Context: A mill.\nQuestion: {question}?" for question in ("Old", "New")],
        ),
        (
            "wmt_da",
            "test.csv",
            "lp,src,mt,ref,score,year\nde-en,Eins.,a,b,1,2022\nen-ja,Two.,a,b,1,2020\n",
            ["Eins.", "Two."],
        ),
        (
            "oasst1",
            "test.jsonl",
            '{"text": "Eins.", "role": "prompter", "lang": "de", "replies": []}\n'
            '{"text": "Two.", "role": "prompter", "replies": []}\n',
            ["Eins.\n", "Two.\n"],
        ),
        (
            "eli5",
            "test.jsonl",
            '{"title": "Why?", "answers": {"text": [], "score": []}}\n',
            ["Why?"],
        ),
        (
            "fetaqa",
            "test.jsonl",
            '{"table_page_title": "Mills", "table_array": [["a"], ["b"]], "question": "Old?", '
            '"highlighted_cell_ids": [[1, 0]], "answer": "Yes."}\n',
            ['Given the table title of "Mills" . In row 1 , the a is b . Old?'],
        ),
        (
            "xsum",
            "test.jsonl",
            '{"document": "One.", "summary": " ", "id": "1"}\n'
            '{"document": "Two.", "id": "2"}\n'
            '{"document": " ", "summary": "B.", "id": "3"}\n',
            ["One.", "Two."],
        ),
        (
            "gsm8k",
            "test.jsonl",
            '{"question": "One?", "answer": ""}\n{"question": "Two?", "ground_truth": ""}\n',
            ["One?", "Two?"],
        ),
        (
            "wmt_da",
            "test.csv",
            "lp,src,mt,ref,score,year\nde-en,Eins.,,b,1,2020\nde-en,Zwei.,a,,1,2020\n"
            ",Drei.,a,b,1,2020\n",
            ["Eins.", "Zwei.", "Drei."],
        ),
        (
            "wmt_mqm",
            "mqm_ende.tsv",
            "system\tseg_id\tsource\ttarget\tcategory\tseverity\n"
            "\t1\tOne.\ta\tNo-error\tNo-error\nb\t2\tTwo.\t\tNo-error\tNo-error\n",
            ["One.", "Two."],
        ),
        (
            "summeval",
            "test.jsonl",
            '{"text": "One.", "decoded": "", "references": ["a"], "id": "1", "model_id": "M1"}\n'
            '{"text": "Two.", "decoded": "b", "references": ["a"], "id": "2"}\n',
            ["One.", "Two."],
        ),
        (
            "eli5",
            "test.jsonl",
            '{"title": "Why?", "answers": {"text": ["a", ""], "score": [1, 2]}}\n',
            ["Why?"],
        ),
        (
            "oasst1",
            "test.jsonl",
            '{"text": "One.", "role": "prompter", "replies": [{"text": ""}]}\n'
            '{"text": "", "deleted": true, "role": "prompter", "replies": []}\n',
            ["One.\n"],
        ),
        (
            "cosmosqa",
            "test.csv",
            "id,context,question,answer0,answer1,answer2,answer3,label\n1,A.,Old?,,b,c,d,0\n",
            ["Context: A.\nQuestion: Old?"],
        ),
        (
            "totto",
            "test.jsonl",
            '{"table": [[{"value": "a", "is_header": false, "column_span": 1, "row_span": 1}]], '
            '"highlighted_cells": [[0, 0]], "sentence_annotations": [{"final_sentence": ""}]}\n',
            ["Given the cell value of a ."],
        ),
    ],
)
def test_rows_that_no_channel_gets_are_evaluation_inputs_nevertheless(
    tmp_path: Path, source: str, name: str, content: str, inputs: list[str]
) -> None:
    (tmp_path / name).write_text(content)
    assert excluded_keys([f"{source}={tmp_path / name}"]) == sorted(map(content_key, inputs))
