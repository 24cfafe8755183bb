"""Which backends are offered, in which order, and why one cannot be used now."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from ktx_cli.core.errors import KtxError
from ktx_cli.jobs.setup.detect import models
from ktx_cli.jobs.setup.detect import models as gateways
from ktx_cli.jobs.setup.detect.models import LocalGateway, ModelOffer, model_offers
from ktx_cli.jobs.setup.plan import model_settings
from ktx_cli.llm.backends.claude_code import AUTH_HINT, AUTH_MESSAGE
from ktx_cli.llm.errors import llm_error
from ktx_cli.project.config.model import KtxConfig
from ktx_cli.testing.claude_session import offline_session
from ktx_cli.testing.codex_session import codex_offline
from ktx_cli.testing.model_server import ModelServer
from tests.llm.backends.codex.conftest import needs_codex

KEY = "sk-ant-api03-made-up"


def config(**claude: Any) -> KtxConfig:
    return KtxConfig.model_validate({"llm": {"provider": {"claude": claude}}})


@pytest.fixture
def no_session(monkeypatch: pytest.MonkeyPatch) -> KtxError:
    """Nobody is signed in: the binary's own answer is in the tests of the session."""
    error = llm_error("auth", backend="claude-code")

    async def ask(*args: Any, **options: Any) -> Any:
        raise error

    monkeypatch.setattr("ktx_cli.llm.backends.claude.session.local_session", ask)
    return error


def offers(tmp_path: Path, environ: Mapping[str, str]) -> list[ModelOffer]:
    """What is offered beside the session."""
    first, *others = model_offers(KtxConfig(), project_dir=tmp_path, environ=environ)
    assert first.backend == "claude-code"
    return others


def test_a_session_that_is_there(model_server: ModelServer, tmp_path: Path) -> None:
    with offline_session(model_server) as offline:
        (offer,) = model_offers(config(), project_dir=tmp_path, environ=offline.environ)
    assert (offer.backend, offer.problem, offer.settings) == ("claude-code", None, {})
    assert offer.label.startswith("your local Claude Code session (oauth_token), Claude Code 2.")
    assert model_server.model_calls == []
    assert list(tmp_path.iterdir()) == []


def test_no_session_whatever_the_key(model_server: ModelServer, tmp_path: Path) -> None:
    with offline_session(model_server, signed_in=False, extra={"ANTHROPIC_API_KEY": KEY}) as offline:
        first, second = model_offers(config(), project_dir=tmp_path, environ=offline.environ)
    assert first.problem is not None
    assert (first.problem.message, first.problem.hint) == (AUTH_MESSAGE, AUTH_HINT)
    assert (second.backend, second.problem) == ("anthropic", None)


@needs_codex
@pytest.mark.parametrize("is_signed_in", [False, True])
def test_codex_is_offered_where_it_is_installed(
    is_signed_in: bool, model_server: ModelServer, tmp_path: Path, no_session: KtxError
) -> None:
    with codex_offline(model_server, login=None if is_signed_in else {}) as offline:
        first, second, *others = model_offers(config(), project_dir=tmp_path, environ=offline.environ)
    assert (first.backend, second.backend, others) == ("claude-code", "codex", [])
    if is_signed_in:
        assert second.problem is None
        assert second.label.startswith("your local Codex session (ChatGPT), Codex 0.")
    else:
        assert second.problem is not None
        assert (second.label, second.problem.hint) == ("your local Codex session", "codex login")
        assert str(second.problem.details["sign_in"]).endswith("codex login")
    assert model_server.requests == []


def test_codex_is_not_offered_where_it_is_not_installed(tmp_path: Path, no_session: KtxError) -> None:
    (offer,) = model_offers(config(), project_dir=tmp_path, environ={"PATH": str(tmp_path)})
    assert offer.backend == "claude-code"


@pytest.mark.table(("names", "sign_in"), [(("claude",), "claude auth login"), ((), "{folder}/named/claude auth login")])
def test_the_command_that_signs_in_is_one_the_shell_finds(
    names: tuple[str, ...], sign_in: str, tmp_path: Path, no_session: KtxError
) -> None:
    folder = tmp_path / f"bin{len(names)}"
    folder.mkdir()
    for name in names:
        (folder / name).touch(0o755)
    where = config(cli_path=str(tmp_path / "named" / "claude"))
    (offer,) = model_offers(where, project_dir=tmp_path, environ={"PATH": str(folder)})
    assert offer.problem is not None
    assert offer.problem.details["sign_in"] == sign_in.format(folder=tmp_path)


@pytest.mark.table(
    ("script", "message"),
    [
        (None, "which is not an executable program"),
        ("echo nothing", "does not print its version"),
        ("echo 1.0.3", "ktx requires"),
        ("exit 3", "does not print its version"),
    ],
)
def test_a_broken_binary_is_an_offer_with_a_problem(script: str | None, message: str, tmp_path: Path) -> None:
    path = tmp_path / f"claude that says {script}"
    if script is not None:
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
    project = tmp_path / "project"
    (offer,) = model_offers(config(cli_path=str(path)), project_dir=project, environ={"PATH": "/usr/bin:/bin"})
    assert offer.problem is not None
    assert message in offer.problem.message
    assert offer.problem.hint


def test_a_binary_that_cannot_be_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def ask(*args: Any, **options: Any) -> Any:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("ktx_cli.llm.backends.claude.session.local_session", ask)
    (offer,) = model_offers(config(), project_dir=tmp_path, environ={})
    assert offer.problem is not None
    assert (offer.problem.code, offer.problem.hint) == ("connection", "ktx doctor")


GATEWAY = "https://gateway.example.com/anthropic"


@pytest.mark.table(
    ("environ", "backend", "settings"),
    [
        ({"ANTHROPIC_API_KEY": KEY}, "anthropic", {"api_key": "env:ANTHROPIC_API_KEY"}),
        (
            {"ANTHROPIC_API_KEY": KEY, "ANTHROPIC_BASE_URL": "https://api.anthropic.com/"},
            "anthropic",
            {"api_key": "env:ANTHROPIC_API_KEY"},
        ),
        (
            {"ANTHROPIC_API_KEY": KEY, "ANTHROPIC_BASE_URL": f"{GATEWAY}/"},
            "gateway",
            {"base_url": GATEWAY, "api_key": "env:ANTHROPIC_API_KEY"},
        ),
        (
            {"ANTHROPIC_AUTH_TOKEN": "t", "ANTHROPIC_API_KEY": KEY, "ANTHROPIC_BASE_URL": GATEWAY},
            "gateway",
            {"base_url": GATEWAY, "api_key": "env:ANTHROPIC_AUTH_TOKEN", "auth": "bearer"},
        ),
        ({"ANTHROPIC_BASE_URL": GATEWAY}, "gateway", {"base_url": GATEWAY}),
        ({"OPENAI_API_KEY": KEY}, "openai", {"api_key": "env:OPENAI_API_KEY"}),
        (
            {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": "https://eu.api.openai.com/v1"},
            "openai",
            {"api_key": "env:OPENAI_API_KEY"},
        ),
        (
            {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": "https://openrouter.ai/api/v1/"},
            "openai-compatible",
            {"base_url": "https://openrouter.ai/api/v1", "api_key": "env:OPENAI_API_KEY"},
        ),
        ({"OPENAI_BASE_URL": "http://10.0.0.1:8000"}, "openai-compatible", {"base_url": "http://10.0.0.1:8000"}),
        ({"GEMINI_API_KEY": KEY, "GOOGLE_API_KEY": "x"}, "gemini", {"api_key": "env:GEMINI_API_KEY"}),
        ({"GOOGLE_API_KEY": KEY}, "gemini", {"api_key": "env:GOOGLE_API_KEY"}),
        (
            {"AI_GATEWAY_API_KEY": KEY},
            "gateway",
            {"base_url": "https://ai-gateway.vercel.sh", "api_key": "env:AI_GATEWAY_API_KEY"},
        ),
        (
            {"AWS_BEARER_TOKEN_BEDROCK": KEY, "AWS_REGION": "us-west-2", "AWS_PROFILE": "work"},
            "bedrock",
            {"location": "us-west-2", "api_key": "env:AWS_BEARER_TOKEN_BEDROCK", "profile": ""},
        ),
        (
            {"AWS_ACCESS_KEY_ID": KEY, "AWS_DEFAULT_REGION": "us-west-2"},
            "bedrock",
            {"location": "us-west-2", "profile": ""},
        ),
        ({"AWS_PROFILE": "work"}, "bedrock", {"profile": "work"}),
        ({"CLAUDE_CODE_USE_BEDROCK": "1", "AWS_REGION": "eu-west-1"}, "bedrock", {"location": "eu-west-1"}),
        ({"CLOUD_ML_REGION": "europe-west1"}, "vertex", {"location": "europe-west1"}),
        ({"ANTHROPIC_VERTEX_PROJECT_ID": "one", "GOOGLE_CLOUD_PROJECT": "two"}, "vertex", {"project": "one"}),
    ],
)
def test_what_the_environment_has(
    environ: dict[str, str], backend: str, settings: dict[str, str], tmp_path: Path, no_session: KtxError
) -> None:
    (offer,) = offers(tmp_path, environ)
    assert (offer.backend, offer.settings) == (backend, settings)
    assert model_settings(KtxConfig(), offer.backend, None, offer.settings), "setup takes them as they are"
    assert not any(value in offer.label for value in (KEY, "sk-"))


@pytest.mark.table(
    "environ",
    [
        {},
        {"ANTHROPIC_API_KEY": " "},
        {"OPENAI_API_KEY": " "},
        {"OPENAI_BASE_URL": "no address"},
        {"ANTHROPIC_BASE_URL": "no address", "ANTHROPIC_API_KEY": KEY},
        {"ANTHROPIC_BASE_URL": "http://[", "ANTHROPIC_API_KEY": KEY},
        {"GOOGLE_CLOUD_PROJECT": "of something else"},
        {"AWS_REGION": "us-east-1"},
        {"HOME": "/nowhere", "GCLOUD_PROJECT": "of something else"},
    ],
)
def test_what_is_not_there_is_not_offered(environ: dict[str, str], tmp_path: Path, no_session: KtxError) -> None:
    assert offers(tmp_path, environ) == []


@pytest.mark.table(
    ("environ", "hint"),
    [
        ({"ANTHROPIC_API_KEY": f"{KEY}\n\n"}, "export ANTHROPIC_API_KEY=..., with nothing but the key"),
        (
            {"ANTHROPIC_AUTH_TOKEN": "tok en\r\n\r\n", "ANTHROPIC_BASE_URL": GATEWAY},
            "export ANTHROPIC_AUTH_TOKEN=..., with nothing but the key",
        ),
        ({"OPENAI_API_KEY": f"{KEY}\n\n"}, "export OPENAI_API_KEY=..., with nothing but the key"),
        (
            {"OPENAI_BASE_URL": "https://me:hunter22@models.example.com/v1"},
            "export OPENAI_BASE_URL=https://models.example.com/v1",
        ),
        (
            {"ANTHROPIC_BASE_URL": "https://me:hunter22@gateway.example.com"},
            "export ANTHROPIC_BASE_URL=https://gateway.example.com",
        ),
    ],
)
def test_a_key_or_an_address_that_cannot_be_used(
    environ: dict[str, str], hint: str, tmp_path: Path, no_session: KtxError
) -> None:
    (offer,) = offers(tmp_path, environ)
    assert offer.problem is not None
    assert offer.problem.hint == hint
    assert "hunter22" not in f"{offer}"


def test_the_order_is_session_key_google_openai_gateways(tmp_path: Path, no_session: KtxError) -> None:
    environ = {"ANTHROPIC_API_KEY": KEY, "OPENAI_API_KEY": KEY, "CLOUD_ML_REGION": "global"}
    assert [offer.backend for offer in offers(tmp_path, environ)] == ["anthropic", "vertex", "openai"]


USER = {"type": "authorized_user", "quota_project_id": "billed"}
ROBOT = {"type": "service_account", "project_id": "owned"}


@pytest.mark.table(
    ("place", "content", "environ", "project"),
    [
        ("home/.config/gcloud/" + models.FILE, USER, {"HOME": "home"}, "billed"),
        ("gcloud/" + models.FILE, USER, {"CLOUDSDK_CONFIG": "gcloud", "HOME": "home"}, "billed"),
        ("key.json", ROBOT, {"GOOGLE_APPLICATION_CREDENTIALS": "key.json"}, "owned"),
        ("key.json", {"type": "external_account"}, {"GOOGLE_APPLICATION_CREDENTIALS": "key.json"}, None),
    ],
)
def test_googles_credentials(
    place: str, content: Any, environ: dict[str, str], project: str | None, tmp_path: Path, no_session: KtxError
) -> None:
    path = tmp_path / "-".join(environ) / place
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content))
    folder = Path(str(path).removesuffix(place))
    (offer,) = offers(tmp_path, {name: str(folder / value) for name, value in environ.items()})
    assert (offer.backend, offer.problem, offer.settings.get("project")) == ("vertex", None, project)


@pytest.mark.table("content", [None, b"", b"[]", b"{}", b'{"type": 7}', b"\xff"])
def test_credentials_that_are_none(content: bytes | None, tmp_path: Path, no_session: KtxError) -> None:
    path = tmp_path / "key.json"
    path.unlink(missing_ok=True)
    if content is not None:
        path.write_bytes(content)
    (offer,) = offers(tmp_path, {"GOOGLE_APPLICATION_CREDENTIALS": str(path)})
    assert offer.problem is not None
    assert (offer.problem.code, offer.problem.hint) == ("not_ready", models.LOGIN)


def test_google_without_its_package(tmp_path: Path, no_session: KtxError, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(models, "is_installed", lambda package: False)
    (offer,) = offers(tmp_path, {"CLOUD_ML_REGION": "global"})
    assert offer.problem is not None
    assert offer.problem.hint == "pip install 'ktx-cli[vertex]'"


def test_a_gateway_on_this_machine(
    gateway: Any, silent_port: int, tmp_path: Path, no_session: KtxError, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = LocalGateway("LiteLLM", gateway.port, ("LITELLM_MASTER_KEY",), has_openai_api=False)
    monkeypatch.setattr(gateways, "ANSWER_SECONDS", 0.3)
    monkeypatch.setattr(gateways, "LOCAL_GATEWAYS", (LocalGateway("Ollama", silent_port), there))
    (offer,) = offers(tmp_path, {})
    assert offer.label == f"LiteLLM on this machine ({gateway.url}), accepts any key"
    assert (offer.settings, offer.models) == ({"base_url": gateway.url}, ("qwen3:8b", "glm"))

    gateway.status, gateway.body = 401, b'{"error": {}}'
    (offer,) = offers(tmp_path, {"LITELLM_MASTER_KEY": "sk-1234"})
    assert offer.label.endswith("requires a key")
    assert offer.settings == {"base_url": gateway.url, "api_key": "env:LITELLM_MASTER_KEY"}


def test_a_server_on_this_machine(
    gateway: Any, tmp_path: Path, no_session: KtxError, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gateways, "LOCAL_GATEWAYS", (LocalGateway("vLLM", gateway.port, ("VLLM_API_KEY",)),))
    (offer,) = offers(tmp_path, {"VLLM_API_KEY": "sk-1234"})
    assert offer.label == f"vLLM on this machine ({gateway.url})"
    assert (offer.backend, offer.models) == ("openai-compatible", ("qwen3:8b", "glm"))
    assert offer.settings == {"base_url": f"{gateway.url}/v1", "api_key": ""}, "no key is asked for"

    gateway.status, gateway.body = 401, b'{"error": {}}'
    (offer,) = offers(tmp_path, {"VLLM_API_KEY": "sk-1234"})
    assert offer.label.endswith(", requires a key")
    assert offer.settings == {"base_url": f"{gateway.url}/v1", "api_key": "env:VLLM_API_KEY"}
    assert offers(tmp_path, {"OPENAI_BASE_URL": f"http://localhost:{gateway.port}/v1"})[0].label.endswith("_BASE_URL")
    assert len(offers(tmp_path, {"OPENAI_BASE_URL": f"http://localhost:{gateway.port}/v1"})) == 1

    monkeypatch.setitem(sys.modules, "openai", None)
    (offer,) = offers(tmp_path, {})
    assert (offer.backend, offer.settings) == ("gateway", {"base_url": gateway.url}), "new versions have that API too"


def test_openai_without_its_package(tmp_path: Path, no_session: KtxError, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "openai", None)
    for environ in ({"OPENAI_API_KEY": KEY}, {"OPENAI_BASE_URL": "http://10.0.0.1:8000"}):
        (offer,) = offers(tmp_path, environ)
        assert offer.problem is not None
        assert offer.problem.hint == "pip install 'ktx-cli[openai]'"


def test_a_gateway_that_is_named_too_is_offered_once(
    gateway: Any, tmp_path: Path, no_session: KtxError, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gateways, "LOCAL_GATEWAYS", (LocalGateway("Ollama", gateway.port),))
    url = f"http://localhost:{gateway.port}"
    (offer,) = offers(tmp_path, {"ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": "ollama"})
    assert offer.settings == {"base_url": url, "api_key": "env:ANTHROPIC_API_KEY"}
    assert offer.models == ("qwen3:8b", "glm")
    assert len(gateway.paths) == 1
