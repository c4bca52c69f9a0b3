"""Inputs: from the options that name sources to the files that are read, and the keys left out."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pipelines.metricinstruct.schema import CHANNELS, REAL, SYNTHETIC
from pipelines.metricinstruct.sources.annotations import Annotations
from pipelines.metricinstruct.sources.hub import HUB, hub_fingerprint
from pipelines.metricinstruct.sources.numbered_inputs import NumberedInputs
from pipelines.metricinstruct.sources.outputs import read_outputs
from pipelines.metricinstruct.sources.reading import SourceFile, read_keys
from pipelines.metricinstruct.sources.registry import SOURCES, described_source, source_named
from pipelines.metricinstruct.sources.rows import rows_of
from pipelines.metricinstruct.sources.source import Source
from pipelines.metricinstruct.sources.text_files import lines_of
from pipelines.option_values import mapped_columns, named_value
from transforms.errors import InputError, OptionError
from transforms.keys import KEY_LENGTH
from transforms.reading.files import expand, fingerprint

#: The option that names files of each channel.
OPTIONS = {REAL: "--sources", SYNTHETIC: "--synthetic"}
_FORM = "NAME=PATH, with a name of pipelines/metricinstruct/SOURCES.md or one of your own"
_MAP_FORM = (
    "NAME:task=TASK,input_context=COLUMN,... with the NAME given to --sources or --synthetic"
)
_KEY = re.compile(rf"[0-9a-f]{{{KEY_LENGTH}}}")


@dataclass(frozen=True)
class Description:
    """A source of the user's own, as ``registry.described_source`` takes it; picklable."""

    task: str
    fields: tuple[tuple[str, str], ...]
    instruction: str | None


@dataclass(frozen=True)
class SourceInput:
    """One file to read and, where its source is the user's own, what that is; picklable."""

    file: SourceFile
    description: Description | None = None

    @property
    def source(self) -> Source:
        """The source.

        Raises:
            OptionError: there is none, or it doesn't serve the file's channel.
        """
        name, own = self.file.source, self.description
        if own is None:
            return source_named(name, self.file.channel)
        return described_source(name, own.task, dict(own.fields), own.instruction)


def source_inputs(
    files: Mapping[str, Sequence[str]],
    outputs: Sequence[str] = (),
    numbered: Sequence[str] = (),
    annotations: Sequence[str] = (),
    field_maps: Sequence[str] = (),
    instructions: Sequence[str] = (),
) -> list[SourceInput]:
    """Return the checked files that the options name, each file of a source once, sorted.

    Args:
        files: for each channel its ``NAME=PATTERN`` texts.
        outputs: ``NAME=PATTERN`` texts of system outputs beside a source of the real channel.
        numbered: ``NAME=PATTERN`` texts of inputs beside a source whose rows only number them.
        annotations: ``NAME=PATTERN`` texts of human annotations of a source's outputs.
        field_maps: ``NAME:task=TASK,FIELD=COLUMN,...`` texts for sources of the user's own.
        instructions: ``NAME=TEXT`` texts for sources of the user's own.

    Raises:
        OptionError: an option that can't be read or that belongs to no source.
        InputError: no file for a pattern, or a file that isn't its source's.
    """
    named = {channel: _by_name(OPTIONS[channel], files.get(channel, ())) for channel in CHANNELS}
    beside = {
        option: _by_name(option, texts)
        for option, texts in (
            ("--outputs", outputs),
            ("--inputs", numbered),
            ("--annotations", annotations),
        )
    }
    described = _descriptions(field_maps, instructions)
    for name in beside["--inputs"]:
        if name in described or (name in SOURCES and SOURCES[name].input_place is None):
            raise OptionError(f"--inputs {name}: its own file has the inputs; leave it out")
    for option in ("--field-map", *beside):
        for name in beside.get(option, described):
            if not any(name in named[channel] for channel in CHANNELS):
                raise OptionError(f"{option} {name}: add --sources {name}=PATH, or leave it out")
    found = []
    for channel in CHANNELS:
        for name, patterns in sorted(named[channel].items()):
            # Outputs, and what people say of them, are for the real channel.
            files_of_outputs, inputs, annotated = (
                tuple(expand(own[name]))
                if name in own and (channel == REAL or option == "--inputs")
                else ()
                for option, own in beside.items()
            )
            for number, path in enumerate(_paths(patterns)):
                file = SourceFile(
                    name, channel, path, files_of_outputs, inputs, annotated, number == 0
                )
                found.append(SourceInput(file, described.get(name)))
    for one in found:
        check(one)
    return found


def check(one: SourceInput) -> None:
    """Read the first row of a file, and what comes beside it.

    Raises:
        OptionError: its source is unknown or doesn't serve its channel.
        InputError: the file isn't its source's, or one beside it has none of its forms.
    """
    next(rows_of(one.file.path, one.source))
    read_outputs(one.file.outputs)
    NumberedInputs(one.file.inputs)
    Annotations(one.file.annotations)


def excluded_keys(exclude: Sequence[str]) -> list[str]:
    """Return the keys of evaluation inputs that the options name, sorted.

    Args:
        exclude: ``NAME=PATTERN`` for files of a source, ``NAME=PATTERN#FILE`` for the inputs in
            them whose ids the file lists, one a line; else patterns of files of keys, one a line.

    Raises:
        OptionError: there is no such source.
        InputError: a file can't be read or has another form, a row's input can't be read, or an
            id is of no input: nothing that was meant stays in.
    """
    keys: set[str] = set()
    for text in exclude:
        source, paths, ids = _excluded(text)
        if source is None:
            for path in paths:
                keys.update(_keys_in(path))
            continue
        found = read_keys(paths, source, None if ids is None else _ids_in(ids))
        if not found:
            raise InputError(f"--exclude {text!r}: no input of its files is meant; name others")
        keys.update(found)
    return sorted(keys)


def excluded_paths(exclude: Sequence[str]) -> list[str]:
    """Return every file that ``excluded_keys`` reads, each once, sorted.

    Raises:
        OptionError, InputError: as ``excluded_keys``.
    """
    found = set()
    for text in exclude:
        _, paths, ids = _excluded(text)
        found.update(paths if ids is None else [*paths, ids])
    return sorted(found)


def _excluded(text: str) -> tuple[Source | None, list[str], str | None]:
    """Return what an ``--exclude`` names: a source, files, and the file of the ids that count."""
    name, equals, pattern = text.partition("=")
    if equals and name in SOURCES:
        if SOURCES[name].input_place:
            raise OptionError(
                f"--exclude {text!r}: rows of {name} only number their inputs; give a file of "
                "keys, as the column key of `structured` has them"
            )
        path, of_some, ids = pattern.partition("#")
        return SOURCES[name], expand([path]), ids if of_some else None
    if equals and "/" not in name:
        raise OptionError(
            f"--exclude {text!r}: there is no source {name}; known are {', '.join(sorted(SOURCES))}"
        )
    return None, expand([text]), None


def input_paths(inputs: Sequence[SourceInput]) -> list[str]:
    """Return every file behind ``inputs``, each once, sorted; datasets of the Hub are no files."""
    return [path for path in _places(inputs) if not path.startswith(HUB)]


def input_fingerprints(inputs: Sequence[SourceInput]) -> list[dict[str, Any]]:
    """Return what identifies the content of every file and dataset behind ``inputs``, sorted."""
    return [
        hub_fingerprint(path) if path.startswith(HUB) else fingerprint(path)
        for path in _places(inputs)
    ]


def _places(inputs: Sequence[SourceInput]) -> list[str]:
    return sorted(
        {
            path
            for file in (one.file for one in inputs)
            for path in (file.path, *file.outputs, *file.inputs, *file.annotations)
        }
    )


def _by_name(option: str, texts: Sequence[str]) -> dict[str, list[str]]:
    patterns: dict[str, list[str]] = {}
    for text in texts:
        name, pattern = named_value(option, text, _FORM)
        patterns.setdefault(name, []).append(pattern)
    return patterns


def _paths(patterns: Sequence[str]) -> list[str]:
    hub = {pattern for pattern in patterns if pattern.startswith(HUB)}
    return [*expand([pattern for pattern in patterns if pattern not in hub]), *sorted(hub)]


def _descriptions(field_maps: Sequence[str], instructions: Sequence[str]) -> dict[str, Description]:
    texts = dict(
        named_value("--instruction", text, "NAME=TEXT, with the name of a --field-map")
        for text in instructions
    )
    found: dict[str, Description] = {}
    for option in field_maps:
        name, fields = mapped_columns(option, _MAP_FORM)
        if name in found:
            raise OptionError(f"--field-map {option!r}: a second map for {name}; leave one")
        task = fields.pop("task", "")
        found[name] = Description(task, tuple(fields.items()), texts.pop(name, None))
        described_source(name, task, fields, found[name].instruction)
    for name in texts:
        raise OptionError(f"--instruction {name}: add --field-map {name}:..., or leave it out")
    return found


def _ids_in(path: str) -> frozenset[str]:
    return frozenset(line.strip() for _, line in lines_of(path) if line.strip())


def _keys_in(path: str) -> list[str]:
    keys = []
    for number, line in lines_of(path):
        key = line.strip()
        if not key:
            continue
        if not _KEY.fullmatch(key):
            raise InputError(
                f"{path}, line {number}: is no key ({KEY_LENGTH} hexadecimal digits); write "
                "NAME=FILE for a file of a source"
            )
        keys.append(key)
    return keys
