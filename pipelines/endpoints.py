"""The endpoints of a run: the one of ``--model``, or several with the steps each one answers."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from pipelines.endpoints_file import (
    MAIN,
    OTHERS,
    EndpointEntry,
    EndpointsFile,
    StepEntry,
    read_endpoints,
)
from pipelines.options import RunOptions
from transforms.errors import OptionError
from transforms.llm.api_key import DEFAULT_SOURCE, read_api_key
from transforms.llm.prices import price_of
from transforms.llm.routes import Route
from transforms.llm.settings import (
    EngineSettings,
    StructuredMode,
    endpoint_identity,
    is_bounded,
)
from transforms.llm.shared_cache import SharedCache

PUBLIC_ENDPOINT = "https://api.openai.com/v1"

#: The ids of the prompts of each step, by its name.
Steps = Mapping[str, Sequence[str]]


def called_endpoints(
    options: RunOptions, cache: str, shared_caches: tuple[SharedCache, ...], steps: Steps
) -> EngineSettings:
    """Return the settings of all endpoints that a run calls; nothing is called.

    Args:
        options: the run's options.
        cache: the dataset's cache.
        shared_caches: those beneath it.
        steps: of the run.

    Raises:
        OptionError: a step or an endpoint that there isn't, or one that can't be called.
        InputError: the file of prices can't be used.
    """
    file = read_endpoints(options.endpoints)
    entries = {} if options.model is None else {MAIN: EndpointEntry(model=options.model)}
    entries.update(file.endpoints)
    chosen = _by_step(options, file, entries, steps)
    used = {
        name: entry
        for name, entry in entries.items()
        if any(name in one.names for one in chosen.values())
    }
    made: dict[str, EngineSettings] = {}
    for name, entry in used.items():
        own = _settings(name, entry, options, cache, shared_caches)
        made[name] = replace(own, limits=_limits(entry, own, used, made))
    _check_different(made)
    if options.batch:
        _check_keys(made)
    if len(made) == 1:
        return next(iter(made.values()))
    first, *further = made.values()
    return replace(first, further=tuple(further), routes=_routes(chosen, list(made), file, steps))


def _by_step(
    options: RunOptions, file: EndpointsFile, entries: dict[str, EndpointEntry], steps: Steps
) -> dict[str, StepEntry]:
    """Return which endpoints answer each step; models named by ``--model-for`` become entries."""
    given = dict(file.steps)
    for text in options.model_for:
        step, equals, model = text.partition("=")
        if not (equals and step and model):
            raise OptionError(
                f"--model-for {text!r}: write STEP=MODEL, with one of {_named(steps)}"
            )
        if model == options.model:
            model = MAIN
        elif model not in entries:
            if options.model is None:
                raise OptionError(
                    f"--model-for {text!r}: {model} is no endpoint of the file of --endpoints, "
                    "and without --model there is no other one that has models"
                )
            entries[model] = EndpointEntry(model=model)
        given[step] = StepEntry(share={model: 1})
    for step, one in given.items():
        if step not in steps and step != OTHERS:
            raise OptionError(f"there is no step {step!r}; there are {_named(steps)}")
        for name in one.names:
            if name not in entries:
                known = ", ".join(entries) or "none"
                raise OptionError(f"step {step}: there is no endpoint {name!r}; there are {known}")
    others = given.get(OTHERS)
    if others is None and MAIN in entries:
        others = StepEntry(share={MAIN: 1})
    if others is None and not set(steps) <= set(given):
        left = ", ".join(step for step in steps if step not in given)
        raise OptionError(f"nobody answers {left}: name an endpoint for {OTHERS}, or give --model")
    chosen = {step: given.get(step, others) for step in steps}
    return {step: entry for step, entry in chosen.items() if entry is not None}


def _named(steps: Steps) -> str:
    return ", ".join(sorted(steps))


def _settings(
    name: str,
    entry: EndpointEntry,
    options: RunOptions,
    cache: str,
    shared_caches: tuple[SharedCache, ...],
) -> EngineSettings:
    main_url = options.base_url or PUBLIC_ENDPOINT
    base_url = entry.base_url or main_url
    price = price_of(entry.model, options.prices)
    if options.batch and price is not None:
        price = price.by_batch()
    if options.max_cost is not None and price is None:
        raise OptionError(
            f"--max-cost needs the price of {entry.model!r}, which is not known: give it with "
            "--prices FILE (README.md has the form), or bound the number of calls with --max-calls"
        )
    if options.max_cost is not None and not is_bounded(entry.extra_body):
        raise OptionError(
            f"--max-cost needs a bound on the length of answers, and endpoint {name} takes away "
            "max_tokens: give max_completion_tokens in its extra_body"
        )
    limits: Any = entry if entry.limited else options
    return EngineSettings(
        base_url=base_url,
        model=entry.model,
        cache=cache,
        concurrency=limits.concurrency or options.concurrency,
        rpm=limits.rpm,
        tpm=limits.tpm,
        timeout=options.timeout,
        connect_timeout=options.connect_timeout,
        first_byte_timeout=options.first_byte_timeout,
        retries=options.retries,
        structured=StructuredMode(entry.structured or options.structured),
        # A batch's requests are answered one by one.
        samples_per_call=1 if options.batch else entry.samples_per_call or options.samples_per_call,
        extra_body=json.dumps(entry.extra_body, sort_keys=True),
        shared_caches=shared_caches,
        max_calls=options.max_calls,
        max_cost=options.max_cost,
        price=price,
        key_source=_key_source(name, entry, options, base_url),
    )


def _key_source(name: str, entry: EndpointEntry, options: RunOptions, base_url: str) -> str:
    """Return where the endpoint's key is: a key is sent to nobody whom it isn't meant for."""
    where, public = endpoint_identity(base_url), endpoint_identity(PUBLIC_ENDPOINT)
    source = entry.api_key
    if source is None:
        main = endpoint_identity(options.base_url or PUBLIC_ENDPOINT)
        others = DEFAULT_SOURCE if where == public else ""
        source = options.api_key if where == main else others
    is_needed = entry.api_key is not None or where == public
    if is_needed and source.startswith("env:") and read_api_key(source) is None:
        raise OptionError(f"endpoint {name} ({where}) needs a key, and there is none in {source}")
    return source


def _limits(
    entry: EndpointEntry,
    own: EngineSettings,
    used: Mapping[str, EndpointEntry],
    made: Mapping[str, EngineSettings],
) -> int:
    """Return the number of the limits: entries of one base URL that set none have the run's."""
    for other, settings in made.items():
        unlimited = not (entry.limited or used[other].limited)
        if unlimited and settings.endpoint == own.endpoint:
            return settings.limits
    return len(made)


def _check_different(made: Mapping[str, EngineSettings]) -> None:
    """Refuse endpoints that rows and answers could not be told apart by.

    Raises:
        OptionError: two are the same, or call one model with other parameters.
    """
    seen: dict[str, tuple[str, EngineSettings]] = {}
    for name, own in made.items():
        other, same = seen.setdefault(own.model, (name, own))
        if same.extra_body != own.extra_body:
            raise OptionError(
                f"endpoints {other} and {name} call {own.model!r} with different extra_body: a "
                "row's provenance could not tell which; call it by one, or under two names"
            )
    places: dict[tuple[str, str], str] = {}
    for name, own in made.items():
        other = places.setdefault((own.endpoint, own.model), name)
        if other != name:
            raise OptionError(f"endpoints {other} and {name} are one: same base URL and model")


def _check_keys(made: Mapping[str, EngineSettings]) -> None:
    """Refuse endpoints whose batches could not be told apart: they are of a base URL and a key.

    Raises:
        OptionError: two of one base URL have different keys.
    """
    keys: dict[str, tuple[str, str]] = {}
    for name, own in made.items():
        other, source = keys.setdefault(own.endpoint, (name, own.key_source))
        if source != own.key_source:
            raise OptionError(
                f"endpoints {other} and {name} have one base URL and different keys, whose batches "
                "can't be told apart: give both one key, or leave --batch out"
            )


def _routes(
    chosen: Mapping[str, StepEntry], names: Sequence[str], file: EndpointsFile, steps: Steps
) -> tuple[Route, ...]:
    number = {name: place for place, name in enumerate(names)}
    return tuple(
        Route(
            prompt=prompt,
            shares=tuple((number[name], weight) for name, weight in one.share.items()),
            fallback=tuple(dict.fromkeys(number[name] for name in one.fallback)),
            fallback_on=file.fallback_on,
        )
        for step, one in chosen.items()
        for prompt in steps[step]
    )


def told_routes(settings: EngineSettings) -> dict[str, Any]:
    """Return, for the run's record, which models answer each prompt, by its id."""
    models = [each.model for each in settings.endpoints]
    return {
        route.prompt: {
            "share": [[models[number], weight] for number, weight in route.shares],
            "fallback": [models[number] for number in route.fallback],
        }
        for route in settings.routes
    }
