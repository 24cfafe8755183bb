"""Where requests go and what they carry: the configuration alone decides, on the wire."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from ktx_cli.core.errors import ConfigError
from ktx_cli.llm.backends.anthropic_api import backend as clients
from ktx_cli.llm.backends.anthropic_api.backend import complete, make_client
from ktx_cli.llm.routing import RoutedRuntime
from ktx_cli.project.config.model import KtxConfig
from ktx_cli.testing.model_script import says
from ktx_cli.testing.model_server import ModelServer

Make = Callable[..., RoutedRuntime]

CREDENTIALS = {
    "anthropic": {"authorization": "Bearer sk-of-the-config", "x-api-key": None},
    "gateway": {"authorization": None, "x-api-key": "sk-of-the-config"},
    "vertex": {"authorization": "Bearer token-of-the-config", "x-api-key": None},
}


def reroutes(trap: str) -> dict[str, str]:
    """Every variable of this process that could lead the SDK, or the way it speaks HTTP, elsewhere."""
    return {
        "ANTHROPIC_API_KEY": "sk-of-the-environment",
        "ANTHROPIC_AUTH_TOKEN": "token-of-the-environment",
        "ANTHROPIC_BASE_URL": trap,
        "ANTHROPIC_VERTEX_BASE_URL": f"{trap}/v1",
        "ANTHROPIC_VERTEX_PROJECT_ID": "project-of-the-environment",
        "CLOUD_ML_REGION": "region-of-the-environment",
        "GOOGLE_CLOUD_PROJECT": "project-of-the-environment",
        "ANTHROPIC_CUSTOM_HEADERS": (
            "x-api-key: key-of-the-environment\nAuthorization: Bearer of-the-environment\nx-of-the-environment: yes"
        ),
        "ANTHROPIC_PROFILE": "of-the-environment",
        "ANTHROPIC_FEDERATION_RULE_ID": "of-the-environment",
        "ANTHROPIC_ORGANIZATION_ID": "of-the-environment",
        "ANTHROPIC_IDENTITY_TOKEN": "of-the-environment",
        "ANTHROPIC_MODEL": "of-the-environment",
    }


@pytest.mark.parametrize("backend", ["anthropic", "gateway", "vertex"])
def test_no_variable_of_the_process_reaches_the_wire(
    backend: str, runtime: Make, model_server: ModelServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "netrc").write_text("machine 127.0.0.1 login of-the-environment password of-the-environment\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    with ModelServer([says("from the trap")]) as trap:
        for name, value in reroutes(trap.url).items():
            monkeypatch.setenv(name, value)
        model_server.play([says("from the server")])

        async def ask() -> str:
            async with runtime(backend, model_server.url) as port:
                return (await port.generate_text("hello")).text

        assert asyncio.run(ask()) == "from the server"
        assert trap.requests == []
    (request,) = model_server.requests
    assert "of-the-environment" not in f"{request.path} {request.headers} {request.words}"
    assert {name: request.headers.get(name) for name in CREDENTIALS[backend]} == CREDENTIALS[backend]


@pytest.mark.parametrize(
    ("auth", "sent"),
    [
        ("key", {"x-api-key": "sk-of-the-config", "authorization": None}),
        ("bearer", {"x-api-key": None, "authorization": "Bearer sk-of-the-config"}),
    ],
)
def test_a_gateway_gets_its_key_as_the_setting_says(
    auth: str, sent: dict[str, str | None], runtime: Make, model_server: ModelServer
) -> None:
    model_server.play([says("hello")])

    async def ask() -> None:
        async with runtime("gateway", model_server.url, provider={"auth": auth}) as port:
            await port.generate_text("hello", model="gateway:qwen3:8b")

    asyncio.run(ask())
    (request,) = model_server.requests
    assert {name: request.headers.get(name) for name in sent} == sent
    assert (request.path, request.body["model"]) == ("/v1/messages", "qwen3:8b")


def test_vertex_names_project_region_and_model_in_the_path(runtime: Make, model_server: ModelServer) -> None:
    model_server.play([says("hello")])

    async def ask() -> str | None:
        async with runtime("vertex", model_server.url, provider={"location": "us-east5"}) as port:
            return (await port.generate_text("hello")).facts.resolved_model

    assert asyncio.run(ask()) == "claude-sonnet-5-5"
    (request,) = model_server.requests
    assert request.path == (
        "/v1/projects/the-project/locations/us-east5/publishers/anthropic/models/claude-sonnet-5-5:streamRawPredict"
    )
    assert request.body["anthropic_version"]


def vertex_config(**settings: str) -> KtxConfig:
    vertex = {"location": "europe-west1", **settings}
    return KtxConfig.model_validate({"llm": {"provider": {"backend": "vertex", "vertex": vertex}}})


@pytest.mark.parametrize(
    ("location", "url"),
    [
        ("europe-west1", "https://europe-west1-aiplatform.googleapis.com/v1/"),
        ("global", "https://aiplatform.googleapis.com/v1/"),
        ("us", "https://aiplatform.us.rep.googleapis.com/v1/"),
        ("eu", "https://aiplatform.eu.rep.googleapis.com/v1/"),
    ],
)
def test_each_vertex_location_has_its_address(location: str, url: str, tmp_path: Path) -> None:
    client = make_client("vertex", vertex_config(location=location, project="p"), project_dir=tmp_path, environ={})
    assert str(client.base_url) == url
    asyncio.run(client.close())


def test_without_a_setting_requests_go_to_anthropic_itself(tmp_path: Path) -> None:
    config = KtxConfig.model_validate(
        {"llm": {"provider": {"backend": "anthropic", "anthropic": {"api_key": "env:K"}}}}
    )
    client = make_client("anthropic", config, project_dir=tmp_path, environ={"K": "sk"})
    assert str(client.base_url) == "https://api.anthropic.com"
    assert client.max_retries == 0
    asyncio.run(client.close())


@pytest.mark.table("collects", [True, False])
def test_loading_the_sdk_leaves_the_collector_as_it_was(collects: bool) -> None:
    gc.enable() if collects else gc.disable()
    try:
        clients.load_sdk()
        assert gc.isenabled() is collects
    finally:
        gc.enable()


def test_the_project_of_vertex_comes_from_the_setting_then_the_environment_then_google(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_VERTEX_PROJECT_ID", "of-the-sdk")
    asked: list[object] = []

    def default(*, scopes: list[str]) -> tuple[object, str | None]:
        asked.append(scopes)
        return SimpleNamespace(token="t", expired=False), "of-google"

    monkeypatch.setattr("google.auth.default", default)

    async def project(settings: dict[str, str], environ: dict[str, str]) -> str | None:
        from anthropic import AsyncAnthropicVertex

        client = make_client("vertex", vertex_config(**settings), project_dir=tmp_path, environ=environ)
        assert isinstance(client, AsyncAnthropicVertex)
        async with client:
            await complete(client)
            return client.project_id

    assert asyncio.run(project({"project": "of-the-setting"}, {"GOOGLE_CLOUD_PROJECT": "e"})) == "of-the-setting"
    assert asyncio.run(project({}, {"GOOGLE_CLOUD_PROJECT": "of-the-environment"})) == "of-the-environment"
    assert asked == []
    assert asyncio.run(project({}, {})) == "of-google"
    assert asked == [[clients.GOOGLE_SCOPE]]


def test_a_vertex_token_without_a_project_is_an_error_with_the_edit(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        make_client("vertex", vertex_config(access_token="env:T"), project_dir=tmp_path, environ={"T": "t"})
    assert caught.value.hint == "ktx config set llm.provider.vertex.project PROJECT"


def test_google_credentials_without_a_project_are_the_same_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("google.auth.default", lambda scopes: (object(), None))

    async def ask() -> None:
        async with make_client("vertex", vertex_config(), project_dir=tmp_path, environ={}) as client:
            await complete(client)

    with pytest.raises(ConfigError, match=r"requires `llm\.provider\.vertex\.project`"):
        asyncio.run(ask())


def test_google_that_knows_nobody_is_an_auth_error_with_the_command(
    runtime: Make, model_server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    from google.auth.exceptions import DefaultCredentialsError

    def default(*, scopes: list[str]) -> None:
        raise DefaultCredentialsError("no credentials here")

    monkeypatch.setattr("google.auth.default", default)

    async def ask() -> object:
        provider = {"access_token": None, "project": None}
        async with runtime("vertex", model_server.url, provider=provider) as port:
            return await port.generate_text("hello")

    with pytest.raises(Exception, match="Vertex AI rejected the credentials") as caught:
        asyncio.run(ask())
    assert getattr(caught.value, "code", None) == "auth"
    assert getattr(caught.value, "hint", None) == "gcloud auth application-default login"
    assert model_server.requests == []
