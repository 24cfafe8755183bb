"""Running the `claude` binary to its end: a private folder, the scrubbed environment, its whole process group."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

from ktx_cli.core import Command
from ktx_cli.llm.backends.claude.binary import Host, is_alive
from ktx_cli.llm.errors import llm_error

log = logging.getLogger(__name__)

Result = TypeVar("Result")

FOLDER_PREFIX: Final = "ktx-claude-cli-"
CACHE_HOME: Final = "XDG_CACHE_HOME"
TERMINATE_SECONDS: Final = 5.0
POLL_SECONDS: Final = 0.01


@dataclass(frozen=True, slots=True)
class CliAnswer:
    """What a process left: its exit code, and both streams."""

    code: int
    out: str
    err: str


def child_environment(host: Host, folder: Path) -> dict[str, str]:
    """Return the whole environment of a process; one request goes out for one call, the retries are ktx's."""
    return {**host.environment, **logs_in(folder), "CLAUDE_CODE_MAX_RETRIES": "0", "PWD": str(folder)}


def logs_in(folder: Path) -> dict[str, str]:
    """Return the variables that make Claude Code write its logs below a folder.

    It logs each MCP server's calls, with their errors, below the user's cache folder for ever. On macOS nothing but
    the home folder says where that is.
    """
    return {CACHE_HOME: str(folder / "cache")}


@contextlib.contextmanager
def private_folder() -> Iterator[Path]:
    """Make an empty folder only this user can enter, and remove it afterwards; those of dead processes go too."""
    folder = make_private_folder()
    try:
        yield folder
    finally:
        remove_private_folder(folder)


def make_private_folder() -> Path:
    """Make an empty folder only this user can enter; those of dead processes go."""
    sweep()
    return Path(tempfile.mkdtemp(prefix=f"{FOLDER_PREFIX}{os.getpid()}-"))


def remove_private_folder(folder: Path) -> None:
    """Remove such a folder; what cannot be removed now is removed by the next run."""
    shutil.rmtree(folder, ignore_errors=True)


def sweep() -> None:
    """Remove the folders that killed runs of this user left."""
    for folder in Path(tempfile.gettempdir()).glob(f"{FOLDER_PREFIX}*"):
        pid = folder.name.removeprefix(FOLDER_PREFIX).partition("-")[0]
        if pid.isdecimal() and not is_alive(int(pid)) and _is_ours(folder):
            shutil.rmtree(folder, ignore_errors=True)


def _is_ours(folder: Path) -> bool:
    """Say whether a folder is this user's; it may go away while it is looked at."""
    try:
        return folder.lstat().st_uid == os.getuid()
    except FileNotFoundError:
        return False


async def run(command: list[str], *, environment: dict[str, str], folder: Path, prompt: str, backend: str) -> CliAnswer:
    """Run a process to its end with the prompt on stdin; cancelled, its whole process group is ended first.

    Raises `LlmError` for a program that cannot be started.
    """
    given = prompt.encode("utf-8", "replace")  # half a surrogate pair, which a model can write, is no UTF-8
    starting = asyncio.ensure_future(_start(command, environment, folder))
    try:
        process = await asyncio.shield(starting)
    except (OSError, ValueError) as error:  # ValueError: a null byte in an argument
        message = f"{command[0]} cannot be started: {getattr(error, 'strerror', None) or error}"
        raise llm_error("connection", backend=backend, message=message, hint=Command("doctor")) from error
    except asyncio.CancelledError:  # asyncio itself would end the process alone, and not what it started
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
    """Return the result of a task, waited for to its end however often the waiting is cancelled."""
    while not task.done():
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.shield(task)
    return task.result()


async def terminate(process: Any) -> None:
    """End a process and its group: the process politely, then not; what it leaves behind at once."""
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
    """Wait for a process; `wait()` would also wait for children that hold its streams open."""
    try:
        async with asyncio.timeout(TERMINATE_SECONDS):
            while process.returncode is None:
                await asyncio.sleep(POLL_SECONDS)
    except TimeoutError:
        return False
    return True
