"""The boot program against a provision service like a runner's."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import pytest
from apache_beam.portability.api import (
    beam_provision_api_pb2,
    beam_provision_api_pb2_grpc,
    endpoints_pb2,
)
from apache_beam.runners.worker import sdk_worker_main
from google.protobuf import struct_pb2, text_format

from runner_configs import worker

OPTIONS = {"beam:option:experiments:v1": ["a"], "beam:option:working_directory:v1": "/"}


def address(url: str) -> Any:
    return endpoints_pb2.ApiServiceDescriptor(url=url)


class Provision(beam_provision_api_pb2_grpc.ProvisionServiceServicer):  # type: ignore[misc]
    """Answers as Beam's runners do: to a worker that names itself."""

    def __init__(self) -> None:
        self.workers: list[str] = []

    def GetProvisionInfo(self, request: Any, context: Any) -> Any:  # noqa: N802 - Beam's name
        self.workers.append(dict(context.invocation_metadata())["worker_id"])
        options = struct_pb2.Struct()
        options.update(OPTIONS)
        return beam_provision_api_pb2.GetProvisionInfoResponse(
            info=beam_provision_api_pb2.ProvisionInfo(
                pipeline_options=options,
                logging_endpoint=address("localhost:1"),
                control_endpoint=address("localhost:2"),
                runner_capabilities=["one", "two"],
            )
        )


@pytest.fixture
def runner() -> Iterator[tuple[str, Provision]]:
    service = Provision()
    server = grpc.server(ThreadPoolExecutor(1))
    beam_provision_api_pb2_grpc.add_ProvisionServiceServicer_to_server(service, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield f"127.0.0.1:{port}", service
    server.stop(None)


def test_a_worker_is_told_what_the_runner_knows(
    runner: tuple[str, Provision], monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    endpoint, service = runner
    environment: dict[str, str] = {}
    monkeypatch.setattr("os.environ", environment)
    monkeypatch.setattr(sdk_worker_main, "main", lambda arguments: None)
    monkeypatch.chdir(tmp_path)
    moved: list[str] = []
    monkeypatch.setattr("os.chdir", moved.append)
    arguments = ["--id=3-1", f"--provision_endpoint={endpoint}", "--control_endpoint=localhost:9"]
    assert worker.main(arguments) == 0
    assert service.workers == ["3-1"]
    assert environment["WORKER_ID"] == "3-1"
    assert environment["RUNNER_CAPABILITIES"] == "one two"
    control = endpoints_pb2.ApiServiceDescriptor()
    text_format.Merge(environment["CONTROL_API_SERVICE_DESCRIPTOR"], control)
    assert control.url == "localhost:2"
    assert "STATUS_API_SERVICE_DESCRIPTOR" not in environment
    # Beam's own reader finds the options.
    options = sdk_worker_main._load_pipeline_options(environment["PIPELINE_OPTIONS"])
    assert options == {"experiments": ["a"], "working_directory": "/"}
    assert moved == ["/"]
