"""``remint prosocial``: from options to a published version.

Everything that can be wrong is looked at before a graph is built or a call is paid: options, every
input file's form, the filters, the output, the endpoint.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from pipelines.dry_run import estimate_calls, render, told_size
from pipelines.endpoints import Steps
from pipelines.option_parsing import parse
from pipelines.options import DEFAULT_PARTITIONS
from pipelines.prosocial.configurations import Authorship
from pipelines.prosocial.crowd_files import check_crowd_file
from pipelines.prosocial.dialogue import DraftSettings
from pipelines.prosocial.filter_settings import load_filters
from pipelines.prosocial.options import ProsocialOptions, prosocial_parser
from pipelines.prosocial.pipeline import DraftPlan, Plan, build, rehearse
from pipelines.prosocial.publication import DATASET
from pipelines.prosocial.seeds.sources import seed_inputs
from pipelines.prosocial.stages import DraftAndAssemble
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
from transforms.llm.estimates import Estimate
from transforms.llm.prompts import Prompt, load_prompts
from transforms.publishing.lock import lock_dataset
from transforms.publishing.publish import PublishResult
from transforms.publishing.versions import (
    claim_version,
    dataset_path,
    open_dataset,
    read_dataset,
)
from transforms.reading.files import expand, fingerprint

PROMPTS = Path(__file__).parent / "prompts"

#: What all versions of a dataset share unless its first run says otherwise.
DATASET_DEFAULTS = {"partitions": DEFAULT_PARTITIONS, "split_salt": "prosocial/split"}

logger = logging.getLogger("remint.prosocial")


def run(arguments: Sequence[str]) -> int:
    """Run the command; return the process's exit code."""
    options = parse(prosocial_parser(), ProsocialOptions, arguments)
    if options.dry_run:
        print(render(estimate(options), options))
        print(size(options))
        return 0
    result = mint(options)
    print(report(result))
    return exit_code(result)


def mint(options: ProsocialOptions) -> PublishResult:
    """Make a version of the dataset as ``options`` say.

    Raises:
        RemintError: something that has to be put right first; nothing was called or written.
    """
    draft = _draft_plan(options)
    dataset = dataset_path(options.output, DATASET)
    files = _files(draft)
    called = [each.base_url for each in draft.engine.endpoints]
    check_runner(options.beam, called, dataset, files)
    steps = steps_of(draft.drafting.prompts)
    with lock_dataset(dataset, stop_run), serving(options, dataset, steps) as engine:
        shared = open_dataset(dataset, DATASET, DATASET_DEFAULTS, chosen_settings(options))
        check_parallelism(options.beam, shared["partitions"])
        version = claim_version(dataset)
        draft = replace(
            draft,
            partitions=shared["partitions"],
            split_salt=shared["split_salt"],
            engine=for_partitions(engine, options, shared["partitions"]),
        )
        logger.info(
            "%d seed files, %d crowd files; %s drafts; writing %s",
            len(draft.seeds),
            len(files) - len(draft.seeds),
            " and ".join(engine.models),
            version.path,
        )
        prompts = draft.drafting.prompts
        read = [fingerprint(path) for path in [*files, *filter(None, [options.filters])]]
        plan = Plan(
            draft=draft,
            authorship=Authorship(prompts, options.annotator_salt, engine.extra_bodies()),
            version=version,
            run=describe_run(options, draft.partitions, read, prompts, engine),
        )
        return run_pipeline(partial(build, plan=plan), options.beam, version, draft.engine)


def estimate(options: ProsocialOptions) -> Estimate:
    """Return what the calls of ``mint`` would come to; nobody is called and nothing written.

    Raises:
        RemintError: something that has to be put right first.
    """
    plan = _draft_plan(options)
    dataset = dataset_path(options.output, DATASET)
    check_paths(options.beam, dataset, _files(plan))
    return estimate_calls(partial(rehearse, plan=plan), options.beam, plan.engine, dataset)


def size(options: ProsocialOptions) -> str:
    """Return what a dry run tells of the input's size.

    Raises:
        RemintError: something that has to be put right first.
    """
    plan = _draft_plan(options)
    files = _files(plan)
    dataset = dataset_path(options.output, DATASET)
    return told_size(options, dataset, DATASET, files, plan.engine)


def _files(plan: DraftPlan) -> list[str]:
    """Return every input file of a run."""
    return [*(one.path for one in plan.seeds), *plan.responses, *plan.annotations]


def _draft_plan(options: ProsocialOptions) -> DraftPlan:
    """Return the plan of a run as far as it can be known before its model serves."""
    seeds = seed_inputs(options.seeds, options.field_map)
    responses = expand(options.responses)
    annotations = expand(options.annotations)
    for path in responses:
        check_crowd_file(path, "response")
    for path in annotations:
        check_crowd_file(path, "annotation")
    filters = load_filters(options.filters)
    dataset = dataset_path(options.output, DATASET)
    shared = read_dataset(dataset, DATASET, DATASET_DEFAULTS, chosen_settings(options))
    prompts = load_prompts(PROMPTS)
    engine = engine_settings(options, dataset, steps_of(prompts))
    settings = DraftSettings(model_as_crowd=options.crowd == "llm")
    return DraftPlan(
        seeds=seeds,
        responses=responses,
        annotations=annotations,
        partitions=shared["partitions"],
        split_salt=shared["split_salt"],
        limit=options.limit,
        engine=for_partitions(engine, options, shared["partitions"]),
        drafting=DraftAndAssemble(prompts, settings, filters),
    )


def steps_of(prompts: Mapping[str, Prompt]) -> Steps:
    """Return the ids of each step's prompts: a step is a prompt."""
    return {name: (prompt.id,) for name, prompt in prompts.items()}
