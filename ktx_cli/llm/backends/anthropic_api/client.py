"""The clients of the Messages API, made so that nothing in the environment can change where a request goes.

Anthropic's API and gateways are spoken to directly; for Vertex AI there is the SDK, with Google's credentials.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ktx_cli.core.errors import ConfigError
from ktx_cli.llm.backends.anthropic_api.direct import DirectClient
from ktx_cli.llm.settings import missing_setting, resolved_keys
from ktx_cli.project.config import KtxConfig
from ktx_cli.project.config.llm import VertexProvider

if TYPE_CHECKING:
    import anthropic

ANTHROPIC_URL: Final = "https://api.anthropic.com"
TIMEOUT_SECONDS: Final = 600.0
CONNECT_SECONDS: Final = 10.0
GOOGLE_SCOPE: Final = "https://www.googleapis.com/auth/cloud-platform"


def speaker(backend: str) -> str:
    """Return the package through which a backend speaks."""
    return "anthropic" if backend == "vertex" else "httpx2"


def make_client(
    backend: str, config: KtxConfig, *, project_dir: Path, environ: Mapping[str, str]
) -> DirectClient | anthropic.AsyncAnthropicVertex:
    """Return the client of a backend; raises `ConfigError` or `SecretError` for settings that are missing.

    The SDK reads addresses, tokens, projects and headers from the environment where it is not told: all are given
    here, and the header variables it would add are taken out again. Its own spans are off: ktx writes one a call.
    """
    problem = missing_setting(config, backend)
    if problem is not None:
        raise problem
    secrets = resolved_keys(config, backend, project_dir=project_dir, environ=environ)
    secret = next(iter(secrets.values()), "")
    provider = config.llm.provider
    if backend == "vertex" and provider.vertex is not None:
        return _vertex(provider.vertex, secret or None, provider.vertex.project or environ.get("GOOGLE_CLOUD_PROJECT"))
    bearer = {"authorization": f"Bearer {secret}"}
    if backend == "gateway":
        own = bearer if provider.gateway.auth == "bearer" else {"x-api-key": secret}
        return _direct(provider.gateway.base_url or "", own)
    return _direct(provider.anthropic.base_url or ANTHROPIC_URL, bearer)


def _direct(base_url: str, authorization: Mapping[str, str]) -> DirectClient:
    return DirectClient(base_url, authorization, timeout_seconds=TIMEOUT_SECONDS, connect_seconds=CONNECT_SECONDS)


def _vertex(vertex: VertexProvider, token: str | None, project: str | None) -> anthropic.AsyncAnthropicVertex:
    import anthropic

    if token is not None and project is None:
        raise _no_project()
    client = anthropic.AsyncAnthropicVertex(
        region=vertex.location,
        access_token=token,
        base_url=vertex.base_url or _vertex_url(vertex.location),
        max_retries=0,
        timeout=anthropic.Timeout(TIMEOUT_SECONDS, connect=CONNECT_SECONDS),
        open_telemetry=False,
    )
    client.project_id = project  # never ANTHROPIC_VERTEX_PROJECT_ID
    client._custom_headers = {}
    return client


@contextlib.asynccontextmanager
async def answering(
    client: DirectClient | anthropic.AsyncAnthropicVertex, body: Mapping[str, Any]
) -> AsyncIterator[tuple[Mapping[str, str], AsyncIterator[dict[str, Any]]]]:
    """Ask, and yield the headers of the answer and its events as JSON has them."""
    if isinstance(client, DirectClient):
        async with client.answering(body) as (headers, found):
            yield headers, found
        return
    await complete(client)
    raw = await client.messages.with_raw_response.create(**body)
    async with await raw.parse() as events:
        yield raw.headers, (event.model_dump(mode="json", exclude_unset=True, warnings=False) async for event in events)


async def complete(client: anthropic.AsyncAnthropicVertex) -> None:
    """Give a Vertex client without a project that of the machine's Google credentials: the SDK looks too late.

    Raises `ConfigError` where they name none.
    """
    if client.project_id is not None:
        return
    try:
        import google.auth
    except ImportError as error:
        raise ConfigError(
            "the backend `vertex` needs the package google-auth", hint="pip install 'ktx-cli[vertex]'"
        ) from error
    credentials, project = await asyncio.to_thread(google.auth.default, scopes=[GOOGLE_SCOPE])
    if not project:
        raise _no_project()
    client.credentials, client.project_id = credentials, project


def _no_project() -> ConfigError:
    where = "llm.provider.vertex.project"
    return ConfigError(f"the backend `vertex` needs `{where}`", hint=f"ktx config set {where} PROJECT")


def _vertex_url(location: str) -> str:
    if location == "global":
        return "https://aiplatform.googleapis.com/v1"
    if location in ("us", "eu"):
        return f"https://aiplatform.{location}.rep.googleapis.com/v1"
    return f"https://{location}-aiplatform.googleapis.com/v1"
