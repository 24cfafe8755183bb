"""Starts a server in the background, waits until it responds, reports its status, and stops it."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, BinaryIO, Final

from ktx_cli.core import BusyError, Command, Hint, KtxError, ResultWarning, monotonic
from ktx_cli.jobs.serve.state import asked_health, error_from, read_server_state, remove_server_state
from ktx_cli.project import Layout, mask, prepare_private_folder, storage_error

if TYPE_CHECKING:
    from ktx_cli.jobs.serve.state import ServerSettings, ServerState

WAIT_SECONDS: Final = 30.0
GRACE_SECONDS: Final = 10.0
_POLL: Final = 0.05


@dataclass(frozen=True, slots=True)
class ServerStatus:
    """The status of a project's server: `running`, `stale` (its file exists, but it does not run) or `stopped`.

    `problem`: why it is stale, or what is wrong with a running one.
    """

    status: str
    state: ServerState | None = None
    health: Mapping[str, Any] | None = None
    problem: str | None = None
    warning: ResultWarning | None = None
    """The problem of a running server, with a hint."""

    def to_json(self, folder: str) -> dict[str, Any]:
        """Return the status as shown by `ktx mcp status --json`."""
        state, health = self.state, self.health or {}
        if state is None:
            return {"status": self.status}
        settings = state.settings
        return {
            "status": self.status,
            "problem": self.problem,
            "pid": state.pid,
            "url": state.url(folder),
            "since": state.since,
            "version": state.version,
            "projects": [
                {"name": each.name, "folder": each.folder, "url": state.base + each.path} for each in settings.projects
            ],
            "sessions": health.get("sessions"),
            "profile": settings.profile.value,
            "replica": settings.replica,
            "read_only": settings.read_only or settings.replica,
            "privacy": settings.privacy,
            "user_attributes": dict(settings.user_attributes),
            "agent": settings.agent,
            "snapshot": state.snapshot,
            "token_required": state.token_required,
        }


def server_status(layout: Layout) -> ServerStatus:
    """Return the status of a project's server; changes nothing."""
    state = read_server_state(layout)
    if state is None:
        if layout.mcp_state.exists():
            return ServerStatus("stale", problem=f"{layout.mcp_state} was not written by ktx")
        return ServerStatus("stopped")
    if not state.is_alive():  # send no request: the file could have come with a repository, and contain any address
        return ServerStatus("stale", state, None, f"its process {state.pid} has ended")
    health = asked_health(state)
    if health is not None:
        warning = _warning(state, health)
        return ServerStatus("running", state, health, None if warning is None else warning.message, warning)
    return ServerStatus(
        "stale", state, None, f"its process {state.pid} is running, but does not respond at {state.base}"
    )


def _warning(state: ServerState, health: Mapping[str, Any]) -> ResultWarning | None:
    """Return what is wrong with a running server, or None."""
    audit = health.get("audit")
    if audit not in (None, "ok"):
        hint = "free disk space, or check the permissions of the folder"
        return ResultWarning("audit_log", f"the audit log fails: {audit}", hint=hint)
    if state.problem is None:
        return None
    message = "the replica keeps its snapshot and its settings, because the newest ones cannot be served"
    return ResultWarning("snapshot", f"{message}: {state.problem['message']}", hint=state.problem["hint"])


def running_already(layout: Layout, settings: ServerSettings) -> ServerStatus | None:
    """Return the running server with the requested settings, or None if there is none.

    Raises `BusyError` for a server that runs with other settings, or that is alive but does not respond.
    """
    found = server_status(layout)
    state = found.state
    if state is None or (found.status == "stale" and not state.is_alive()):
        return None
    details = {"pid": state.pid, "url": state.base, "since": state.since}
    if found.status == "stale":
        raise BusyError(f"a server already exists, but {found.problem}", hint=Command("mcp", "stop"), details=details)
    other = settings.differs(state.settings, port=state.port)
    if other:
        words = ", ".join(name.replace("_", " ") for name in other)
        message = f"a server is already running (pid {state.pid}, {state.base}) with other settings: {words}"
        hint = Hint("{}, then start it again; to run both, use another project folder", Command("mcp", "stop"))
        raise BusyError(message, hint=hint, details={**details, "differs": other})
    return found


def start_server(layout: Layout, settings: ServerSettings, *, wait_seconds: float = WAIT_SECONDS) -> ServerState:
    """Start a server that outlives this process, and return when it responds.

    Raises the error that kept it from starting; a server that does not respond in time is stopped.
    """
    deadline = monotonic() + wait_seconds
    log = _new_log(layout)
    process = _spawned(layout, settings, log)
    try:
        state = _announced_state(process, deadline, layout)
        while asked_health(state) is None:
            if process.poll() is not None or monotonic() > deadline:
                raise _silent(layout, process)
            time.sleep(_POLL)
    except BaseException:
        process.kill()
        process.wait()
        left = read_server_state(layout)
        if left is not None and left.pid == process.pid:
            _forget(left, layout)
        raise
    finally:
        if process.stdout is not None:
            process.stdout.close()
    process.returncode = 0  # it keeps running, so the garbage collector must not complain about it
    return state


def _new_log(layout: Layout) -> IO[bytes]:
    """Return the log of a new server; the previous log is kept next to it."""
    prepare_private_folder(layout)
    path = layout.mcp_log
    try:
        path.parent.mkdir(mode=0o700, exist_ok=True)
        if path.exists():
            os.replace(path, path.with_name(f"{path.name}.1"))
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        return os.fdopen(os.open(path, flags, 0o600), "ab")
    except OSError as error:
        raise storage_error(path, error) from error


def _spawned(layout: Layout, settings: ServerSettings, log: IO[bytes]) -> subprocess.Popen[bytes]:
    """Start the process. `-P`: modules in a project folder must not be imported."""
    command = [sys.executable, "-P", "-m", "ktx_cli.mcp.serving", json.dumps(settings.to_json())]
    with log:
        return subprocess.Popen(
            command,
            cwd=layout.root,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            start_new_session=True,
        )


def _announced_state(process: subprocess.Popen[bytes], deadline: float, layout: Layout) -> ServerState:
    """Return the state of the new server once it reports that it serves; raises the error it reports instead."""
    assert process.stdout is not None
    text = b""
    while not text.endswith(b"\n"):
        ready, _, _ = select.select([process.stdout], [], [], max(0.0, min(deadline - monotonic(), 3600.0)))
        piece = os.read(process.stdout.fileno(), 65_536) if ready else b""
        if not piece:
            raise _silent(layout, process)
        text += piece
    document = json.loads(text)
    if document.get("error"):
        raise error_from(document["error"])
    state = read_server_state(layout)
    if state is None or state.instance != document["instance"]:
        raise _silent(layout, process)
    return state


def _silent(layout: Layout, process: subprocess.Popen[bytes]) -> KtxError:
    ended = process.poll()
    what = "did not respond in time" if ended is None else f"ended with {ended} before it responded"
    hint = Command("mcp", "logs")
    details = {"log": str(layout.mcp_log), "last": last_lines(layout.mcp_log, 5)}
    return KtxError(f"the server {what}", hint=hint, details=details, code="timeout" if ended is None else "failed")


def last_lines(path: Path, count: int, tail: int = 262_144) -> list[str]:
    """Return the last lines of a log, without secrets; empty if there is no log."""
    try:
        with path.open("rb") as stream:
            stream.seek(max(0, os.fstat(stream.fileno()).st_size - tail))
            lines = stream.read().decode("utf-8", "replace").splitlines()
    except FileNotFoundError:
        return []
    except OSError as error:
        raise storage_error(path, error, "read") from error
    return [mask(line) for line in lines[-count:]] if count else []


@dataclass(frozen=True, slots=True)
class Stopped:
    """The result of stopping a server: `stopped`, `killed` (it did not end in time), `stale` or `nothing`."""

    outcome: str
    pid: int | None = None


def stop_server(layout: Layout) -> Stopped:
    """Stop a project's server and remove its state; another process that has its pid by now is not touched."""
    state = read_server_state(layout)
    if state is None:
        there = layout.mcp_state.exists()
        remove_server_state(layout, None)
        return Stopped("stale" if there else "nothing")
    with _process(state) as process:
        outcome = "stale" if process is None else _ended(state, process)
    _forget(state, layout)
    return Stopped(outcome, state.pid)


def forget_dead(layout: Layout) -> bool:
    """Remove what a dead server left; return False if a server is running by now. No process receives a signal."""
    state = read_server_state(layout)
    if state is None:
        remove_server_state(layout, None)
    elif state.is_alive():
        return False
    else:
        _forget(state, layout)
    return True


def _ended(state: ServerState, send: Callable[[int], None]) -> str:
    for number, outcome in ((signal.SIGTERM, "stopped"), (signal.SIGKILL, "killed")):
        with contextlib.suppress(ProcessLookupError):
            send(number)
        if _gone(state):
            return outcome
    message = f"the server's process {state.pid} does not end"
    raise KtxError(message, hint=Hint("see what blocks it: {}", Command("mcp", "logs")))


@contextlib.contextmanager
def _process(state: ServerState) -> Iterator[Callable[[int], None] | None]:
    """Yield a function that signals the server's process and no other; None if the process has ended."""
    if not hasattr(os, "pidfd_open"):
        yield functools.partial(os.kill, state.pid) if state.is_alive() else None
        return
    try:
        handle = os.pidfd_open(state.pid)
    except OSError:
        yield None
        return
    try:  # verified after taking the handle: from then on, no other process can have its pid
        yield functools.partial(signal.pidfd_send_signal, handle) if state.is_alive() else None
    finally:
        os.close(handle)


def _gone(state: ServerState) -> bool:
    deadline = monotonic() + GRACE_SECONDS
    while state.is_alive():
        if monotonic() > deadline:
            return False
        time.sleep(_POLL)
    return True


def _forget(state: ServerState, layout: Layout) -> None:
    """Remove what the server left in each of its projects, unless it belongs to another server by now."""
    folders = {layout.root, *(Path(each.folder) for each in state.settings.projects)}
    for folder in folders:
        if folder.is_dir():
            remove_server_state(Layout(folder), state.instance)


POLL_SECONDS: Final = 0.2
_MOST: Final = 1_000_000


def followed(path: Path, last: int) -> Iterator[str]:
    """Yield the last complete lines of a file, then lines as they are added; never ends. The file may not exist yet.

    Raises `StorageError`.
    """
    stream = _opened(path)
    rest = b""
    if stream is not None:
        stream.seek(max(0, os.fstat(stream.fileno()).st_size - _MOST))
        *lines, rest = stream.read().split(b"\n")
        yield from (line.decode("utf-8", "replace") for line in lines[len(lines) - min(last, len(lines)) :])
    while True:
        piece = stream.read(_MOST) if stream is not None else b""
        if piece:
            *lines, rest = (rest + piece).split(b"\n")
            yield from (line.decode("utf-8", "replace") for line in lines)
            continue
        if _is_another(path, stream):
            if rest:
                yield rest.decode("utf-8", "replace")
            if stream is not None:
                stream.close()
            stream, rest = _opened(path), b""
            continue
        time.sleep(POLL_SECONDS)


def _opened(path: Path) -> BinaryIO | None:
    try:
        return path.open("rb")
    except FileNotFoundError:
        return None
    except OSError as error:
        raise storage_error(path, error, "read") from error


def _is_another(path: Path, stream: BinaryIO | None) -> bool:
    """Return whether the file was replaced or truncated since it was opened."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return False
    if stream is None:
        return True
    ours = os.fstat(stream.fileno())
    return (found.st_dev, found.st_ino) != (ours.st_dev, ours.st_ino) or found.st_size < stream.tell()
