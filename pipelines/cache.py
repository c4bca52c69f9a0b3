"""``remint cache``: looking after the replies that were paid for."""

from __future__ import annotations

from collections.abc import Sequence

from pipelines.option_parsing import OptionParser, parse_place
from transforms.errors import OptionError
from transforms.llm.cache_statistics import cache_statistics
from transforms.llm.cache_verification import verify_cache
from transforms.llm.compaction import CompactionResult, compact_folder
from transforms.llm.folders import folder_path
from transforms.llm.shared_cache import SharedCache, find_cache
from transforms.publishing.lock import lock_dataset

USAGE = """usage: remint cache COMMAND DIR

DIR is a dataset's directory, or its cache directory, on any filesystem.

commands:
  verify      read every record; exit code 1 where something is damaged
  compact     make one compressed segment of each partition's finished ones
  statistics  what it holds, by prompt
"""


def run(arguments: Sequence[str]) -> int:
    """Run the command that ``arguments`` name; return the process's exit code.

    Raises:
        RemintError: there is no such command, or no cache there.
    """
    commands = {"verify": _verify, "compact": _compact, "statistics": _statistics}
    if not arguments or arguments[0] in {"-h", "--help", "help"}:
        print(USAGE, end="")
        return 0 if arguments else 2
    name, *rest = arguments
    if name not in commands:
        raise OptionError(f"unknown command {name!r}; there are {', '.join(commands)}")
    parser = OptionParser(prog=f"remint cache {name}", description=(USAGE.split("\n\n")[1]))
    parser.add_argument("directory", metavar="DIR", help="the dataset's directory, or its cache's")
    return commands[name](find_cache(parse_place(parser, rest).directory))


def _verify(cache: SharedCache) -> int:
    report = verify_cache(cache)
    for failure in report.failures:
        print(f"failed: {failure}")
    for warning in report.warnings:
        print(f"warning: {warning}")
    verdict = f"{len(report.failures)} faults" if report.failures else "sound"
    print(
        f"{cache.directory}: {report.records:,} records in {report.segments:,} segments, "
        f"{report.duplicates:,} duplicates: {verdict}"
    )
    if report.failures:
        print("what is damaged counts as never answered, and is asked for again by the next run")
    return 1 if report.failures else 0


def _compact(cache: SharedCache) -> int:
    total = CompactionResult()
    with lock_dataset(cache.directory):
        for number in range(cache.partitions):
            total += compact_folder(folder_path(cache.directory, number))
    print(
        f"{cache.directory}: {total.segments_before:,} segments, {_megabytes(total.bytes_before)}, "
        f"became {total.segments_after:,}, {_megabytes(total.bytes_after)}; "
        f"{total.duplicates:,} duplicates and {total.damaged:,} damaged records were dropped"
    )
    if total.in_use:
        print(f"{total.in_use:,} segments were left as they are: a run is writing")
    return 0


def _statistics(cache: SharedCache) -> int:
    found = cache_statistics(cache)
    records = sum(prompt.records for prompt in found.prompts.values())
    print(
        f"{cache.directory}: {records:,} records, {found.segments:,} segments "
        f"({found.compacted:,} compacted), {_megabytes(found.bytes)}"
    )
    if not records:
        return 0
    print(f"from {found.first} to {found.last}")
    models = sorted(found.models.items(), key=lambda item: (-item[1], item[0]))
    print("models: " + ", ".join(f"{name} ({count:,})" for name, count in models))
    print(f"{'prompt':<28}{'records':>10}{'bytes':>14}{'tokens in':>14}{'tokens out':>14}  classes")
    for name, prompt in sorted(found.prompts.items()):
        classes = ", ".join(f"{count:,} {each}" for each, count in sorted(prompt.classes.items()))
        print(
            f"{name:<28}{prompt.records:>10,}{prompt.bytes:>14,}"
            f"{prompt.prompt_tokens:>14,}{prompt.completion_tokens:>14,}  {classes}"
        )
    return 0


def _megabytes(size: int) -> str:
    return f"{size / 1e6:,.1f} MB"
