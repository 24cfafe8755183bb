"""The local Claude Code session as the binary tells it: `claude auth status`, which asks no model."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from ktx_cli.llm.backends.claude.binary import ClaudeBinary
from ktx_cli.llm.backends.claude.host import Host, claude_host
from ktx_cli.llm.backends.claude.managed import check_managed
from ktx_cli.llm.backends.claude.processes import child_environment, private_folder, run
from ktx_cli.llm.errors import llm_error
from ktx_cli.project.config import KtxConfig

STATUS_SECONDS: Final = 30.0


@dataclass(frozen=True, slots=True)
class LocalSession:
    """A session that is there; whether it still works, only a call shows. `account` names where it comes from."""

    account: str
    binary: ClaudeBinary


async def local_session(
    backend: str, config: KtxConfig, *, project_dir: Path, environ: Mapping[str, str]
) -> LocalSession:
    """Return the local session; raises `LlmError` where there is none, no binary, or managed settings are in force."""
    host, binary = claude_host(backend, config, project_dir=project_dir, environ=environ)
    allowed = config.llm.provider.claude.allow_managed_policy
    check_managed(host.environment, backend=backend, allowed=allowed, warn=lambda warning: None)
    return LocalSession(await session_account(host, backend), binary)


async def session_account(host: Host, backend: str) -> str:
    """Return who is signed in, in a few words; raises `LlmError` (`auth`) where nobody is."""
    status = await auth_status(host, backend)
    if not status.get("loggedIn"):
        raise llm_error("auth", backend=backend)
    return f"local Claude Code session ({status.get('authMethod') or 'session'})"


async def auth_status(host: Host, backend: str) -> dict[str, Any]:
    """Return what `claude auth status` says in the scrubbed environment; it says so for any token, unproven."""
    with private_folder() as folder:
        command = [str(host.binary), "auth", "status"]
        try:
            async with asyncio.timeout(STATUS_SECONDS):
                answer = await run(
                    command, environment=child_environment(host, folder), folder=folder, prompt="", backend=backend
                )
        except TimeoutError as error:
            raise llm_error("connection", backend=backend, message="`claude auth status` did not answer") from error
    try:
        value = json.loads(answer.out)
    except ValueError:
        value = None
    if not isinstance(value, dict) or "loggedIn" not in value:
        message, detail = "`claude auth status` did not say who is signed in", answer.err or answer.out
        raise llm_error("connection", backend=backend, message=message, detail=detail, hint="ktx doctor")
    return value
