"""Starts `ktx` in a fork of a process that has its modules in memory.

Each run is a process (and a session) of its own, to be watched and killed as an installed one; it costs about a third
of the CPU time, which a sweep of many runs cannot spare.
"""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Protocol

_LOADED: Final = (
    "ktx_cli.cli.app",
    "ktx_cli.jobs.ingest.run",
    "ktx_cli.jobs.ingest.units.phase",
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


@dataclass(frozen=True, slots=True)
class _Fork:
    pid: int
    parent: subprocess.Popen[str]

    def wait(self) -> int:
        return int(_line(self.parent))


class Forks:
    """A context manager; called, it starts a run as `Starter` says, one at a time."""

    def __init__(self) -> None:
        self._parent: subprocess.Popen[str] | None = None

    def __enter__(self) -> Forks:
        self._parent = subprocess.Popen(
            [sys.executable, "-m", __name__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
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
        if self._parent is None or self._parent.stdin is None:
            raise RuntimeError("enter it first")
        asked = {
            "arguments": list(arguments),
            "folder": str(folder),
            "environ": dict(environ),
            "said": str(said),
            "unread": unread,
        }
        self._parent.stdin.write(json.dumps(asked) + "\n")
        self._parent.stdin.flush()
        return _Fork(int(_line(self._parent)), self._parent)


def _line(parent: subprocess.Popen[str]) -> str:
    assert parent.stdout is not None
    line = parent.stdout.readline()
    if not line:
        raise RuntimeError("the process that forks ended: its standard error says why")
    return line


def _serve() -> None:
    """Say that all is loaded; fork for every line of the input, print the id of the child, later how it ended."""
    for name in _LOADED:
        importlib.import_module(name)
    print("loaded", flush=True)
    for line in sys.stdin:
        asked = json.loads(line)
        pid = os.fork()
        if pid == 0:
            _become(asked)
            return
        print(pid, flush=True)
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)


def _become(asked: Mapping[str, Any]) -> None:
    """Carry out the run in this process; its end is the end of the process."""
    os.setsid()
    os.chdir(asked["folder"])
    os.environ.clear()
    os.environ.update(asked["environ"])
    said = os.open(asked["said"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for target, source in ((0, nothing), (1, _without_a_reader() if asked["unread"] else said), (2, said)):
        os.dup2(source, target)
    # New ones: those of the parent know whether its own could seek.
    sys.stdin, sys.stdout, sys.stderr = (os.fdopen(at, "r" if at == 0 else "w", closefd=False) for at in range(3))
    sys.stderr.reconfigure(line_buffering=True, errors="backslashreplace")
    sys.argv = ["ktx", *asked["arguments"]]
    from ktx_cli.cli.main import main

    main()


def _without_a_reader() -> int:
    """Return the end of a pipe to write to, whose other end is closed."""
    reading, writing = os.pipe()
    os.close(reading)
    return writing


if __name__ == "__main__":
    _serve()
