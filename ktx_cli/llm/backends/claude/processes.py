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
from typing import Any, Final

from ktx_cli.llm.backends.claude.host import Host, is_alive

log = logging.getLogger(__name__)

FOLDER_PREFIX: Final = "ktx-claude-cli-"
TERMINATE_SECONDS: Final = 5.0


@dataclass(frozen=True, slots=True)
class CliAnswer:
    """What a process left: its exit code, and both streams."""

    code: int
    out: str
    err: str


def child_environment(host: Host, folder: Path) -> dict[str, str]:
    """Return the whole environment of a process; one request goes out for one call, the retries are ktx's."""
    return {**host.environment, "CLAUDE_CODE_MAX_RETRIES": "0", "PWD": str(folder)}


@contextlib.contextmanager
def private_folder() -> Iterator[Path]:
    """Make an empty folder only this user can enter, and remove it afterwards; those of dead processes go too."""
    sweep()
    folder = Path(tempfile.mkdtemp(prefix=f"{FOLDER_PREFIX}{os.getpid()}-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def sweep() -> None:
    """Remove the folders that killed runs of this user left."""
    for folder in Path(tempfile.gettempdir()).glob(f"{FOLDER_PREFIX}*"):
        pid = folder.name.removeprefix(FOLDER_PREFIX).partition("-")[0]
        if pid.isdigit() and not is_alive(int(pid)) and _is_ours(folder):
            shutil.rmtree(folder, ignore_errors=True)


def _is_ours(folder: Path) -> bool:
    """Say whether a folder is this user's; it may go away while it is looked at."""
    try:
        return folder.lstat().st_uid == os.getuid()
    except FileNotFoundError:
        return False


async def run(command: list[str], *, environment: dict[str, str], folder: Path, prompt: str) -> CliAnswer:
    """Run a process to its end with the prompt on stdin; cancelled, its whole process group is ended first."""
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=environment,
        cwd=folder,
        start_new_session=True,
    )
    try:
        out, err = await process.communicate(prompt.encode())
    except asyncio.CancelledError:
        await asyncio.shield(terminate(process))
        raise
    return CliAnswer(process.returncode or 0, out.decode("utf-8", "replace"), err.decode("utf-8", "replace"))


async def terminate(process: Any) -> None:
    """End a process and its group: politely, then not."""
    for number, seconds in ((signal.SIGTERM, TERMINATE_SECONDS), (signal.SIGKILL, TERMINATE_SECONDS)):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, number)
        try:
            await asyncio.wait_for(process.wait(), seconds)
        except TimeoutError:
            continue
        return
    log.warning("the process group %d did not end", process.pid)
