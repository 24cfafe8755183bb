"""An organisation's managed settings for Claude Code: they stay in force under every isolation, so they are looked for.

The files are looked for before a prompt is sent and after a call. The binary itself is asked which settings are in
force: that names those its server sent without leaving a file, and those of a device management system, too. What they
do is seen by hook events and by the route of a call (`isolation.py`).
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
"""Where a system keeps them, by `sys.platform`."""

REMOTE: Final = "remote-settings.json"
"""What Claude Code keeps of the settings its server sends, in its configuration folder."""

OURS: Final = "flagSettings"
POLICY: Final = "policySettings"
"""Where settings come from, as Claude Code names it: its command line, and an organisation."""

QUESTIONS: Final = ("initialize", "get_settings")
SETTINGS_SECONDS: Final = 30.0


class PolicyError(LlmError):
    """An organisation's policy changes what a local session is; a user may accept that (`allow_managed_policy`)."""


@contextlib.contextmanager
def allowing_policy(allowed: bool, warn: Callable[[ResultWarning], None]) -> Iterator[None]:
    """Make a `PolicyError` of the block a warning where the policy is `allowed`."""
    try:
        yield
    except PolicyError as error:
        if not allowed:
            raise
        warn(ResultWarning("managed_policy", error.message, hint=None))


HINT: Final = Hint(
    "ask the organisation, or accept its policy for ktx: {}",
    Command("config", "set", "llm.provider.claude.allow_managed_policy", "true"),
)


def system_folder() -> Path:
    """Return the folder of the system's managed files."""
    return Path(FOLDERS.get(sys.platform, FOLDERS["linux"]))


def managed_files(environ: Mapping[str, str]) -> list[Path]:
    """Return the managed files that are there and say something, sorted."""
    system = system_folder()
    found = [system / "managed-settings.json", system / "managed-mcp.json", system / "CLAUDE.md"]
    drop_ins = system / "managed-settings.d"
    found += sorted(drop_ins.glob("*.json")) if drop_ins.is_dir() else []
    found.append(config_folder(environ) / REMOTE)
    return sorted(path for path in found if _says_something(path))


def config_folder(environ: Mapping[str, str]) -> Path:
    """Return the folder Claude Code keeps its own files in."""
    named = environ.get("CLAUDE_CONFIG_DIR")
    return Path(named) if named else Path(environ.get("HOME") or Path.home()) / ".claude"


def check_managed(
    environ: Mapping[str, str], *, backend: str, allowed: bool, warn: Callable[[ResultWarning], None]
) -> None:
    """Raise `LlmError` (`isolation`) where managed files are in force; `allowed` makes it a warning."""
    files = managed_files(environ)
    if not files:
        return
    error = managed_error(files, backend=backend)
    if not allowed:
        raise error
    warn(ResultWarning("managed_policy", error.message, paths=[str(path) for path in files]))


def once(warn: Callable[[ResultWarning], None]) -> Callable[[ResultWarning], None]:
    """Return a function that passes each warning on once."""
    seen: set[str] = set()

    def say(warning: ResultWarning) -> None:
        if warning.message not in seen:
            seen.add(warning.message)
            warn(warning)

    return say


def managed_error(files: list[Path], *, backend: str) -> LlmError:
    """Return the error that names the files."""
    names = [str(path) for path in files]
    message = f"an organisation's managed Claude Code settings are in force: {listing(names)}"
    return llm_error("isolation", backend=backend, message=message, hint=HINT, origin=names)


def check_sources(
    answer: Mapping[str, Any], *, backend: str, allowed: bool, warn: Callable[[ResultWarning], None]
) -> None:
    """Check what a process answers to `get_settings`: only the settings ktx passed on the command line may be in force.

    Raises `LlmError` (`isolation`); `allowed` makes an organisation's policy, and nothing else, a warning.
    """
    sources = answer.get("sources")
    if not isinstance(sources, list):
        message, update = "Claude Code does not say which settings are in force", Command("update", program="claude")
        raise llm_error("isolation", backend=backend, message=message, hint=update)
    found = {str(one.get("source")): sorted(one["settings"]) for one in sources if one.get("settings")}
    found.pop(OURS, None)
    policy = found.pop(POLICY, None)
    if found:
        names = listing(sorted(found))
        message = f"settings that are not ktx's are in force inside Claude Code: {names}"
        raise llm_error("isolation", backend=backend, message=message, origin=sorted(found))
    if policy is None:
        return
    message = f"an organisation's managed settings are in force inside Claude Code ({listing(policy)})"
    if not allowed:
        raise llm_error("isolation", backend=backend, message=message, hint=HINT, origin=POLICY)
    warn(ResultWarning("managed_policy", message, hint=None))


async def settings_in_force(host: Host, backend: str) -> dict[str, Any]:
    """Return what a process of its own answers to `get_settings`; no model is asked."""
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
            message = "Claude Code did not say which settings are in force"
            raise llm_error("connection", backend=backend, message=message, hint=Command("doctor")) from error
    if forbids_own_servers(answer.err):
        raise managed_servers_error(backend)
    return next((one for line in answer.out.splitlines() if (one := _answer_of(line))), {})


def _answer_of(line: str) -> dict[str, Any] | None:
    """Return the answer to `get_settings` where a line is it."""
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
    """Say whether the binary refused to run because a `managed-mcp.json` is there."""
    seen = words.lower()
    return "mcp" in seen and ("strict" in seen or "enterprise" in seen)


def managed_servers_error(backend: str) -> LlmError:
    """Return the error for a `managed-mcp.json`: no setting of ktx gets past it."""
    path = system_folder() / "managed-mcp.json"
    message = f"an organisation's {path} forbids Claude Code to run with ktx's tools alone"
    hint = Command("setup", "--llm-backend", "anthropic")
    return llm_error("isolation", backend=backend, message=message, hint=hint, origin="managed-mcp.json")


def _says_something(path: Path) -> bool:
    """Say whether a file is there and not empty; one that cannot be read counts."""
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
        raise llm_error("connection", backend=backend, message=message, detail=detail, hint=Command("doctor"))
    return value
