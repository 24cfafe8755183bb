"""Finding the `claude` binary: one lookup for both backends, for `ktx status` and for `ktx doctor`."""

from __future__ import annotations

import functools
import importlib.util
import os
import re
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from ktx_cli.core import Command, Hint, SettingPath, Variable
from ktx_cli.llm.backends.claude.environment import claude_environment
from ktx_cli.llm.errors import LlmError, llm_error
from ktx_cli.llm.settings import claude_environment as caching_environment
from ktx_cli.project import (
    KtxConfig,
    Layout,
    SecretRef,
    came_along,
    find_program,
    prepare_private_folder,
    resolve_plain,
    values_of,
)

OVERRIDE: Final = "KTX_CLAUDE_CLI_BIN"
LAUNCHER: Final = "ktx-claude-launcher"
MINIMUM: Final = (2, 1, 248)
"""The first version that takes prompts as they are: without that, `@path` in a prompt reads a file."""

VERSION_SECONDS: Final = 20.0
_SETTING: Final = "llm.provider.claude.cli_path"


@dataclass(frozen=True, slots=True)
class ClaudeBinary:
    """A binary that can be run. `origin` is where it was found: a setting, a variable, the SDK, or PATH."""

    path: Path
    origin: str
    version: tuple[int, int, int]
    knows_restricted: bool

    @property
    def version_text(self) -> str:
        """`2.1.329`."""
        return ".".join(str(part) for part in self.version)

    def __str__(self) -> str:
        return f"claude {self.version_text} ({self.origin}: {self.path})"


def find_claude(*, cli_path: str | None, project_dir: Path, environ: Mapping[str, str], backend: str) -> ClaudeBinary:
    """Return the binary to run; raises `LlmError` when there is none, or it is too old.

    The order: `llm.provider.claude.cli_path`, `KTX_CLAUDE_CLI_BIN`, the one bundled with claude-agent-sdk, PATH. A
    binary that is named and does not work is an error, never a reason to take the next; so is one in the project that
    its settings name, for `ktx status` would run whatever a shared repository brings along.
    """
    for origin, path in candidates(cli_path=cli_path, project_dir=project_dir, environ=environ):
        if not (path.is_file() and os.access(path, os.X_OK)):
            place = SettingPath(origin) if origin == _SETTING else Variable(origin)
            hint = Hint("correct {}, or remove it", place)
            raise _unusable(backend, f"{origin} names {path}, which is no program that can be run", hint)
        if origin == _SETTING and came_along(path, project_dir):
            message = f"{origin} names {path}, which lies in the project: it could have come with it, so it is not run"
            again = Command("config", "set", _SETTING, "~/.local/bin/claude")
            raise _unusable(backend, message, again)
        bundled = path == bundled_binary()
        version = _version(str(path), path.stat().st_mtime_ns, backend, bundled)
        if version < MINIMUM:
            least = ".".join(str(part) for part in MINIMUM)
            found = ".".join(str(part) for part in version)
            raise _unusable(
                backend,
                f"{path} is Claude Code {found}; ktx needs {least} or later",
                Command("update", program="claude"),
            )
        restricted = bundled or _knows_restricted(str(path), path.stat().st_mtime_ns, backend)
        return ClaudeBinary(path, origin, version, restricted)
    raise _unusable(
        backend,
        "there is no `claude` binary",
        Command("install", "--force-reinstall", "claude-agent-sdk", program="pip"),
    )


def candidates(*, cli_path: str | None, project_dir: Path, environ: Mapping[str, str]) -> list[tuple[str, Path]]:
    """Return what the lookup may take, best first, with the place that names it."""
    found: list[tuple[str, Path]] = []
    reference = SecretRef.parse(cli_path) if cli_path else None
    if cli_path and reference is not None and reference.kind == "env":
        cli_path = resolve_plain(cli_path, project_dir=project_dir, environ=environ, where=_SETTING)
    if cli_path:
        found.append((_SETTING, project_dir / Path(cli_path).expanduser()))
    if environ.get(OVERRIDE):
        found.append((OVERRIDE, project_dir / Path(environ[OVERRIDE]).expanduser()))
    bundled = bundled_binary()
    if bundled is not None:
        found.append(("claude-agent-sdk", bundled))
    on_path, _ = find_program("claude", project_dir=project_dir, search_path=environ.get("PATH", os.defpath))
    if on_path:
        found.append(("PATH", on_path))
    return found


def bundled_binary() -> Path | None:
    """Return the binary that comes with claude-agent-sdk, without importing it."""
    spec = importlib.util.find_spec("claude_agent_sdk")
    if spec is None or spec.origin is None:
        return None
    path = Path(spec.origin).parent / "_bundled" / ("claude.exe" if os.name == "nt" else "claude")
    return path if path.is_file() else None


def find_launcher(backend: str) -> Path:
    """Return the launcher's program; raises `LlmError` when it is not installed: nothing runs without it."""
    name = LAUNCHER + (".exe" if os.name == "nt" else "")
    for folder in (Path(sys.executable).parent, Path(sysconfig.get_path("scripts"))):
        path = folder / name
        if path.is_file() and os.access(path, os.X_OK):
            return path
    raise llm_error(
        "isolation",
        backend=backend,
        message=f"the program `{LAUNCHER}` is not installed, and Claude Code is never run without it",
        hint=Command("-m", "pip", "install", "--force-reinstall", "--no-deps", "ktx-cli", program=sys.executable),
    )


@functools.lru_cache(maxsize=16)
def _version(path: str, modified: int, backend: str, bundled: bool) -> tuple[int, int, int]:
    del modified  # part of the cache's key: an updated binary is asked again
    recorded = Path(path).with_name("claude.version")
    if bundled and recorded.is_file() and (known := _parse(recorded.read_text("utf-8", "replace"))):
        return known
    answer = _asked(path, "--version", backend)
    found = _parse(answer)
    if found is None:
        raise _unusable(backend, f"{path} does not say its version, so it is not Claude Code", f"{path} --version")
    return found


@functools.lru_cache(maxsize=16)
def _knows_restricted(path: str, modified: int, backend: str) -> bool:
    del modified
    return "--restricted" in _asked(path, "--help", backend)


def _asked(path: str, flag: str, backend: str) -> str:
    try:
        return _ask(path, flag)
    except (OSError, subprocess.TimeoutExpired) as error:
        message = f"`{path} {flag}` does not work: {type(error).__name__}"
        raise _unusable(backend, message, Command("doctor", program="claude")) from error


def _ask(path: str, flag: str) -> str:
    answer = subprocess.run(
        [path, flag],
        env=claude_environment(os.environ),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=VERSION_SECONDS,
        check=False,
    )
    return answer.stdout


def _parse(text: str) -> tuple[int, int, int] | None:
    match = re.search(r"\b(\d+)\.(\d+)\.(\d+)\b", text)
    return (int(match[1]), int(match[2]), int(match[3])) if match else None


def _unusable(backend: str, message: str, hint: str) -> LlmError:
    return llm_error("connection", backend=backend, message=message, hint=hint)


SYSTEM_PREFIX: Final = "system-"


@dataclass(frozen=True)
class Host:
    """What every process of one runtime shares. `environment` is the whole environment a process gets."""

    project_dir: Path
    launcher: Path
    binary: Path
    restricted: bool
    environment: Mapping[str, str] = field(repr=False)


def claude_host(
    backend: str, config: KtxConfig, *, project_dir: Path, environ: Mapping[str, str]
) -> tuple[Host, ClaudeBinary]:
    """Return the host and the binary for a project; raises `LlmError` when a program is missing."""
    binary = find_claude(
        cli_path=config.llm.provider.claude.cli_path, project_dir=project_dir, environ=environ, backend=backend
    )
    environment = claude_environment(
        environ, secret_names=secret_names(config), settings=caching_environment(config.llm.prompt_caching)
    )
    host = Host(project_dir, find_launcher(backend), binary.path, binary.knows_restricted, environment)
    return host, binary


def write_system_file(host: Host, system: str) -> Path:
    """Write a system prompt to a file only this user can read, below `.ktx/`; those of dead processes go first."""
    layout = Layout(host.project_dir)
    prepare_private_folder(layout)
    layout.scratch.mkdir(mode=0o700, parents=True, exist_ok=True)
    for left in layout.scratch.glob(f"{SYSTEM_PREFIX}*"):
        pid = left.name.removeprefix(SYSTEM_PREFIX).partition("-")[0]
        if pid.isdecimal() and not is_alive(int(pid)):
            left.unlink(missing_ok=True)
    handle, name = tempfile.mkstemp(prefix=f"{SYSTEM_PREFIX}{os.getpid()}-", suffix=".txt", dir=layout.scratch)
    with os.fdopen(handle, "wb") as stream:
        stream.write(system.encode())
    return Path(name)


def is_alive(pid: int) -> bool:
    """Say whether a process of this machine lives; a number no process can have is that of none."""
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True


def secret_names(config: KtxConfig) -> frozenset[str]:
    """Return the variables `ktx.yaml` names in `env:` references, wherever they stand."""
    references = (SecretRef.parse(value) for _, _, value in values_of(config) if isinstance(value, str))
    return frozenset(one.name for one in references if one is not None and one.kind == "env")
