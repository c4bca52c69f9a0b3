"""The prompts for each task: the files of ``prompts`` and what ``guidelines.yaml`` adds to them.

The prompts about errors are the same for every task but for its aspects and its example. Those
named in ``BY_TASK`` are written without them; here each gets, for every task,

* a system message that goes on with rules for describing an error and the task's aspects,
* the task's good answer and its faulty output as examples, turns before the question,
* the aspects as the closed list of the schema's ``aspect``, wherever that stands,
* an id with the task (``analyse-translation.v1``), and a hash over file and guidelines.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from pipelines.metricinstruct.errors.record import ErrorRecord
from pipelines.metricinstruct.errors.released import errors_text
from pipelines.metricinstruct.schema import ASPECTS
from transforms.errors import InputError
from transforms.llm.prompts import Prompt, load_prompts

#: For each task the prompts by name; those that are the same for all tasks are the same objects.
TaskPrompts = Mapping[str, Mapping[str, Prompt]]

_HERE = Path(__file__).parent
#: Prompts that are made for each task, with the parts of the guidelines that stand in their system
#: message, in that order.
BY_TASK: dict[str, tuple[str, ...]] = {
    "analyse": ("rules", "aspects"),
    "review": ("aspects",),
    "itemise": ("rules", "aspects"),
    "own_answer": (),
    "compare": ("rules", "aspects"),
    "corrupt": ("rules", "aspects"),
    "corrupt_labelled": ("labelled_rules", "aspects"),
    "corrupt_edits": ("edit_rules", "aspects"),
}
#: Of these the ones that judge an output: they are shown a good one as well.
_JUDGE = ("analyse", "review", "itemise", "compare")
_NO_ERROR = "The output does what the task asks for; no error was found."


def load_task_prompts(
    directory: Path = _HERE / "prompts", guidelines: Path = _HERE / "guidelines.yaml"
) -> dict[str, dict[str, Prompt]]:
    """Return the prompts of ``directory`` for each task.

    Raises:
        InputError: a file is no prompt, or the guidelines don't fit the tasks, their aspects or a
            prompt's schema.
    """
    prompts = load_prompts(directory)
    try:
        content = yaml.safe_load(guidelines.read_text(encoding="utf-8"))
        return {
            task: {
                name: _for_task(prompt, task, name, content) if name in BY_TASK else prompt
                for name, prompt in prompts.items()
            }
            for task in ASPECTS
        }
    except (yaml.YAMLError, KeyError, TypeError, ValueError) as error:
        raise InputError(f"guidelines {guidelines}: {error}") from error


def by_id(prompts: TaskPrompts) -> dict[str, Prompt]:
    """Return all prompts by their ids, in the order of the ids."""
    found = {prompt.id: prompt for of_task in prompts.values() for prompt in of_task.values()}
    return dict(sorted(found.items()))


def steps_of(prompts: TaskPrompts) -> dict[str, list[str]]:
    """Return the ids of each step's prompts: a step is a prompt, whatever the task."""
    found: dict[str, set[str]] = {}
    for of_task in prompts.values():
        for name, prompt in of_task.items():
            found.setdefault(name, set()).add(prompt.id)
    return {name: sorted(ids) for name, ids in sorted(found.items())}


def lines(text: str | None) -> list[str]:
    """Return the lines of a text, as prompts take texts that may have several; none for None."""
    return text.splitlines() if text else []


def labelled_answer(output: str, errors: Sequence[ErrorRecord]) -> str:
    """Return the answer in labelled text: the incorrect output, then the released text."""
    return f"Incorrect output: {output}\n{errors_text(errors)}"


def _for_task(prompt: Prompt, task: str, name: str, guidelines: Mapping[str, Any]) -> Prompt:
    own = guidelines["tasks"][task]
    if tuple(own["aspects"]) != ASPECTS[task]:
        raise ValueError(f"{task}: the aspects are {', '.join(ASPECTS[task])}, in this order")
    parts = {**guidelines, "aspects": _listed(own["aspects"])}
    system = [prompt.prefix[0]["content"], *(str(parts[part]).strip() for part in BY_TASK[name])]
    made = replace(prompt, schema=_with_aspects(prompt.schema, list(own["aspects"])))
    prefix: list[Mapping[str, str]] = [{"role": "system", "content": "\n\n".join(system)}]
    for example in _examples(own["example"], name):
        answer = {field: example[field] for field in made.schema["required"]}
        fault = made.validate(answer)
        if fault is not None:
            raise ValueError(f"{task}: its example does not fit {name}: {fault}")
        prefix.append(made.messages(_as_variables(example))[-1])
        prefix.append({"role": "assistant", "content": _compact(answer)})
    made_of = [prompt.hash, system[1:], prefix[1:], list(own["aspects"])]
    slug = re.sub(r"\W+", "-", task)
    return replace(
        made,
        id=prompt.id.replace(name, f"{name}-{slug}", 1),
        hash=hashlib.sha256(_compact(made_of).encode()).hexdigest(),
        prefix=tuple(prefix),
    )


def _listed(aspects: Mapping[str, str]) -> str:
    return "\n".join(["Aspects:", *(f"- {aspect}: {text}" for aspect, text in aspects.items())])


def _examples(example: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    """Return the examples of a prompt: a good output, a faulty one, with all that it may show."""
    errors = [ErrorRecord(**error) for error in example["errors"]]
    faulty = {
        **example,
        "aspects": [error.aspect for error in errors],
        "labelled": labelled_answer(example["output"], errors),
        "edits": [_edit(error) for error in example["errors"]],
    }
    if name not in _JUDGE:
        return [faulty]
    # Nothing to compare with but the reference: the good answer stands in the output's place.
    good = {**faulty, "output": example["answer"], "answer": example["reference"]}
    # The faulty one last: a small model does what the last example did.
    return [{**good, "errors": [], "analysis": _NO_ERROR}, faulty]


def _edit(error: Mapping[str, Any]) -> dict[str, Any]:
    same = ("explanation", "aspect", "severity", "score_reduction")
    changed = {"correct": error["suggestion"], "wrong": error["location"]}
    return {**changed, **{name: error[name] for name in same}}


def _as_variables(example: Mapping[str, Any]) -> dict[str, Any]:
    texts = ("input", "reference", "answer", "output", "analysis")
    return {**example, **{name: lines(example[name]) for name in texts}, "cut": False}


def _with_aspects(schema: Mapping[str, Any], aspects: list[str]) -> dict[str, Any]:
    """Return ``schema`` with ``aspects`` as the values that each property ``aspect`` may have."""
    made = dict(schema)
    if "items" in made:
        made["items"] = _with_aspects(made["items"], aspects)
    if "properties" in made:
        made["properties"] = {
            name: {**inner, "enum": aspects} if name == "aspect" else _with_aspects(inner, aspects)
            for name, inner in made["properties"].items()
        }
    return made


def _compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
