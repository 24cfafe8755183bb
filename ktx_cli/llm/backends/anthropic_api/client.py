"""The SDK's clients, made so that nothing in the process's environment can change where a request goes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ktx_cli.llm.settings import missing_setting, secret_references
from ktx_cli.project.config import KtxConfig
from ktx_cli.project.config.llm import VertexProvider
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
    problem = missing_setting(config, backend)
    if problem is not None:
        raise problem
    secrets = {
        where: resolve(reference, project_dir=project_dir, environ=environ, where=where)
        for where, reference in secret_references(config, backend).items()
    }
    secret = next(iter(secrets.values()), "")
    provider = config.llm.provider
    if backend == "vertex" and provider.vertex is not None:
        return _vertex(provider.vertex, secret or None, provider.vertex.project or environ.get("GOOGLE_CLOUD_PROJECT"))
    if backend == "gateway":
        return _direct(secret, provider.gateway.base_url or "", bearer=provider.gateway.auth == "bearer")
    return _direct(secret, provider.anthropic.base_url or ANTHROPIC_URL, bearer=False)


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


def _vertex(vertex: VertexProvider, token: str | None, project: str | None) -> anthropic.AsyncAnthropicVertex:
    import anthropic

    client = anthropic.AsyncAnthropicVertex(
        region=vertex.location,
        project_id=project or anthropic.not_given,
        access_token=token,
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
