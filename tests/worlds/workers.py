"""Starts the processes that run statements as forks of one that has the engines in memory.

A worker is started for every command that reads a database: its Python, the engine and what `ktx_cli` needs of both
take longer than most statements of a test. Its arguments, streams, limits and signals are those of a real one.

Run as a program this is the process that forks; nothing but the standard library may be imported above.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

_ENGINES: Final = ("_duckdb", "sqlite3")
_MOST: Final = 1 << 20
"""Bytes of what is asked for at once."""


class Child:
    """A child of another process that was asked to fork: as much of a `subprocess.Popen` as ktx needs."""

    def __init__(self, address: str, asked: Mapping[str, Any], streams: Sequence[int]) -> None:
        self.returncode: int | None = None
        self._lock = threading.Lock()
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as line:
            line.connect(f"\0{address}")
            socket.send_fds(line, [json.dumps(asked).encode()], list(streams))
            self.pid = int(line.recv(64))
            self._line = line.detach()
        weakref.finalize(self, os.close, self._line)

    def poll(self) -> int | None:
        """Return its exit code, below zero where a signal ended it; None while it runs."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Return its exit code, below zero where a signal ended it; raises `subprocess.TimeoutExpired`."""
        if self.returncode is None and not select.select([self._line], [], [], timeout)[0]:
            raise subprocess.TimeoutExpired("ktx", timeout or 0)
        with self._lock:
            if self.returncode is None:
                self.returncode = int(os.read(self._line, 64) or 0)  # nothing: who forked it is gone
        return self.returncode

    def kill(self) -> None:
        """End it with SIGKILL, if it runs."""
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):  # it has just ended
                os.kill(self.pid, signal.SIGKILL)


class Asked:
    """Where a process that forks is asked for children, and who waits for the end of which."""

    def __init__(self) -> None:
        self.address = ""
        if sys.platform == "linux":
            self.address = f"ktx-tests-{os.getpid()}"
            self._listening = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            self._listening.bind(f"\0{self.address}")
            self._listening.listen(128)
        else:  # it has no such sockets: nobody asks
            self._listening, self._silent = socket.socketpair()
        self._lines: dict[int, socket.socket] = {}

    def fileno(self) -> int:
        """Return what is readable when somebody asks."""
        return self._listening.fileno()

    def open(self) -> list[int]:
        """Return what a child must close."""
        return [self.fileno(), *(line.fileno() for line in self._lines.values())]

    def fork(self, become: Callable[[Mapping[str, Any], Sequence[int]], None], own: Sequence[int]) -> bool:
        """Fork for who asks; return whether this is the child, after its run. `own`: what it must close, too."""
        line, _ = self._listening.accept()
        try:
            message, streams, _, _ = socket.recv_fds(line, _MOST, 16)
        except ConnectionError:
            message, streams = b"", []
        if not message:  # who asked was killed meanwhile
            line.close()
            return False
        pid = child([*own, *self.open(), line.fileno()])
        if pid == 0:
            become(json.loads(message), streams)
            return True
        for each in streams:
            os.close(each)
        self._lines[pid] = line
        with contextlib.suppress(ConnectionError):  # who asked was killed meanwhile; the end is noted all the same
            line.send(str(pid).encode())
        return False

    def ended(self, pid: int, status: int) -> bool:
        """Tell who asked for a child that it ended; False where nobody did."""
        line = self._lines.pop(pid, None)
        if line is not None:
            with line, contextlib.suppress(ConnectionError):  # nobody waits any more
                line.send(str(status).encode())
        return line is not None


def child(own: Sequence[int]) -> int:
    """Fork, and have nothing of the parent's own in the child; return what `os.fork` does."""
    pid = os.fork()
    if pid == 0:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for each in own:
            os.close(each)
    return pid


class Subprocess:
    """Stands for the module `subprocess` where its `Popen` shall be another one."""

    def __init__(self, popen: Callable[..., Any]) -> None:
        self._popen = popen

    def __getattr__(self, name: str) -> Any:
        return self._popen if name == "Popen" else getattr(subprocess, name)


def worker(address: str, command: Sequence[str], *, pass_fds: Sequence[int], env: Mapping[str, str], **_: Any) -> Child:
    """Return a worker as `ktx_cli.warehouses.worker.process` starts it."""
    program = command.index("-c")
    _, memory, looks, _ = command[program + 2 : program + 6]
    return Child(address, {"memory": memory, "looks": looks, "environ": dict(env)}, pass_fds)


def fork_workers(address: str) -> None:
    """Have the workers of this process forked from now on, where there is an address."""
    from ktx_cli.warehouses.worker import process

    if address:
        vars(process)["subprocess"] = Subprocess(functools.partial(worker, address))


def start_workers() -> None:
    """Have the workers of this process started as ktx does, from now on."""
    from ktx_cli.warehouses.worker import process

    vars(process)["subprocess"] = subprocess


@functools.cache
def shared() -> str:
    """Return where the tests of this process ask for workers; who forks them begins now, and ends with this process."""
    process = subprocess.Popen(
        [sys.executable, "-I", "-S", __file__, *filter(os.path.isabs, sys.path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd="/",
        env={**_environ(), "MALLOC_ARENA_MAX": "2"},
    )
    _PROCESSES.append(process)
    assert process.stdout is not None
    return process.stdout.readline().decode().rstrip("\n")


_PROCESSES: Final[list[subprocess.Popen[bytes]]] = []


def leave_shared() -> None:
    """End the process that forks, if there is one."""
    while _PROCESSES:
        _PROCESSES.pop().communicate()
    shared.cache_clear()


def _environ() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name in ("LANG", "LD_LIBRARY_PATH")}


def _serve() -> None:
    """Print where to ask; fork a worker for whoever does, until the standard input ends."""
    sys.path += sys.argv[1:]
    for name in _ENGINES:
        with contextlib.suppress(ImportError):  # then a worker that needs it says so
            __import__(name)
    import ktx_cli.warehouses.worker.child  # noqa: F401

    asked = Asked()
    os.write(1, f"{asked.address}\n".encode())
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    gc.collect()
    gc.freeze()
    wake, woken = os.pipe()
    os.set_blocking(woken, False)
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    signal.set_wakeup_fd(woken)
    while True:
        ready, _, _ = select.select([0, wake, asked], [], [])
        if wake in ready:
            os.read(wake, 4096)
            with contextlib.suppress(ChildProcessError):
                while (ended := os.waitpid(-1, os.WNOHANG))[0]:
                    asked.ended(ended[0], os.waitstatus_to_exitcode(ended[1]))
        if asked in ready and asked.fork(_work, (wake, woken)):
            return
        if 0 in ready:
            return


def _work(asked: Mapping[str, Any], pipes: Sequence[int]) -> None:
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM, signal.SIGHUP})
    os.environ.update(asked["environ"])
    time.tzset()
    control, *channels = map(str, pipes)
    sys.argv = ["-c", control, asked["memory"], asked["looks"], ",".join(channels)]
    from ktx_cli.warehouses.worker.child import main

    main()


if __name__ == "__main__":
    _serve()
