"""The run lock, which allows one writer per project. A live process holds it; it is stale once that process is dead."""

from __future__ import annotations

import contextlib
import math
import os
import platform
import socket
import sqlite3
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ktx_cli.core import BusyError, Emit, StorageError, Waiting, ignore_events, isoformat
from ktx_cli.project.files import remove_leftovers
from ktx_cli.project.layout import Layout
from ktx_cli.project.state import (
    StateDatabase,
    Warn,
    clock_of,
    ignore_warning,
    open_for_writing,
    shared_state_of,
    transaction,
    translated,
)

if TYPE_CHECKING:
    from ktx_cli.project.shared_state import SharedDatabase

NAME = "run"
_HELD_HERE: set[str] = set()
"""This process's runs that hold, or are about to take, the run lock of any project."""

HEARTBEAT_SECONDS = 10.0
STALE_SECONDS = 90.0
"""A holder on another host counts as dead after this long without a heartbeat.

Longer than a run waits for a database that does not respond, so that it shows first that it is alive.
"""


ASK_SECONDS = 0.2
"""How often a run that waits asks whether the lock is free."""
LONGEST_PAUSE = 2.0
"""How long a run pauses at most before it asks a shared database again: many hosts may wait."""


@dataclass(frozen=True, slots=True)
class Holder:
    """The process that holds the run lock; `since` and `heartbeat` are Unix seconds."""

    run_id: str
    command: str
    pid: int
    process_start: str
    host: str
    hostname: str
    since: float
    heartbeat: float

    @property
    def since_text(self) -> str:
        """The start of the run in ISO format."""
        return isoformat(datetime.fromtimestamp(self.since, UTC))

    def description(self, now: float) -> str:
        """Return what holds the lock, where, and since when, as a sentence without its period."""
        who = f"run {self.run_id}, pid {self.pid} on {self.hostname}, since {self.since_text}"
        return f"`{self.command}` is already running on this project: {who}{self.silence(now)}"

    def silence(self, now: float) -> str:
        """Return when the holder showed last that it is alive, as a clause, and when one elsewhere counts as dead.

        A holder on this host counts as dead when its process ends.
        """
        last = f", last heartbeat {max(0, round(now - self.heartbeat))} s ago"
        if self.host == host_identity():
            return last
        return f"{last}; after {STALE_SECONDS:.0f} s without one, another run takes over"

    def is_alive(self, now: float) -> bool:
        """Return whether the holder is alive, judged on this host by pid and start time, elsewhere by its heartbeat."""
        if self.host == host_identity():
            return process_start(self.pid) == self.process_start
        return now - self.heartbeat < STALE_SECONDS


class RunLock:
    """The run lock of this process. Call `check` before any change that others can see."""

    def __init__(self, database: StateDatabase, path: Path, run_id: str) -> None:
        self._database = database
        self._path = path
        self.run_id = run_id

    def check(self) -> None:
        """Raise `BusyError` if another run has taken over the run lock while this process was suspended."""
        with translated(self._path):
            row = self._database.execute("SELECT run_id FROM leases WHERE name = ?", (NAME,)).fetchone()
        if row is None or row[0] != self.run_id:
            message = "another run took over while this one was not responding; nothing was committed"
            raise BusyError(message, hint="run the same command again")


@contextlib.contextmanager
def hold_run_lock(
    layout: Layout,
    *,
    run_id: str,
    command: str,
    wait_seconds: float = 0.0,
    emit: Emit = ignore_events,
    warn: Warn = ignore_warning,
) -> Iterator[tuple[RunLock, StateDatabase]]:
    """Hold the project's run lock for a block; yields it and the open state database.

    Waits up to `wait_seconds` for another holder. Raises `BusyError` with pid, host and since in `details`. Calls
    `warn` if the state database was damaged and has been moved aside.
    """
    with contextlib.ExitStack() as stack:
        _HELD_HERE.add(run_id)
        stack.callback(_HELD_HERE.discard, run_id)
        database = stack.enter_context(open_for_writing(layout, warn))
        longest = ASK_SECONDS if shared_state_of(layout) is None else LONGEST_PAUSE
        _acquire(database, layout.state, run_id, command, wait_seconds, longest, emit)
        stop = threading.Event()
        beat = threading.Thread(target=_beat, args=(layout, run_id, stop), daemon=True)
        beat.start()
        try:
            with translated(layout.state):
                remove_leftovers(layout.private)
            yield RunLock(database, layout.state, run_id), database
        except BaseException:
            with contextlib.suppress(
                sqlite3.Error, StorageError
            ):  # the error of the block matters more, and a dead holder is recognized
                _release(database, run_id)
            raise
        else:
            with translated(layout.state):
                _release(database, run_id)
        finally:
            stop.set()
            beat.join()


def current_holder(database: StateDatabase) -> Holder | None:
    """Return the holder of the run lock, dead or alive, or None if the lock is free."""
    row = database.execute(
        "SELECT run_id, command, pid, process_start, host, hostname, since, heartbeat FROM leases WHERE name = ?",
        (NAME,),
    ).fetchone()
    return None if row is None else Holder(*row)


def _acquire(
    database: StateDatabase, path: Path, run_id: str, command: str, wait_seconds: float, longest: float, emit: Emit
) -> None:
    """Take the lock. Waits with pauses that grow from `ASK_SECONDS` to `longest` seconds."""
    deadline = time.monotonic() + wait_seconds
    announced, pause = False, ASK_SECONDS
    while True:
        with translated(path):
            holder, now = _try(database, run_id, command)
        if holder is None:
            return
        left = deadline - time.monotonic()
        if left <= 0:
            raise _busy(holder, now)
        if not announced:
            limit = wait_seconds if math.isfinite(wait_seconds) else None
            emit(Waiting(holder.description(now), limit))
            announced = True
        time.sleep(min(pause, left))
        pause = min(1.5 * pause, longest)


def _try(database: StateDatabase, run_id: str, command: str) -> tuple[Holder | None, float]:
    """Take the run lock if it is free or its holder is dead; otherwise return the holder. Also returns the time."""
    pid = os.getpid()
    with transaction(database):
        now = clock_of(database)
        holder = current_holder(database)
        if holder is not None and holder.is_alive(now) and not _is_over(holder):
            return holder, now
        if holder is not None:
            database.execute(
                "UPDATE runs SET status = 'interrupted' WHERE run_id = ? AND finished IS NULL", (holder.run_id,)
            )
        database.execute(
            "INSERT OR REPLACE INTO leases VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (NAME, run_id, command, pid, process_start(pid) or "", host_identity(), socket.gethostname(), now, now),
        )
    return None, now


def _is_over(holder: Holder) -> bool:
    """Return whether the holder is a finished run of this process that could not release the lock (disk full)."""
    ours = holder.pid == os.getpid() and holder.process_start == process_start(os.getpid())
    return ours and holder.host == host_identity() and holder.run_id not in _HELD_HERE


def _release(database: StateDatabase, run_id: str) -> None:
    database.execute("DELETE FROM leases WHERE name = ? AND run_id = ?", (NAME, run_id))


def _busy(holder: Holder, now: float) -> BusyError:
    details = {
        "pid": holder.pid,
        "host": holder.hostname,
        "since": holder.since_text,
        "heartbeat": isoformat(datetime.fromtimestamp(holder.heartbeat, UTC)),
        "run_id": holder.run_id,
        "command": holder.command,
    }
    return BusyError(holder.description(now), hint="wait for it with --wait, or try again later", details=details)


def _beat(layout: Layout, run_id: str, stop: threading.Event) -> None:
    """Update the heartbeat until stopped. If the database does not respond, try again at the next beat."""
    shared = shared_state_of(layout)
    while not stop.wait(HEARTBEAT_SECONDS):
        with contextlib.suppress(sqlite3.Error, StorageError), contextlib.closing(_beating(layout, shared)) as database:
            now = clock_of(database)
            database.execute("UPDATE leases SET heartbeat = ? WHERE name = ? AND run_id = ?", (now, NAME, run_id))


def _beating(layout: Layout, shared: SharedDatabase | None) -> Any:
    """Return a connection for one heartbeat."""
    if shared is not None:
        from ktx_cli.project.shared_state import SharedStateConnection

        return SharedStateConnection(shared)
    return sqlite3.connect(layout.state, timeout=5, isolation_level=None)


def host_identity() -> str:
    """Return what makes process ids comparable: host name, boot and, on Linux, the pid namespace."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
        return f"{socket.gethostname()}/{boot}/{os.readlink('/proc/self/ns/pid')}"
    except OSError:  # not Linux: the host name has to do
        return socket.gethostname()


def process_start(pid: int) -> str | None:
    """Return a text that distinguishes this process from a later one with the same pid; None if it has ended.

    Linux: the start time in clock ticks since boot, from `/proc`. Elsewhere: the start time that `ps` prints.
    """
    if platform.system() == "Linux":
        try:
            stat = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace")
        except (FileNotFoundError, ProcessLookupError):
            return None
        fields = stat[stat.rindex(")") + 2 :].split()
        return None if fields[0] in ("Z", "X") else fields[19]
    return _start_by_ps(pid)


def _start_by_ps(pid: int) -> str | None:
    import subprocess

    done = subprocess.run(["ps", "-o", "lstart=", "-p", str(pid)], capture_output=True, text=True, check=False)
    return done.stdout.strip() or None
