"""``remint prosocial``: from options to a published version.

Everything that can be wrong is looked at before a graph is built or a call is paid: options, every
input file's form, the filters, the output, the endpoint.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from pipelines.options import DEFAULT_PARTITIONS, parse
from pipelines.prosocial.configurations import Authorship
from pipelines.prosocial.crowd_files import check_crowd_file
from pipelines.prosocial.dialogue import DraftSettings
from pipelines.prosocial.filter_settings import load_filters
from pipelines.prosocial.options import ProsocialOptions, prosocial_parser
from pipelines.prosocial.pipeline import Plan, build
from pipelines.prosocial.publication import DATASET
from pipelines.prosocial.seeds.sources import seed_inputs
from pipelines.prosocial.stages import DraftAndAssemble
from pipelines.runners import check_parallelism, check_runner
from pipelines.running import (
    chosen_settings,
    describe_run,
    exit_code,
    report,
    run_pipeline,
    served_at,
    serving,
)
from transforms.llm.prompts import load_prompts
from transforms.publishing.lock import lock_dataset
from transforms.publishing.publish import PublishResult
from transforms.publishing.versions import claim_version, dataset_path, open_dataset
from transforms.reading.files import expand

PROMPTS = Path(__file__).parent / "prompts"

#: What all versions of a dataset share unless its first run says otherwise.
DATASET_DEFAULTS = {"partitions": DEFAULT_PARTITIONS, "split_salt": "prosocial/split"}

logger = logging.getLogger("remint.prosocial")


def run(arguments: Sequence[str]) -> int:
    """Run the command; return the process's exit code."""
    result = mint(parse(prosocial_parser(), ProsocialOptions, arguments))
    print(report(result))
    return exit_code(result)


def mint(options: ProsocialOptions) -> PublishResult:
    """Make a version of the dataset as ``options`` say.

    Raises:
        RemintError: something that has to be put right first; nothing was called or written.
    """
    seeds = seed_inputs(options.seeds, options.field_map)
    responses = expand(options.responses)
    annotations = expand(options.annotations)
    for path in responses:
        check_crowd_file(path, "response")
    for path in annotations:
        check_crowd_file(path, "annotation")
    filters = load_filters(options.filters)
    prompts = load_prompts(PROMPTS)
    dataset = dataset_path(options.output, DATASET)
    files = [*(one.path for one in seeds), *responses, *annotations]
    check_runner(options.beam, served_at(options), dataset, files)
    with lock_dataset(dataset), serving(options, dataset) as engine:
        shared = open_dataset(dataset, DATASET, DATASET_DEFAULTS, chosen_settings(options))
        drafting = DraftSettings(engine.model, model_as_crowd=options.crowd == "llm")
        check_parallelism(options.beam, shared["partitions"])
        version = claim_version(dataset)
        logger.info(
            "%d seed files, %d crowd files; %s drafts; writing %s",
            len(seeds),
            len(responses) + len(annotations),
            engine.model,
            version.path,
        )
        plan = Plan(
            seeds=seeds,
            responses=responses,
            annotations=annotations,
            partitions=shared["partitions"],
            split_salt=shared["split_salt"],
            limit=options.limit,
            engine=engine,
            drafting=DraftAndAssemble(prompts, drafting, filters),
            authorship=Authorship(engine.model, prompts, options.annotator_salt, engine.extra_body),
            version=version,
            run=describe_run(options, shared["partitions"], files, prompts, engine.model),
        )
        return run_pipeline(partial(build, plan=plan), options.beam, version)
