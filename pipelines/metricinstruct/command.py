"""``remint metricinstruct``: from options to a published version.

Everything that can be wrong is looked at before a graph is built or a call is paid: options, every
input file's form, the filters, the output, the endpoint.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from pipelines.dry_run import estimate_calls, render, told_size
from pipelines.metricinstruct.analysis import OWN_ANSWER_FIRST, TWO_STEP
from pipelines.metricinstruct.card import answer_lines
from pipelines.metricinstruct.choice import ChoiceSettings
from pipelines.metricinstruct.configurations import Authorship
from pipelines.metricinstruct.corruption import CorruptionSettings
from pipelines.metricinstruct.drafting import DraftAnalyses, DraftSettings
from pipelines.metricinstruct.examples import EDITS, STRUCTURED
from pipelines.metricinstruct.filter_settings import load_filters
from pipelines.metricinstruct.inputs import (
    SourceInput,
    excluded_keys,
    excluded_paths,
    input_fingerprints,
    input_paths,
    source_inputs,
)
from pipelines.metricinstruct.lengths import EMBEDDED_LENGTHS, Lengths
from pipelines.metricinstruct.options import (
    DEFAULT_SAMPLE,
    MetricInstructOptions,
    metricinstruct_parser,
)
from pipelines.metricinstruct.pipeline import DraftPlan, Plan, build, rehearse
from pipelines.metricinstruct.publication import DATASET
from pipelines.metricinstruct.schema import REAL, SYNTHETIC
from pipelines.metricinstruct.selection import SelectionSettings
from pipelines.metricinstruct.sources.registry import DEFAULT_CHOICES
from pipelines.metricinstruct.stages import AnalyseExamples
from pipelines.metricinstruct.task_prompts import by_id, load_task_prompts, steps_of
from pipelines.option_parsing import parse
from pipelines.option_values import named_value
from pipelines.options import DEFAULT_PARTITIONS
from pipelines.runner_checks import check_parallelism, check_paths, check_runner
from pipelines.running import (
    chosen_settings,
    describe_run,
    engine_settings,
    exit_code,
    for_partitions,
    report,
    run_pipeline,
    serving,
)
from pipelines.stopping import stop_run
from transforms.errors import OptionError
from transforms.llm.estimates import Estimate
from transforms.publishing.lock import lock_dataset
from transforms.publishing.publish import PublishResult
from transforms.publishing.versions import (
    claim_version,
    dataset_path,
    open_dataset,
    read_dataset,
)
from transforms.reading.files import fingerprint

#: What all versions of a dataset share unless its first run says otherwise.
DATASET_DEFAULTS = {"partitions": DEFAULT_PARTITIONS}

logger = logging.getLogger("remint.metricinstruct")


def run(arguments: Sequence[str]) -> int:
    """Run the command; return the process's exit code."""
    options = parse(metricinstruct_parser(), MetricInstructOptions, arguments)
    if options.dry_run:
        print(render(estimate(options), options))
        print(size(options))
        return 0
    result = mint(options)
    print(report(result, answer_lines))
    return exit_code(result)


def mint(options: MetricInstructOptions) -> PublishResult:
    """Make a version of the dataset as ``options`` say.

    Raises:
        RemintError: something that has to be put right first; nothing was called or written.
    """
    draft = _draft_plan(options)
    filters = load_filters(options.filters)
    dataset = dataset_path(options.output, DATASET)
    called = [each.base_url for each in draft.engine.endpoints]
    check_runner(options.beam, called, dataset, input_paths(draft.inputs))
    steps = steps_of(draft.drafting.drafting.prompts)
    with lock_dataset(dataset, stop_run), serving(options, dataset, steps) as engine:
        shared = open_dataset(dataset, DATASET, DATASET_DEFAULTS, chosen_settings(options))
        check_parallelism(options.beam, shared["partitions"])
        version = claim_version(dataset)
        draft = replace(
            draft,
            partitions=shared["partitions"],
            engine=for_partitions(engine, options, shared["partitions"]),
        )
        logger.info(
            "%d source files; %s analyses; writing %s",
            len(draft.inputs),
            " and ".join(engine.models),
            version.path,
        )
        named = by_id(draft.drafting.drafting.prompts)
        beside = [*excluded_paths(options.exclude), *filter(None, [options.filters])]
        read = [*input_fingerprints(draft.inputs), *map(fingerprint, beside)]
        plan = Plan(
            draft=draft,
            filters=filters,
            authorship=Authorship(named, engine.extra_bodies()),
            version=version,
            run=describe_run(options, draft.partitions, read, named, engine),
        )
        return run_pipeline(partial(build, plan=plan), options.beam, version, draft.engine)


def estimate(options: MetricInstructOptions) -> Estimate:
    """Return what the calls of ``mint`` would come to; nobody is called and nothing written.

    Raises:
        RemintError: something that has to be put right first.
    """
    load_filters(options.filters)
    plan = _draft_plan(options)
    dataset = dataset_path(options.output, DATASET)
    check_paths(options.beam, dataset, input_paths(plan.inputs))
    return estimate_calls(partial(rehearse, plan=plan), options.beam, plan.engine, dataset)


def size(options: MetricInstructOptions) -> str:
    """Return what a dry run tells of the input's size.

    Raises:
        RemintError: something that has to be put right first.
    """
    plan = _draft_plan(options)
    files = input_paths(plan.inputs)
    dataset = dataset_path(options.output, DATASET)
    return told_size(options, dataset, DATASET, files, plan.engine)


def _draft_plan(options: MetricInstructOptions) -> DraftPlan:
    """Return the plan of a run as far as it can be known before its model serves."""
    inputs = source_inputs(
        {REAL: options.sources, SYNTHETIC: options.synthetic},
        options.outputs,
        options.inputs,
        options.annotations,
        options.field_map,
        options.instruction,
    )
    dataset = dataset_path(options.output, DATASET)
    shared = read_dataset(dataset, DATASET, DATASET_DEFAULTS, chosen_settings(options))
    prompts = load_task_prompts()
    engine = engine_settings(options, dataset, steps_of(prompts))
    return DraftPlan(
        inputs=inputs,
        partitions=shared["partitions"],
        excluded=excluded_keys(options.exclude),
        selection=selection_settings(options, inputs),
        engine=for_partitions(engine, options, shared["partitions"]),
        drafting=AnalyseExamples(DraftAnalyses(prompts, draft_settings(options))),
    )


def selection_settings(
    options: MetricInstructOptions, inputs: Sequence[SourceInput]
) -> SelectionSettings:
    """Return which examples the run chooses and works on.

    Raises:
        OptionError: a choice for no source, or one that there isn't.
    """
    names = sorted({one.file.source for one in inputs})
    choices = dict(DEFAULT_CHOICES)
    for text in options.choice:
        name, choice = named_value("--choice", text, "NAME=CHOICE, with a source's name")
        if name not in names:
            raise OptionError(f"--choice {text!r}: {name} is no source of this run")
        choices[name] = choice
    if options.sample is not None:
        sizes = dict.fromkeys(names, options.sample)
    else:
        sampled = [name for name in names if choices.get(name) == "sample"]
        sizes = dict.fromkeys(sampled, DEFAULT_SAMPLE)
    return SelectionSettings(ChoiceSettings(choices, options.metric), sizes, options.limit)


def draft_settings(options: MetricInstructOptions) -> DraftSettings:
    """Return how the model is asked; a small model answers for itself first, and names edits."""
    return DraftSettings(
        analysis=options.analysis or (OWN_ANSWER_FIRST if options.embedded else TWO_STEP),
        corruption=CorruptionSettings(
            form=options.answer_form or (EDITS if options.embedded else STRUCTURED),
            free_form_share=options.free_form_share,
        ),
        verification=options.verify,
        lengths=EMBEDDED_LENGTHS if options.embedded else Lengths(),
    )
