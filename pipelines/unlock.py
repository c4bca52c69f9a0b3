"""``remint unlock``: for who knows that no run works on a dataset, where remint can't find out."""

from __future__ import annotations

from collections.abc import Sequence

from pipelines.option_parsing import OptionParser, parse_place
from transforms.errors import OutputError
from transforms.publishing import storage
from transforms.publishing.claims import claims
from transforms.publishing.jobs import remove_job
from transforms.publishing.lock import LOCK_NAME, lock_dataset
from transforms.publishing.versions import DATASET_NAME


def run(arguments: Sequence[str]) -> int:
    """Run the command; return the process's exit code.

    Raises:
        RemintError: there is no dataset there, or a run on this machine holds it.
    """
    parser = OptionParser(
        prog="remint unlock",
        description="Take down what keeps runs off a dataset: the note of a job whose driver is "
        "gone and, on object stores, the claims of runs. Only when none of them is at work: "
        "what two runs do at once is paid for twice.",
    )
    parser.add_argument("dataset", help="a dataset's directory, such as s3://bucket/out/prosocial")
    dataset = str(parse_place(parser, arguments).dataset).rstrip("/")
    storage.check_filesystem(dataset)
    if not storage.exists(storage.join(dataset, DATASET_NAME)):
        raise OutputError(f"{dataset} has no {DATASET_NAME}, so it is no dataset of remint's")
    if not storage.is_local(dataset):
        held = sorted(claims(storage.join(dataset, LOCK_NAME)))
        storage.remove_stored(held)
        print(f"{dataset}: {len(held)} claims of runs removed")
    with lock_dataset(dataset):
        job = remove_job(dataset)
    told = f"job {job.job!r} on {job.runner} forgotten" if job else "no job noted"
    print(f"{dataset}: {told}")
    return 0
