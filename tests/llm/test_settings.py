"""What a backend cannot do without."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ktx_cli.core.errors import KtxError, SecretError
from ktx_cli.llm.settings import ApiAddress, missing_setting, resolved_keys, resolved_place, secret_references
from ktx_cli.project.config.blocks import SUPPORTED_BACKENDS
from ktx_cli.project.config.model import KtxConfig
from ktx_cli.project.secrets import mask


def config(**provider: Any) -> KtxConfig:
    return KtxConfig.model_validate({"llm": {"provider": provider}})


KEY = {"api_key": "env:KEY"}
FULL = config(
    anthropic=KEY,
    gateway={**KEY, "base_url": "http://localhost:1"},
    vertex={"location": "europe-west1", "access_token": "env:TOKEN"},
    gemini=KEY,
    bedrock={"region": "us-east-1"},
    openai=KEY,
    openai_compatible={"base_url": "http://localhost:1"},
)


@pytest.mark.table(
    ("backend", "provider", "key", "example"),
    [
        ("anthropic", {}, "anthropic.api_key", "env:ANTHROPIC_API_KEY"),
        ("gateway", {}, "gateway.api_key", "env:GATEWAY_API_KEY"),
        ("vertex", {}, "vertex.location", "europe-west1"),
        ("bedrock", {}, "bedrock.region", "us-east-1"),
        ("gemini", {}, "gemini.api_key", "env:GEMINI_API_KEY"),
        ("openai", {}, "openai.api_key", "env:OPENAI_API_KEY"),
        ("openai-compatible", {}, "openai_compatible.base_url", "http://127.0.0.1:11434/v1"),
    ],
)
def test_a_used_setting_without_a_value_is_named_with_the_command(
    backend: str, provider: dict[str, Any], key: str, example: str
) -> None:
    problem = missing_setting(config(**provider), backend)
    assert problem is not None
    assert (problem.message, problem.exit_code) == (f"the backend `{backend}` requires `llm.provider.{key}`", 2)
    assert problem.hint == f"ktx config set llm.provider.{key} {example}"


def test_a_gateway_without_a_url_is_not_incomplete() -> None:
    assert missing_setting(config(gateway=KEY), "gateway") is None


@pytest.mark.table("backend", SUPPORTED_BACKENDS)
def test_nothing_is_missing(backend: str) -> None:
    assert missing_setting(FULL, backend) is None


@pytest.mark.table("backend", ["claude-code", "claude-cli"])
def test_a_local_session_needs_no_setting_and_no_secret(backend: str) -> None:
    assert missing_setting(config(), backend) is None
    assert secret_references(FULL, backend) == {}


def test_a_backend_uses_its_own_secret_alone() -> None:
    assert secret_references(FULL, "anthropic") == {"llm.provider.anthropic.api_key": "env:KEY"}
    assert secret_references(FULL, "gateway") == {"llm.provider.gateway.api_key": "env:KEY"}
    assert secret_references(FULL, "vertex") == {"llm.provider.vertex.access_token": "env:TOKEN"}
    assert secret_references(config(), "vertex") == {}
    assert secret_references(config(), "anthropic") == {}


@pytest.mark.parametrize(
    ("value", "key"), [("sk-1234", "sk-1234"), ("sk-1234\n", "sk-1234"), ("sk-1234\r\n", "sk-1234")]
)
def test_the_end_of_a_line_is_no_part_of_a_key(value: str, key: str, tmp_path: Path) -> None:
    found = resolved_keys(FULL, "anthropic", project_dir=tmp_path, environ={"KEY": value})
    assert found == {"llm.provider.anthropic.api_key": key}


@pytest.mark.parametrize(
    "value", ["sk-1234 ", " sk-1234", "sk-1234\n\n", "\tsk-1234", "sk\n1234", "sk-12\x7f34", "sk-12\u00e934"]
)
@pytest.mark.parametrize("reference", ["env:KEY", "file:key.txt", "literal"])
def test_a_key_that_cannot_be_sent_is_refused_by_setting(reference: str, value: str, tmp_path: Path) -> None:
    if reference == "file:key.txt":
        (tmp_path / "key.txt").write_text(value + "x ", "utf-8")
    found = config(anthropic={"api_key": value if reference == "literal" else reference})
    with pytest.raises(SecretError, match=r"llm\.provider\.anthropic\.api_key") as caught:
        resolved_keys(found, "anthropic", project_dir=tmp_path, environ={"KEY": value})
    assert caught.value.exit_code == 2
    assert value.strip() not in f"{caught.value.message} {caught.value.hint}"
    assert caught.value.hint


PLACES: list[tuple[str, dict[str, str], dict[str, str], ApiAddress]] = [
    ("anthropic", {"base_url": "https://api.example.com/v1"}, {}, ApiAddress("https://api.example.com")),
    ("anthropic", {"base_url": "https://api.example.com/v1/"}, {}, ApiAddress("https://api.example.com")),
    (
        "anthropic",
        {"base_url": "env:URL"},
        {"URL": "https://api.example.com/v1\n"},
        ApiAddress("https://api.example.com"),
    ),
    ("anthropic", {}, {}, ApiAddress(None)),
    ("gateway", {"base_url": "env:URL"}, {"URL": "http://h:4000/claude"}, ApiAddress("http://h:4000/claude")),
    ("gateway", {"base_url": "file:url.txt"}, {}, ApiAddress("https://from.file")),
    ("vertex", {"location": "env:L"}, {"L": "europe-west1"}, ApiAddress(None, "europe-west1")),
    (
        "vertex",
        {"location": "global", "project": "env:P", "base_url": "https://v.example.com/v1"},
        {"P": "shop:42"},
        ApiAddress("https://v.example.com/v1", "global", "shop:42"),
    ),
]


@pytest.mark.table(("backend", "settings", "environ", "place"), PLACES)
def test_every_setting_of_a_provider_may_be_a_reference(
    backend: str, settings: dict[str, str], environ: dict[str, str], place: ApiAddress, tmp_path: Path
) -> None:
    (tmp_path / "url.txt").write_text("https://from.file/v1\n")
    found = KtxConfig.model_validate({"llm": {"provider": {backend: settings}}})
    assert resolved_place(found, backend, project_dir=tmp_path, environ=environ) == place


@pytest.mark.table(
    ("backend", "settings", "environ", "message"),
    [
        ("anthropic", {"base_url": "env:URL"}, {}, "llm.provider.anthropic.base_url"),
        ("anthropic", {"base_url": "api.example.com"}, {}, "is `api.example.com`, which is not a URL"),
        ("vertex", {"location": "env:L"}, {}, "llm.provider.vertex.location"),
        ("vertex", {"location": "env:L"}, {"L": "eu west"}, "is `eu west`, which is not a valid Google Cloud name"),
        ("vertex", {"location": "eu", "project": "a/../b"}, {}, "is `a/../b`, which is not a valid Google Cloud name"),
    ],
)
def test_what_cannot_be_part_of_an_address_is_refused_by_setting(
    backend: str, settings: dict[str, str], environ: dict[str, str], message: str, tmp_path: Path
) -> None:
    found = KtxConfig.model_validate({"llm": {"provider": {backend: settings}}})
    with pytest.raises(KtxError) as caught:
        resolved_place(found, backend, project_dir=tmp_path, environ=environ)
    assert message in caught.value.message


def test_what_a_reference_to_no_secret_stands_for_is_not_masked(tmp_path: Path) -> None:
    found = KtxConfig.model_validate({"llm": {"provider": {"vertex": {"location": "eu", "project": "env:P"}}}})
    resolved_place(found, "vertex", project_dir=tmp_path, environ={"P": "the-shop-of-acme"})
    assert mask("in the-shop-of-acme") == "in the-shop-of-acme"
