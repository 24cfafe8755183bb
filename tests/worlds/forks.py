"""Starts `ktx` in a fork of a process that has its modules in memory.

Each run is a process (and a session) of its own, to be watched and killed as an installed one; it costs about a third
of the CPU time, which a sweep of many runs cannot spare.
"""

from __future__ import annotations

import fcntl
import importlib
import json
import os
import select
import signal
import subprocess
import sys
import termios
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Protocol

_LOADED: Final = (
    "ktx_cli.cli.app",
    "ktx_cli.jobs.ingest.run",
    "ktx_cli.engine.agents",
    "ktx_cli.llm.backends.anthropic_api.backend",
    "anthropic._client",
    "sqlglot.optimizer",
)
"""What a run of `ktx ingest` imports late."""


class Started(Protocol):
    """A process that was started."""

    @property
    def pid(self) -> int:
        """Its process id, which is its group's too."""
        ...

    def wait(self) -> int:
        """Return its exit code, below zero where a signal ended it."""
        ...


class Starter(Protocol):
    """Starts `ktx` with arguments in a folder; what it says goes to the file `said`."""

    def __call__(self, arguments: Sequence[str], *, folder: Path, environ: Mapping[str, str], said: Path) -> Started:
        """Return the process."""
        ...


def start_installed(arguments: Sequence[str], *, folder: Path, environ: Mapping[str, str], said: Path) -> Started:
    """Start the `ktx` beside this interpreter."""
    with said.open("wb") as file:
        return subprocess.Popen(
            [str(Path(sys.executable).with_name("ktx")), *arguments],
            cwd=folder,
            env=dict(environ),
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


@dataclass(slots=True)
class Fork:
    """A run in a fork: as much of a `subprocess.Popen` as those need who start it."""

    pid: int
    _parent: subprocess.Popen[bytes]
    _status: int | None = None

    def poll(self) -> int | None:
        """Return its exit code, below zero where a signal ended it; None while it runs."""
        if self._status is None and _has_said(self._parent, 0):
            self._status = int(_line(self._parent))
        return self._status

    def wait(self, timeout: float | None = None) -> int:
        """Return its exit code, below zero where a signal ended it; raises `subprocess.TimeoutExpired`."""
        if self._status is None:
            if timeout is not None and not _has_said(self._parent, timeout):
                raise subprocess.TimeoutExpired("ktx", timeout)
            self._status = int(_line(self._parent))
        return self._status

    def kill(self) -> None:
        """End it with SIGKILL."""
        if self.poll() is None:
            os.kill(self.pid, signal.SIGKILL)


class Forks:
    """A context manager; called, it starts a run as `Starter` says, one at a time.

    `modules` are loaded beside what a run of `ktx ingest` imports late.
    """

    def __init__(self, *modules: str) -> None:
        self._modules = modules
        self._parent: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Forks:
        self._parent = subprocess.Popen(
            [sys.executable, __file__, *self._modules], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
        )
        _line(self._parent)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._parent is not None:
            self._parent.communicate()

    def __call__(
        self,
        arguments: Sequence[str],
        *,
        folder: Path,
        environ: Mapping[str, str],
        said: Path,
        unread: bool = False,
    ) -> Started:
        """Start `ktx` in a fork; `unread`: the reader of its standard output is gone, and `said` gets its errors."""
        return self._start(
            {
                "arguments": list(arguments),
                "folder": str(folder),
                "environ": dict(environ),
                "said": str(said),
                "unread": unread,
            }
        )

    def at_terminal(self, arguments: Sequence[str], *, folder: Path, environ: Mapping[str, str], terminal: str) -> Fork:
        """Start `ktx` in a fork with the terminal of that name as its own."""
        return self._start(
            {"arguments": list(arguments), "folder": str(folder), "environ": dict(environ), "terminal": terminal}
        )

    def _start(self, asked: Mapping[str, Any]) -> Fork:
        if self._parent is None or self._parent.stdin is None:
            raise RuntimeError("enter it first")
        self._parent.stdin.write(json.dumps(asked).encode() + b"\n")
        return Fork(int(_line(self._parent)), self._parent)


def _line(parent: subprocess.Popen[bytes]) -> str:
    assert parent.stdout is not None
    line: bytes = parent.stdout.readline()
    if not line:
        raise RuntimeError("the process that forks ended: its standard error says why")
    return line.decode()


def _has_said(parent: subprocess.Popen[bytes], seconds: float) -> bool:
    assert parent.stdout is not None  # not buffered: what was said and not read is in the pipe
    return bool(select.select([parent.stdout], [], [], max(seconds, 0))[0])


def _serve() -> None:
    """Say that all is loaded; fork for every line of the input, print the id of the child, later how it ended."""
    for name in (*_LOADED, *sys.argv[1:]):
        importlib.import_module(name)
    print("loaded", flush=True)
    for line in sys.stdin:
        asked = json.loads(line)
        # Open before anybody who waits for its end closes the other one they have.
        terminal = os.open(asked["terminal"], os.O_RDWR | os.O_NOCTTY) if "terminal" in asked else None
        pid = os.fork()
        if pid == 0:
            _become(asked, terminal)
            return
        if terminal is not None:
            os.close(terminal)
        print(pid, flush=True)
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)


def _become(asked: Mapping[str, Any], terminal: int | None) -> None:
    """Carry out the run in this process; its end is the end of the process."""
    os.setsid()
    os.chdir(asked["folder"])
    os.environ.clear()
    os.environ.update(asked["environ"])
    for target, source in enumerate(_streams(asked) if terminal is None else _of_terminal(terminal)):
        os.dup2(source, target)
    if terminal is not None:
        os.close(terminal)
    # New ones: those of the parent know whether its own could seek.
    sys.stdin, sys.stdout, sys.stderr = (os.fdopen(at, "r" if at == 0 else "w", closefd=False) for at in range(3))
    sys.stderr.reconfigure(line_buffering=True, errors="backslashreplace")
    sys.argv = ["ktx", *asked["arguments"]]
    from ktx_cli.cli.main import main

    main()


def _streams(asked: Mapping[str, Any]) -> tuple[int, int, int]:
    said = os.open(asked["said"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    return os.open(os.devnull, os.O_RDONLY), _without_a_reader() if asked["unread"] else said, said


def _of_terminal(terminal: int) -> tuple[int, int, int]:
    fcntl.ioctl(terminal, termios.TIOCSCTTY, 0)
    return terminal, terminal, terminal


def _without_a_reader() -> int:
    """Return the end of a pipe to write to, whose other end is closed."""
    reading, writing = os.pipe()
    os.close(reading)
    return writing


if __name__ == "__main__":
    _serve()
