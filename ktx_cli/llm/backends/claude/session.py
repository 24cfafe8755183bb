"""Detects the local session, and an organization's managed Claude Code settings, which apply despite any isolation.

Managed files are looked for before a prompt is sent and after a call. The binary itself is asked which settings apply:
that includes settings that its server sent without leaving a file, and those of a device management system. Their
effect shows in hook events and in the route of a call (`isolation.py`).
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from ktx_cli.core import Command, Hint, ResultWarning, listing
from ktx_cli.llm.backends.claude.binary import ClaudeBinary, Host, child_environment, claude_host, private_folder, run
from ktx_cli.llm.errors import LlmError, llm_error
from ktx_cli.project import KtxConfig

FOLDERS: Final[Mapping[str, str]] = {
    "linux": "/etc/claude-code",
    "darwin": "/Library/Application Support/ClaudeCode",
    "win32": "C:/Program Files/ClaudeCode",
}
"""Location of the managed files on each system, by `sys.platform`."""

REMOTE: Final = "remote-settings.json"
"""File in Claude Code's configuration folder that stores the settings its server sends."""

OURS: Final = "flagSettings"
POLICY: Final = "policySettings"
"""Claude Code's names for two sources of settings: the command line and an organization."""

QUESTIONS: Final = ("initialize", "get_settings")
SETTINGS_SECONDS: Final = 30.0


class PolicyError(LlmError):
    """An organization's policy changes how a local session behaves; a user may accept the change
    (`allow_managed_policy`).
    """


@contextlib.contextmanager
def allowing_policy(allowed: bool, warn: Callable[[ResultWarning], None]) -> Iterator[None]:
    """Turn a `PolicyError` raised in the block into a warning if the policy is `allowed`."""
    try:
        yield
    except PolicyError as error:
        if not allowed:
            raise
        warn(ResultWarning("managed_policy", error.message, hint=None))


HINT: Final = Hint(
    "ask your organization, or accept its policy for ktx: {}",
    Command("config", "set", "llm.provider.claude.allow_managed_policy", "true"),
)


def system_folder() -> Path:
    """Return the folder of the system's managed files."""
    return Path(FOLDERS.get(sys.platform, FOLDERS["linux"]))


def managed_files(environ: Mapping[str, str]) -> list[Path]:
    """Return the managed files that exist and are not empty, sorted."""
    system = system_folder()
    found = [system / "managed-settings.json", system / "managed-mcp.json", system / "CLAUDE.md"]
    drop_ins = system / "managed-settings.d"
    found += sorted(drop_ins.glob("*.json")) if drop_ins.is_dir() else []
    found.append(config_folder(environ) / REMOTE)
    return sorted(path for path in found if _says_something(path))


def config_folder(environ: Mapping[str, str]) -> Path:
    """Return the folder of Claude Code's own files."""
    named = environ.get("CLAUDE_CONFIG_DIR")
    return Path(named) if named else Path(environ.get("HOME") or Path.home()) / ".claude"


def check_managed(
    environ: Mapping[str, str], *, backend: str, allowed: bool, warn: Callable[[ResultWarning], None]
) -> None:
    """Raise `LlmError` (`isolation`) if managed files apply, or only warn if `allowed`."""
    files = managed_files(environ)
    if not files:
        return
    error = managed_error(files, backend=backend)
    if not allowed:
        raise error
    warn(ResultWarning("managed_policy", error.message, paths=[str(path) for path in files]))


def once(warn: Callable[[ResultWarning], None]) -> Callable[[ResultWarning], None]:
    """Return a function that passes on each warning once."""
    seen: set[str] = set()

    def say(warning: ResultWarning) -> None:
        if warning.message not in seen:
            seen.add(warning.message)
            warn(warning)

    return say


def managed_error(files: list[Path], *, backend: str) -> LlmError:
    """Return the error that lists the files."""
    names = [str(path) for path in files]
    message = f"your organization's managed Claude Code settings apply: {listing(names)}"
    return llm_error("isolation", backend=backend, message=message, hint=HINT, origin=names)


def check_sources(
    answer: Mapping[str, Any], *, backend: str, allowed: bool, warn: Callable[[ResultWarning], None]
) -> None:
    """Check a process's answer to `get_settings`: only the settings that ktx passed on the command line may apply.

    Raises `LlmError` (`isolation`); `allowed` turns an organization's policy, and nothing else, into a warning.
    """
    sources = answer.get("sources")
    if not isinstance(sources, list):
        message, update = "Claude Code does not report which settings apply", Command("update", program="claude")
        raise llm_error("isolation", backend=backend, message=message, hint=update)
    found = {str(one.get("source")): sorted(one["settings"]) for one in sources if one.get("settings")}
    found.pop(OURS, None)
    policy = found.pop(POLICY, None)
    if found:
        names = listing(sorted(found))
        message = f"settings other than ktx's apply inside Claude Code: {names}"
        raise llm_error("isolation", backend=backend, message=message, origin=sorted(found))
    if policy is None:
        return
    message = f"your organization's managed settings apply inside Claude Code ({listing(policy)})"
    if not allowed:
        raise llm_error("isolation", backend=backend, message=message, hint=HINT, origin=POLICY)
    warn(ResultWarning("managed_policy", message, hint=None))


async def settings_in_force(host: Host, backend: str) -> dict[str, Any]:
    """Return a separate process's answer to `get_settings`, without calling a model."""
    command = [str(host.binary), "--output-format", "stream-json", "--verbose", "--input-format", "stream-json"]
    command += ["--tools", "", "--strict-mcp-config", "--setting-sources=", "--no-session-persistence"]
    command += ["--disable-slash-commands", *(["--restricted"] if host.restricted else [])]
    asked = [{"type": "control_request", "request_id": one, "request": {"subtype": one}} for one in QUESTIONS]
    lines = "".join(json.dumps(one) + "\n" for one in asked)
    with private_folder() as folder:
        try:
            async with asyncio.timeout(SETTINGS_SECONDS):
                answer = await run(
                    command, environment=child_environment(host, folder), folder=folder, prompt=lines, backend=backend
                )
        except TimeoutError as error:
            message = "Claude Code did not report which settings apply"
            raise llm_error("connection", backend=backend, message=message, hint=Command("doctor")) from error
    if forbids_own_servers(answer.err):
        raise managed_servers_error(backend)
    return next((one for line in answer.out.splitlines() if (one := _answer_of(line))), {})


def _answer_of(line: str) -> dict[str, Any] | None:
    """Return the answer to `get_settings` if the line contains one."""
    try:
        frame = json.loads(line)
    except ValueError:
        return None
    response = frame.get("response") if isinstance(frame, dict) else None
    if not isinstance(response, dict) or response.get("request_id") != QUESTIONS[-1]:
        return None
    found = response.get("response")
    return found if isinstance(found, dict) else None


def forbids_own_servers(words: str) -> bool:
    """Return whether the binary refused to run because of `managed-mcp.json`."""
    seen = words.lower()
    return "mcp" in seen and ("strict" in seen or "enterprise" in seen)


def managed_servers_error(backend: str) -> LlmError:
    """Return the error for a `managed-mcp.json`, which no ktx setting can override."""
    path = system_folder() / "managed-mcp.json"
    message = f"your organization's {path} does not allow Claude Code to run with only ktx's tools"
    hint = Command("setup", "--llm-backend", "anthropic")
    return llm_error("isolation", backend=backend, message=message, hint=hint, origin="managed-mcp.json")


def _says_something(path: Path) -> bool:
    """Return whether a file exists and is not empty; an unreadable file counts as not empty."""
    try:
        text = path.read_text("utf-8", "replace").strip()
    except FileNotFoundError:
        return False
    except OSError:
        return path.exists() or not os.access(path.parent, os.X_OK)
    if path.suffix != ".json":
        return bool(text)
    try:
        value = json.loads(text) if text else {}
    except ValueError:
        return True
    if isinstance(value, dict) and path.name == REMOTE:
        value = value.get("settings", value) or {}
    return value != {}


STATUS_SECONDS: Final = 30.0


@dataclass(frozen=True, slots=True)
class LocalSession:
    """An existing session; only a call shows whether it still works. `account` says where it comes from."""

    account: str
    binary: ClaudeBinary


async def local_session(
    backend: str, config: KtxConfig, *, project_dir: Path, environ: Mapping[str, str]
) -> LocalSession:
    """Return the local session; raises `LlmError` if there is no session or no binary, or managed settings apply."""
    host, binary = claude_host(backend, config, project_dir=project_dir, environ=environ)
    allowed = config.llm.provider.claude.allow_managed_policy
    check_managed(host.environment, backend=backend, allowed=allowed, warn=lambda warning: None)
    return LocalSession(await session_account(host, backend), binary)


async def session_account(host: Host, backend: str) -> str:
    """Return a short description of who is signed in; raises `LlmError` (`auth`) if nobody is."""
    status = await auth_status(host, backend)
    if not status.get("loggedIn"):
        raise llm_error("auth", backend=backend)
    return f"local Claude Code session ({status.get('authMethod') or 'session'})"


async def auth_status(host: Host, backend: str) -> dict[str, Any]:
    """Return the output of `claude auth status` in the scrubbed environment; it accepts any token without checking
    it.
    """
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
        message, detail = "`claude auth status` did not report who is signed in", answer.err or answer.out
        raise llm_error("connection", backend=backend, message=message, detail=detail, hint=Command("doctor"))
    return value
