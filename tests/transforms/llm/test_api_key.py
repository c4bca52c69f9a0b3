from __future__ import annotations

import pickle
from collections.abc import Iterator
from concurrent import futures
from typing import Any

import pytest

from transforms.errors import EndpointError
from transforms.llm.api_key import is_source, key_of_worker, read_api_key
from transforms.llm.engine import close_engines, engine
from transforms.llm.settings import EngineSettings

KEY = "sk-remint-test-1f2e3d"
SECRET = "projects/p/secrets/openai/versions/latest"


@pytest.mark.parametrize(
    "text", ["env:OPENAI_API_KEY", "file:/run/secrets/key", f"gcp-secret:{SECRET}"]
)
def test_these_are_sources(text):
    assert is_source(text)


@pytest.mark.parametrize(
    "text", [KEY, "", "env:", "file:", "env:A-B", "gcp-secret:p/openai", "x:y"]
)
def test_these_are_none(text):
    assert not is_source(text)


def test_a_key_is_read_from_the_environment(monkeypatch):
    monkeypatch.setenv("OTHER_KEY", KEY)
    assert read_api_key("env:OTHER_KEY") == KEY
    monkeypatch.delenv("OTHER_KEY")
    assert read_api_key("env:OTHER_KEY") is None


def test_a_key_is_read_from_a_file(tmp_path):
    (tmp_path / "key").write_text(KEY + "\n")
    assert read_api_key(f"file:{tmp_path}/key") == KEY


def test_what_cannot_be_read_is_told_without_its_content(tmp_path):
    (tmp_path / "two lines").write_text(f"{KEY}\n{KEY}\n")
    (tmp_path / "empty").write_text("\n")
    for name, reason in {
        "none": "No such file",
        "two lines": "characters that no key has",
        "empty": "is empty",
    }.items():
        with pytest.raises(EndpointError, match=reason) as told:
            read_api_key(f"file:{tmp_path}/{name}")
        assert KEY not in str(told.value)


def test_a_worker_without_the_key_of_the_run_is_refused(monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    settings = EngineSettings(base_url="http://127.0.0.1:1/v1", model="m", cache="c", has_key=True)
    try:
        with pytest.raises(EndpointError, match=r"has no API key in env:OPENAI_API_KEY.*--api-key"):
            engine(settings)
    finally:
        close_engines()
    assert key_of_worker("env:OPENAI_API_KEY", required=False) == "none"


def test_settings_hold_the_name_of_the_source_alone(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    settings = EngineSettings(base_url="http://127.0.0.1:1/v1", model="m", cache="c", has_key=True)
    assert KEY.encode() not in pickle.dumps(settings)
    assert KEY not in repr(settings)


@pytest.fixture
def secrets() -> Iterator[Any]:
    """Yield Google's client, which asks a service on this machine that has one secret."""
    grpc = pytest.importorskip("grpc")
    secretmanager = pytest.importorskip("google.cloud.secretmanager")
    transports = pytest.importorskip(
        "google.cloud.secretmanager_v1.services.secret_manager_service.transports"
    )
    types = secretmanager

    def access(request: Any, context: Any) -> Any:
        if request.name != SECRET:
            context.abort(grpc.StatusCode.PERMISSION_DENIED, f"no access with {KEY}")
        payload = types.SecretPayload(data=f"{KEY}\n".encode())
        return types.AccessSecretVersionResponse(name=request.name, payload=payload)

    handler = grpc.unary_unary_rpc_method_handler(
        access,
        request_deserializer=types.AccessSecretVersionRequest.deserialize,
        response_serializer=types.AccessSecretVersionResponse.serialize,
    )
    service = "google.cloud.secretmanager.v1.SecretManagerService"
    server = grpc.server(futures.ThreadPoolExecutor(1))
    server.add_generic_rpc_handlers(
        [grpc.method_handlers_generic_handler(service, {"AccessSecretVersion": handler})]
    )
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    channel = grpc.insecure_channel(f"127.0.0.1:{port}")
    transport = transports.SecretManagerServiceGrpcTransport(channel=channel)
    yield secretmanager.SecretManagerServiceClient(transport=transport)
    channel.close()
    server.stop(None)


def test_a_key_is_read_from_googles_secret_manager(secrets):
    assert read_api_key(f"gcp-secret:{SECRET}", secrets) == KEY


def test_a_secret_that_may_not_be_read_is_named_and_nothing_else(secrets):
    source = "gcp-secret:projects/p/secrets/other/versions/1"
    with pytest.raises(
        EndpointError, match=r"secrets/other/versions/1 \(PermissionDenied\)"
    ) as told:
        read_api_key(source, secrets)
    assert KEY not in str(told.value)
