"""Finds the `claude` binary, prepares the environment for its processes, and runs a process to completion."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import importlib.util
import logging
import os
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeVar

from ktx_cli.core import Command, Hint, SettingPath, Variable
from ktx_cli.llm.backends.claude.launcher import claude_environment
from ktx_cli.llm.errors import LlmError, llm_error
from ktx_cli.llm.settings import claude_environment as caching_environment
from ktx_cli.project import (
    KtxConfig,
    Layout,
    SecretRef,
    find_program,
    is_in_project,
    prepare_private_folder,
    resolve_plain,
    values_of,
)

OVERRIDE: Final = "KTX_CLAUDE_CLI_BIN"
LAUNCHER: Final = "ktx-claude-launcher"
MINIMUM: Final = (2, 1, 248)
"""The first version that takes prompts literally: in earlier ones, `@path` in a prompt reads a file."""

VERSION_SECONDS: Final = 20.0
_SETTING: Final = "llm.provider.claude.cli_path"


@dataclass(frozen=True, slots=True)
class ClaudeBinary:
    """A usable binary. `origin` is where it was found: a setting, a variable, the SDK, or PATH."""

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
    """Return the binary to run; raises `LlmError` if there is none, or it is too old.

    The order: `llm.provider.claude.cli_path`, `KTX_CLAUDE_CLI_BIN`, the one bundled with claude-agent-sdk, PATH. A
    configured binary that does not work is an error, never a reason to use the next one; so is one inside the project,
    because otherwise `ktx status` would run whatever a shared repository contains.
    """
    for origin, path in candidates(cli_path=cli_path, project_dir=project_dir, environ=environ):
        if not (path.is_file() and os.access(path, os.X_OK)):
            place = SettingPath(origin) if origin == _SETTING else Variable(origin)
            hint = Hint("correct {}, or remove it", place)
            raise _unusable(backend, f"{origin} is {path}, which is not an executable program", hint)
        if origin == _SETTING and is_in_project(path, project_dir):
            message = f"ktx does not run {path}, set by {origin}: it is inside the project, which may have supplied it"
            again = Command("config", "set", _SETTING, "~/.local/bin/claude")
            raise _unusable(backend, message, again)
        bundled = path == bundled_binary()
        version = _version(str(path), path.stat().st_mtime_ns, backend, bundled)
        if version < MINIMUM:
            least = ".".join(str(part) for part in MINIMUM)
            found = ".".join(str(part) for part in version)
            raise _unusable(
                backend,
                f"{path} is Claude Code {found}, but ktx requires {least} or later",
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
    """Return the candidate binaries, best first, each with its origin."""
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
    """Return the binary bundled with claude-agent-sdk, without importing the SDK."""
    spec = importlib.util.find_spec("claude_agent_sdk")
    if spec is None or spec.origin is None:
        return None
    path = Path(spec.origin).parent / "_bundled" / ("claude.exe" if os.name == "nt" else "claude")
    return path if path.is_file() else None


def find_launcher(backend: str) -> Path:
    """Return the launcher's path; raises `LlmError` if it is not installed, because nothing runs without it."""
    name = LAUNCHER + (".exe" if os.name == "nt" else "")
    for folder in (Path(sys.executable).parent, Path(sysconfig.get_path("scripts"))):
        path = folder / name
        if path.is_file() and os.access(path, os.X_OK):
            return path
    message = f"the program `{LAUNCHER}` is not installed, and ktx never runs Claude Code without it"
    hint = Command("-m", "pip", "install", "--force-reinstall", "--no-deps", "ktx-cli", program=sys.executable)
    raise llm_error("isolation", backend=backend, message=message, hint=hint)


@functools.lru_cache(maxsize=16)
def _version(path: str, modified: int, backend: str, bundled: bool) -> tuple[int, int, int]:
    del modified  # part of the cache's key: an updated binary is asked again
    recorded = Path(path).with_name("claude.version")
    if bundled and recorded.is_file() and (known := _parse(recorded.read_text("utf-8", "replace"))):
        return known
    answer = _asked(path, "--version", backend)
    found = _parse(answer)
    if found is None:
        raise _unusable(backend, f"{path} does not print its version, so it is not Claude Code", f"{path} --version")
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
    """State that all processes of one runtime share. `environment` is the whole environment of a process."""

    project_dir: Path
    launcher: Path
    binary: Path
    restricted: bool
    environment: Mapping[str, str] = field(repr=False)


def claude_host(
    backend: str, config: KtxConfig, *, project_dir: Path, environ: Mapping[str, str]
) -> tuple[Host, ClaudeBinary]:
    """Return the host and the binary for a project; raises `LlmError` if a program is missing."""
    binary = find_claude(
        cli_path=config.llm.provider.claude.cli_path, project_dir=project_dir, environ=environ, backend=backend
    )
    environment = claude_environment(
        environ, secret_names=secret_names(config), settings=caching_environment(config.llm.prompt_caching)
    )
    host = Host(project_dir, find_launcher(backend), binary.path, binary.knows_restricted, environment)
    return host, binary


def write_system_file(host: Host, system: str) -> Path:
    """Write a system prompt to a file below `.ktx/` that only this user can read, after removing the files of dead
    processes.
    """
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
    """Return whether a process on this machine is alive; False for an impossible process id."""
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        return True
    return True


def secret_names(config: KtxConfig) -> frozenset[str]:
    """Return the variables named in `env:` references in `ktx.yaml`."""
    references = (SecretRef.parse(value) for _, _, value in values_of(config) if isinstance(value, str))
    return frozenset(one.name for one in references if one is not None and one.kind == "env")


log = logging.getLogger(__name__)

Result = TypeVar("Result")

FOLDER_PREFIX: Final = "ktx-claude-cli-"
CACHE_HOME: Final = "XDG_CACHE_HOME"
TERMINATE_SECONDS: Final = 5.0
POLL_SECONDS: Final = 0.01


@dataclass(frozen=True, slots=True)
class CliAnswer:
    """The result of a process: its exit code and the text of both streams."""

    code: int
    out: str
    err: str


def child_environment(host: Host, folder: Path) -> dict[str, str]:
    """Return the whole environment for a process, which sends one request per call because ktx does the retries."""
    return {**host.environment, **logs_in(folder), "CLAUDE_CODE_MAX_RETRIES": "0", "PWD": str(folder)}


def logs_in(folder: Path) -> dict[str, str]:
    """Return the variables that make Claude Code write its logs to a folder.

    It logs the calls of each MCP server, with their errors, below the user's cache folder and never removes them. On
    macOS, only the home folder determines that location.
    """
    return {CACHE_HOME: str(folder / "cache")}


@contextlib.contextmanager
def private_folder(prefix: str = FOLDER_PREFIX) -> Iterator[Path]:
    """Create an empty folder that only this user can enter, and remove it afterwards, along with the folders of dead
    processes. `prefix`: the beginning of its name, which says which program it is for.
    """
    folder = make_private_folder(prefix)
    try:
        yield folder
    finally:
        remove_private_folder(folder)


def make_private_folder(prefix: str = FOLDER_PREFIX) -> Path:
    """Create an empty folder that only this user can enter, after removing the folders of dead processes."""
    sweep(prefix)
    return Path(tempfile.mkdtemp(prefix=f"{prefix}{os.getpid()}-"))


def remove_private_folder(folder: Path) -> None:
    """Remove a private folder; the next run removes anything that cannot be removed now."""
    shutil.rmtree(folder, ignore_errors=True)


def sweep(prefix: str = FOLDER_PREFIX) -> None:
    """Remove the folders that this user's killed runs left behind."""
    for folder in Path(tempfile.gettempdir()).glob(f"{prefix}*"):
        pid = folder.name.removeprefix(prefix).partition("-")[0]
        if pid.isdecimal() and not is_alive(int(pid)) and _is_ours(folder):
            shutil.rmtree(folder, ignore_errors=True)


def _is_ours(folder: Path) -> bool:
    """Return whether a folder belongs to this user; False if it has disappeared."""
    try:
        return folder.lstat().st_uid == os.getuid()
    except FileNotFoundError:
        return False


async def run(command: list[str], *, environment: dict[str, str], folder: Path, prompt: str, backend: str) -> CliAnswer:
    """Run a process to completion with the prompt on stdin; on cancellation, its whole process group is ended first.

    Raises `LlmError` for a program that cannot be started.
    """
    given = prompt.encode("utf-8", "replace")  # half a surrogate pair, which a model can write, is not valid UTF-8
    starting = asyncio.ensure_future(_start(command, environment, folder))
    try:
        process = await asyncio.shield(starting)
    except (OSError, ValueError) as error:  # ValueError: a null byte in an argument
        message = f"{command[0]} cannot be started: {getattr(error, 'strerror', None) or error}"
        raise llm_error("connection", backend=backend, message=message, hint=Command("doctor")) from error
    except asyncio.CancelledError:  # asyncio itself would only end the process, not its children
        with contextlib.suppress(OSError, ValueError):
            await _finished(asyncio.ensure_future(terminate(await _finished(starting))))
        raise
    try:
        out, err = await process.communicate(given)
    except BaseException:
        await _finished(asyncio.ensure_future(terminate(process)))
        raise
    return CliAnswer(process.returncode or 0, out.decode("utf-8", "replace"), err.decode("utf-8", "replace"))


async def _start(command: list[str], environment: dict[str, str], folder: Path) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=environment,
        cwd=folder,
        start_new_session=True,
    )


async def _finished(task: asyncio.Future[Result]) -> Result:
    """Wait until a task is done, however often the wait is cancelled, and return its result."""
    while not task.done():
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.shield(task)
    return task.result()


async def terminate(process: Any) -> None:
    """End a process with SIGTERM, then SIGKILL; its children are ended immediately."""
    _signal(process.pid, signal.SIGTERM)
    ended = await _ended(process)
    _signal(process.pid, signal.SIGKILL)
    if not (ended or await _ended(process)):
        log.warning("the process %d did not end", process.pid)
    process._transport.close()  # pipes that a process outside the group may still hold


def _signal(group: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


async def _ended(process: Any) -> bool:
    """Wait for a process; `wait()` would also wait for children that keep its streams open."""
    try:
        async with asyncio.timeout(TERMINATE_SECONDS):
            while process.returncode is None:
                await asyncio.sleep(POLL_SECONDS)
    except TimeoutError:
        return False
    return True
