"""The SDK's clients, made so that nothing in the process's environment can change where a request goes."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ktx_cli.core.errors import ConfigError
from ktx_cli.llm.settings import Place, missing_setting, resolved_keys, resolved_place
from ktx_cli.project.config import KtxConfig

if TYPE_CHECKING:
    import anthropic

ANTHROPIC_URL: Final = "https://api.anthropic.com"
TIMEOUT_SECONDS: Final = 600.0
CONNECT_SECONDS: Final = 10.0
GOOGLE_SCOPE: Final = "https://www.googleapis.com/auth/cloud-platform"


def make_client(
    backend: str, config: KtxConfig, *, project_dir: Path, environ: Mapping[str, str]
) -> anthropic.AsyncAnthropic | anthropic.AsyncAnthropicVertex:
    """Return the client of a backend; raises `ConfigError` or `SecretError` for settings that are missing.

    The SDK reads addresses, tokens, projects and headers from the environment where it is not told: all are given
    here, and the header variables it would add are taken out again. Its own spans are off: ktx writes one a call.
    """
    problem = missing_setting(config, backend)
    if problem is not None:
        raise problem
    load_sdk()
    secrets = resolved_keys(config, backend, project_dir=project_dir, environ=environ)
    secret = next(iter(secrets.values()), "")
    provider = config.llm.provider
    place = resolved_place(config, backend, project_dir=project_dir, environ=environ)
    if backend == "vertex":
        project = place.project or environ.get("GOOGLE_CLOUD_PROJECT")
        return _vertex(replace(place, project=project), secret or None)
    if backend == "gateway":
        headers = {"authorization": f"Bearer {secret}"} if provider.gateway.auth == "bearer" else {"x-api-key": secret}
        return _direct(secret, place.base_url or "", headers)
    return _direct(secret, place.base_url or ANTHROPIC_URL, {})


def load_sdk() -> None:
    """Import the SDK, whose 3,000 modules take most of a second, with the collector of garbage at rest: there is none.

    Every import of it is a look-up from then on.
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        import anthropic  # noqa: F401 - for what it leaves behind
    finally:
        if collects:
            gc.enable()


def _direct(key: str, base_url: str, headers: Mapping[str, str]) -> anthropic.AsyncAnthropic:
    """Return a client; `headers` carry the key another way than the SDK sends it to Anthropic."""
    import anthropic

    client = anthropic.AsyncAnthropic(
        api_key=key, base_url=base_url, max_retries=0, timeout=_timeout(), open_telemetry=False
    )
    own: dict[str, Any] = {"Authorization": anthropic.omit, **headers} if headers else {}
    client._custom_headers = own  # ANTHROPIC_CUSTOM_HEADERS could carry another key
    return client


def _vertex(place: Place, token: str | None) -> anthropic.AsyncAnthropicVertex:
    import anthropic

    if token is not None and place.project is None:
        raise _no_project()
    client = anthropic.AsyncAnthropicVertex(
        region=place.location,
        access_token=token,
        base_url=place.base_url or _vertex_url(place.location),
        max_retries=0,
        timeout=_timeout(),
        open_telemetry=False,
    )
    client.project_id = place.project  # never ANTHROPIC_VERTEX_PROJECT_ID
    client._custom_headers = {}
    return client


def _timeout() -> anthropic.Timeout:
    import anthropic

    return anthropic.Timeout(TIMEOUT_SECONDS, connect=CONNECT_SECONDS)


async def complete(client: anthropic.AsyncAnthropic | anthropic.AsyncAnthropicVertex) -> None:
    """Give a Vertex client without a project that of the machine's Google credentials: the SDK looks too late.

    Raises `ConfigError` where they name none.
    """
    import anthropic

    if not isinstance(client, anthropic.AsyncAnthropicVertex) or client.project_id is not None:
        return
    try:
        import google.auth
    except ImportError as error:
        raise missing_google_auth() from error
    credentials, project = await asyncio.to_thread(google.auth.default, scopes=[GOOGLE_SCOPE])
    if not project:
        raise _no_project()
    client.credentials, client.project_id = credentials, project


def missing_google_auth() -> ConfigError:
    """Return the error for the package that the machine's Google credentials take."""
    return ConfigError("the backend `vertex` needs the package google-auth", hint="pip install 'ktx-cli[vertex]'")


def _no_project() -> ConfigError:
    where = "llm.provider.vertex.project"
    return ConfigError(f"the backend `vertex` needs `{where}`", hint=f"ktx config set {where} PROJECT")


def _vertex_url(location: str) -> str:
    if location == "global":
        return "https://aiplatform.googleapis.com/v1"
    if location in ("us", "eu"):
        return f"https://aiplatform.{location}.rep.googleapis.com/v1"
    return f"https://{location}-aiplatform.googleapis.com/v1"
