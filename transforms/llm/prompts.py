"""Prompts: versioned template files, what they ask for, and how they are filled.

One YAML file holds one prompt::

    name: utterance            # its file is called utterance.yaml
    version: 1                 # name and version make the id "utterance.v1"
    about: what it is for
    system: ...                # Jinja, the same for every call: it takes no variables
    user: ...                  # Jinja with variables; every {{ expression }} is quoted
    examples:                  # few-shot turns before the question
      - variables: {...}
        answer: {...}          # fits the schema
    schema: {...}              # JSON schema of the answer, an object
    sampling: {temperature: 0.9, top_p: 0.95, max_tokens: 300, origin: ...}

Lists are written out by the template, for instance ``{% for rot in rots %}- {{ rot }}`` and
``{% endfor %}``; texts are quoted one by one (see ``transforms.llm.quoting``).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import jinja2
import yaml

from transforms.errors import InputError
from transforms.llm.json_schema import Validator, check_strict, validator
from transforms.llm.quoting import finalize

Render = Callable[[Mapping[str, Any]], str]

_FIELDS = ("name", "version", "about", "system", "user", "examples", "schema", "sampling")


@dataclass(frozen=True)
class Sampling:
    """How an answer is drawn; all but ``origin`` are sent, and are part of the request key."""

    temperature: float = 1.0
    top_p: float = 1.0
    frequency_penalty: float = 0.0
    presence_penalty: float = 0.0
    max_tokens: int = 512
    #: Where the values come from, for provenance and the dataset card.
    origin: str = ""

    def parameters(self) -> dict[str, float | int]:
        """Return what is sent, in the order of the fields."""
        return {
            field.name: getattr(self, field.name)
            for field in fields(self)
            if field.name != "origin"
        }


@dataclass(frozen=True)
class Prompt:
    """One prompt, ready to be filled; picklable, templates are compiled where they are used.

    ``hash`` is the SHA-256 of the file's canonical content, so that any edit shows in provenance;
    ``prefix`` are the messages that are the same for every call (system and examples); ``user``
    is the template of the last message.
    """

    id: str
    hash: str
    schema: Mapping[str, Any]
    sampling: Sampling
    prefix: tuple[Mapping[str, str], ...]
    user: str
    about: str = ""

    def __getstate__(self) -> dict[str, Any]:
        """Return the fields; what was compiled from them is compiled anew elsewhere."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @cached_property
    def question(self) -> Render:
        """What renders the text of the last message from variables."""
        return compiled(self.user)

    @cached_property
    def validate(self) -> Validator:
        """What checks an answer against ``schema``."""
        return validator(self.schema)

    def sampled_with(self, extra_body: str) -> str:
        """Return all parameters the prompt is sampled with, as JSON, for provenance.

        ``extra_body`` is what the endpoint is told beside them, see ``EngineSettings``.
        """
        parameters = {**self.sampling.parameters(), **json.loads(extra_body)}
        return json.dumps(parameters, sort_keys=True)

    def messages(self, variables: Mapping[str, Any]) -> list[dict[str, str]]:
        """Return the messages of a call.

        Raises:
            jinja2.UndefinedError: a variable of the template is not among ``variables``.
            TypeError: a printed variable is neither text nor number.
        """
        return [
            *(dict(message) for message in self.prefix),
            {"role": "user", "content": self.question(variables)},
        ]


@lru_cache(maxsize=1)
def _environment() -> jinja2.Environment:
    return jinja2.Environment(
        undefined=jinja2.StrictUndefined,
        finalize=finalize,
        autoescape=False,  # prompts are no HTML; finalize quotes
        trim_blocks=True,
        lstrip_blocks=True,
    )


@lru_cache(maxsize=256)
def compiled(source: str) -> Render:
    """Return the function that renders the Jinja template ``source``.

    Raises:
        jinja2.TemplateSyntaxError: ``source`` is no template.
    """
    template = _environment().from_string(source)
    root, context, environment = template.root_render_func, jinja2.runtime.Context, _environment()
    # Merged once: the template's own new_context copies its globals, key by key, for each call.
    names = dict(template.globals)

    def render(variables: Mapping[str, Any]) -> str:
        filled = context(environment, {**names, **variables}, template.name, template.blocks)
        return "".join(root(filled)).strip()

    return render


def load_prompts(directory: Path) -> dict[str, Prompt]:
    """Return the prompts of ``directory`` by name (without version), one per ``*.yaml`` file.

    Raises:
        InputError: a file is no prompt, or an example does not fit template or schema.
    """
    files = sorted(directory.glob("*.yaml"))
    if not files:
        raise InputError(f"no prompts: {directory} holds no *.yaml file")
    return {path.stem: load_prompt(path) for path in files}


def load_prompt(path: Path) -> Prompt:
    """Return the prompt of one YAML file.

    Raises:
        InputError: the file is no prompt, or an example does not fit template or schema.
    """
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
        return _prompt(content, path.stem)
    except (yaml.YAMLError, jinja2.TemplateError, KeyError, TypeError, ValueError) as error:
        raise InputError(f"prompt file {path}: {error}") from error


def _prompt(content: object, name: str) -> Prompt:
    if not isinstance(content, dict) or set(content) != set(_FIELDS):
        raise ValueError(f"a prompt has exactly these fields: {', '.join(_FIELDS)}")
    if content["name"] != name:
        raise ValueError(f"name is {content['name']!r}, the file is called {name}.yaml")
    if not isinstance(content["version"], int):
        raise ValueError("version must be a whole number")
    schema = content["schema"]
    if not isinstance(schema, dict) or schema.get("type") != "object":
        raise ValueError("schema must be the JSON schema of an object")
    check_strict(schema)
    validate = validator(schema)
    question = compiled(content["user"])
    prefix = [{"role": "system", "content": compiled(content["system"])({})}]
    for number, example in enumerate(content["examples"] or [], start=1):
        fault = validate(example["answer"])
        if fault is not None:
            raise ValueError(f"answer of example {number} does not fit the schema: {fault}")
        answer = json.dumps(example["answer"], ensure_ascii=False, separators=(",", ":"))
        prefix.append({"role": "user", "content": question(example["variables"])})
        prefix.append({"role": "assistant", "content": answer})
    canonical = json.dumps(content, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return Prompt(
        id=f"{name}.v{content['version']}",
        hash=hashlib.sha256(canonical.encode()).hexdigest(),
        schema=schema,
        sampling=Sampling(**content["sampling"]),
        prefix=tuple(prefix),
        user=content["user"],
        about=content["about"],
    )
