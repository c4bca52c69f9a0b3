"""The boot program of a Beam worker: ``remint-worker``, where a runner starts processes of its own.

A runner calls it as Beam's container contract says, with the worker's id and the address of the
service that knows the rest:

    remint-worker --id=1-1 --provision_endpoint=localhost:40000

It is the command of a PROCESS environment and the executable of a worker pool. Unlike the boot
program of Beam's images it installs nothing: workers run the Python, and the remint, that it
belongs to.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any

#: The pipeline option that says where relative paths start; see ``pipelines.runners``.
WORKING_DIRECTORY = "working_directory"
_SECONDS = 60.0


def main(arguments: Sequence[str] | None = None) -> int:
    """Ask for what the worker has to know, then be that worker until the runner ends it."""
    parser = argparse.ArgumentParser(prog="remint-worker", description="Be a Beam worker")
    parser.add_argument("--id", required=True)
    parser.add_argument("--provision_endpoint", required=True)
    # Runners name other services too; the provision service knows them all.
    known, _ = parser.parse_known_args(arguments)
    information = provision_info(known.provision_endpoint, known.id)
    os.environ.update(environment(known.id, information))
    directory = working_directory(information)
    if directory is not None and os.path.isdir(directory):
        os.chdir(directory)
    from apache_beam.runners.worker import sdk_worker_main

    sdk_worker_main.main([])
    return 0


def provision_info(endpoint: str, worker: str) -> Any:
    """Return the ``ProvisionInfo`` that the runner's service has for ``worker``."""
    import grpc
    from apache_beam.portability.api import beam_provision_api_pb2, beam_provision_api_pb2_grpc

    channel = grpc.insecure_channel(endpoint)
    with channel:
        service = beam_provision_api_pb2_grpc.ProvisionServiceStub(channel)
        # The runner's services tell their workers apart by this header.
        answer = service.GetProvisionInfo(
            beam_provision_api_pb2.GetProvisionInfoRequest(),
            metadata=[("worker_id", worker)],
            timeout=_SECONDS,
        )
        return answer.info


def environment(worker: str, information: Any) -> Mapping[str, str]:
    """Return the environment variables by which Beam's worker is told what to do."""
    from google.protobuf import json_format, text_format

    told = {
        "WORKER_ID": worker,
        "PIPELINE_OPTIONS": json_format.MessageToJson(information.pipeline_options),
        "LOGGING_API_SERVICE_DESCRIPTOR": text_format.MessageToString(information.logging_endpoint),
        "CONTROL_API_SERVICE_DESCRIPTOR": text_format.MessageToString(information.control_endpoint),
        "RUNNER_CAPABILITIES": " ".join(information.runner_capabilities),
    }
    if information.status_endpoint.url:
        told["STATUS_API_SERVICE_DESCRIPTOR"] = text_format.MessageToString(
            information.status_endpoint
        )
    return told


def working_directory(information: Any) -> str | None:
    """Return the directory from which the run was started, if the runner was told."""
    from google.protobuf import json_format

    options = json_format.MessageToDict(information.pipeline_options)
    found = options.get(f"beam:option:{WORKING_DIRECTORY}:v1")
    return str(found) if found else None


if __name__ == "__main__":
    sys.exit(main())
