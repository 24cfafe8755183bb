"""The SDK's clients, made so that nothing in the process's environment can change where a request goes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ktx_cli.core.errors import ConfigError
from ktx_cli.project.config import KtxConfig
from ktx_cli.project.secrets import resolve

if TYPE_CHECKING:
    import anthropic

ANTHROPIC_URL: Final = "https://api.anthropic.com"
TIMEOUT_SECONDS: Final = 600.0


def make_client(
    backend: str, config: KtxConfig, *, project_dir: Path, environ: Mapping[str, str]
) -> anthropic.AsyncAnthropic | anthropic.AsyncAnthropicVertex:
    """Return the client of a backend; raises `ConfigError` or `SecretError` for settings that are missing.

    The SDK reads addresses, tokens and headers from the environment where it is not told: address and key are always
    given here, and the header variables it would add are taken out again.
    """
    if backend == "vertex":
        return _vertex(config, project_dir=project_dir, environ=environ)
    provider = config.llm.provider
    gateway, anthropic = provider.gateway, provider.anthropic
    if backend == "gateway":
        key = _secret(gateway.api_key, backend, project_dir, environ)
        if not gateway.base_url:
            hint = "ktx config set llm.provider.gateway.base_url URL"
            raise ConfigError("the backend `gateway` needs `llm.provider.gateway.base_url`", hint=hint)
        return _direct(key, gateway.base_url, bearer=gateway.auth == "bearer")
    key = _secret(anthropic.api_key, backend, project_dir, environ)
    return _direct(key, anthropic.base_url or ANTHROPIC_URL, bearer=False)


def _secret(reference: str | None, backend: str, project_dir: Path, environ: Mapping[str, str]) -> str:
    where = f"llm.provider.{backend}.api_key"
    if not reference:
        hint = f"ktx config set {where} env:{backend.upper()}_API_KEY"
        raise ConfigError(f"the backend `{backend}` needs `{where}`", hint=hint)
    return resolve(reference, project_dir=project_dir, environ=environ, where=where)


def _direct(key: str, base_url: str, *, bearer: bool) -> anthropic.AsyncAnthropic:
    import anthropic

    client = anthropic.AsyncAnthropic(
        api_key=None if bearer else key,
        auth_token=key if bearer else None,
        base_url=base_url,
        max_retries=0,
        timeout=TIMEOUT_SECONDS,
    )
    client._custom_headers = {}  # ANTHROPIC_CUSTOM_HEADERS could carry another key
    return client


def _vertex(config: KtxConfig, *, project_dir: Path, environ: Mapping[str, str]) -> anthropic.AsyncAnthropicVertex:
    import anthropic

    vertex = config.llm.provider.vertex
    if vertex is None:
        raise ConfigError(
            "the backend `vertex` needs `llm.provider.vertex.location`",
            hint="ktx config set llm.provider.vertex.location europe-west1",
        )
    token = vertex.access_token and resolve(
        vertex.access_token, project_dir=project_dir, environ=environ, where="llm.provider.vertex.access_token"
    )
    project = vertex.project or environ.get("GOOGLE_CLOUD_PROJECT")
    client = anthropic.AsyncAnthropicVertex(
        region=vertex.location,
        project_id=project or anthropic.not_given,
        access_token=token or None,
        base_url=vertex.base_url or _vertex_url(vertex.location),
        max_retries=0,
        timeout=TIMEOUT_SECONDS,
    )
    client._custom_headers = {}
    return client


def _vertex_url(location: str) -> str:
    if location == "global":
        return "https://aiplatform.googleapis.com/v1"
    if location in ("us", "eu"):
        return f"https://aiplatform.{location}.rep.googleapis.com/v1"
    return f"https://{location}-aiplatform.googleapis.com/v1"
