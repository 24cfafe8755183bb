"""Starts `ktx` in a fork of a process that has its modules in memory.

Each run is a process (and a session) of its own, to be watched and killed as an installed one, at a fraction of the
CPU time. What such a run starts of ktx is a fork of that process too; `INSTALLED` in its environment says otherwise.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import fcntl
import functools
import gc
import importlib
import json
import math
import os
import select
import signal
import subprocess
import sys
import tempfile
import termios
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Final, Protocol

from tests.worlds import workers
from tests.worlds.workers import Asked, Child, Subprocess, child, fork_workers, start_workers
from tests.worlds.workers import shared as shared_workers

_LOADED: Final = (
    "ktx_cli.cli.app",
    "ktx_cli.cli.progress",
    "ktx_cli.jobs.capture.capture",
    "ktx_cli.jobs.check.diff",
    "ktx_cli.jobs.check.lint.lint",
    "ktx_cli.jobs.health.doctor",
    "ktx_cli.jobs.health.status",
    "ktx_cli.jobs.ingest.run",
    "ktx_cli.jobs.semantic.question",
    "ktx_cli.engine.agents",
    "ktx_cli.llm.backends.anthropic_api.backend",
    "anthropic._client",
    "sqlglot.optimizer",
    "sqlglot.dialects.sqlite",
)
"""What most commands import late."""

_SHARED: Final = (
    "ktx_cli.mcp.serving",
    "ktx_cli.mcp.tools",
    "ktx_cli.cli.main",
    "ktx_cli.cli.reports",
    "ktx_cli.cli.commands.search",
    "ktx_cli.cli.commands.setup",
    "ktx_cli.cli.prompts",
    "ktx_cli.jobs.setup.wizard.wizard",
    "ktx_cli.llm.backends.claude.session",
    "ktx_cli.llm.routing",
    "ktx_cli.sources.documents.source",
    "ktx_cli.sources.lookml.source",
    "ktx_cli.warehouses.sqlite.connector",
    "ktx_cli.warehouses.sqlite.dialect",
    "ktx_cli.warehouses.worker.session",
    "anyio._backends._asyncio",
    "h11",
    "httpcore2",
    "huggingface_hub._snapshot_download",
    "questionary",
    "truststore",
)
"""What other runs of the tests import late."""

_SPAWNING: Final = ("ktx_cli.jobs.serve.daemon", "ktx_cli.jobs.serve.runs")
"""What starts processes of ktx."""

INSTALLED: Final = "INSTALLED"
"""The variable with which a run starts the installed ktx, as it does where no test looks on."""

_CODES: Final[list[object]] = []
"""The exit code of the run in this process, once it is known."""

_ROOT: Final = str(Path(__file__).parents[2])
_START: Final = f"import sys; sys.path.insert(0, {_ROOT!r}); from tests.worlds.forks import _serve; _serve()"

_RIGHTS: Final = (1, 2, 3)
"""CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH and CAP_FOWNER."""

_PR_CAPBSET_DROP: Final = 24
_CAPABILITY_VERSION_3: Final = 0x20080522

_TURN_SECONDS: Final = 0.05
"""How long one who waits for a child may keep others from asking for a new one."""


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


class Parent:
    """The process that forks, with what it has said of its children. Any thread may ask it and wait for them."""

    def __init__(self, modules: Sequence[str], before: Sequence[str] = ()) -> None:
        forked = "" if before else shared_workers()  # workers are none of what that program starts
        command = [*before, sys.executable, "-P", "-c", _START, forked, *modules]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
        self._ended: dict[int, int] = {}
        self._lock = threading.Lock()
        self.address = self._line().split()[1]

    def fork(self, asked: Mapping[str, Any]) -> int:
        """Return the process id of a new child."""
        with self._lock:
            assert self._process.stdin is not None
            self._process.stdin.write(json.dumps(asked).encode() + b"\n")
            while (words := self._line().split())[0] != "begun":
                self._note(words)
            pid = int(words[1])
            self._ended.pop(pid, None)  # of an earlier child: the system gives the ids of ended processes out again
            return pid

    def end_of(self, pid: int, timeout: float | None) -> int | None:
        """Return the exit code of a child, below zero where a signal ended it; None where it runs after the timeout."""
        deadline = math.inf if timeout is None else time.monotonic() + timeout
        while True:
            with self._lock:
                left = max(0.0, min(_TURN_SECONDS, deadline - time.monotonic()))
                if pid not in self._ended and select.select([self._process.stdout], [], [], left)[0]:
                    self._note(self._line().split())
                if pid in self._ended or time.monotonic() >= deadline:
                    return self._ended.get(pid)

    def close(self) -> None:
        """End it; children that run go on."""
        self._process.communicate()

    def _line(self) -> str:
        assert self._process.stdout is not None  # not buffered: what was said and not read is in the pipe
        line: bytes = self._process.stdout.readline()
        if not line:
            raise RuntimeError("the process that forks ended: its standard error says why")
        return line.decode()

    def _note(self, words: Sequence[str]) -> None:
        _, pid, status = words
        self._ended[int(pid)] = int(status)


@dataclass(slots=True)
class Fork:
    """A run in a fork: as much of a `subprocess.Popen` as those need who start it."""

    pid: int
    _parent: Parent
    stdin: IO[str] | None = None
    stdout: IO[str] | None = None
    stderr: IO[str] | None = None
    _status: int | None = None

    @property
    def returncode(self) -> int | None:
        """Its exit code; None while it runs."""
        return self.poll()

    def communicate(self, input: str = "", timeout: float | None = None) -> tuple[str, str]:
        """Write to its input, read its outputs to their ends, wait; raises `subprocess.TimeoutExpired`."""
        assert self.stdin is not None and self.stdout is not None and self.stderr is not None
        with contextlib.suppress(BrokenPipeError), self.stdin as stdin:
            stdin.write(input)
        with ThreadPoolExecutor(2) as readers, self.stdout as stdout, self.stderr as stderr:
            reading = [readers.submit(each.read) for each in (stdout, stderr)]
            try:
                self.wait(timeout)
            except subprocess.TimeoutExpired:
                self.kill()
                raise
            out, err = (each.result() for each in reading)
        return out, err

    def poll(self) -> int | None:
        """Return its exit code, below zero where a signal ended it; None while it runs."""
        return self._end(0)

    def wait(self, timeout: float | None = None) -> int:
        """Return its exit code, below zero where a signal ended it; raises `subprocess.TimeoutExpired`."""
        status = self._end(timeout)
        if status is None:
            raise subprocess.TimeoutExpired("ktx", timeout or 0)
        return status

    def _end(self, timeout: float | None) -> int | None:
        if self._status is None:
            self._status = self._parent.end_of(self.pid, timeout)
        return self._status

    def send_signal(self, number: int) -> None:
        """Send it a signal, if it runs."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """End it with SIGKILL."""
        self.send_signal(signal.SIGKILL)


class Spawned(Child):
    """What a `subprocess.Popen` is to `ktx_cli.jobs.serve`: `python -P -m MODULE ...`, as a fork of the parent."""

    def __init__(
        self,
        address: str,
        command: Sequence[str],
        *,
        cwd: Path,
        stdin: int,
        stdout: IO[bytes] | int,
        stderr: IO[bytes],
        start_new_session: bool,
        env: Mapping[str, str] | None = None,
    ) -> None:
        python, isolation, option, module, *arguments = command
        assert (python, isolation, option, start_new_session) == (sys.executable, "-P", "-m", True), command
        self.stdin, read = _pipe_to() if stdin == subprocess.PIPE else (None, os.open(os.devnull, os.O_RDONLY))
        self.stdout, written = _pipe_from() if isinstance(stdout, int) else (None, os.dup(stdout.fileno()))
        environ = dict(os.environ if env is None else env)
        asked = {"module": module, "arguments": arguments, "folder": str(cwd), "environ": environ}
        super().__init__(address, asked, [read, written, stderr.fileno()])
        os.close(read), os.close(written)


def _pipe_to() -> tuple[IO[bytes], int]:
    read, written = os.pipe()
    return os.fdopen(written, "wb"), read


def _pipe_from() -> tuple[IO[bytes], int]:
    read, written = os.pipe()
    return os.fdopen(read, "rb"), written


def _spawned(address: str, command: Sequence[str], **streams: Any) -> Any:
    is_installed = address == "-" or INSTALLED in os.environ
    return subprocess.Popen(command, **streams) if is_installed else Spawned(address, command, **streams)


class Forks:
    """A context manager; called, it starts a run as `Starter` says.

    `modules` are loaded beside what most commands import late; `before` is a program that starts them all, and its
    arguments.
    """

    def __init__(self, *modules: str, before: Sequence[str] = ()) -> None:
        self._modules = modules
        self._before = before
        self._parent: Parent | None = None

    def __enter__(self) -> Forks:
        self._parent = Parent(self._modules, self._before)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._parent is not None:
            self._parent.close()

    def __call__(
        self, arguments: Sequence[str], *, folder: Path, environ: Mapping[str, str], said: Path, unread: bool = False
    ) -> Fork:
        """Start `ktx` in a fork; `unread`: the reader of its standard output is gone, and `said` gets its errors."""
        streams = {"said": str(said), "unread": unread}
        return self._start({"arguments": list(arguments), "folder": str(folder), "environ": dict(environ), **streams})

    def run(
        self,
        arguments: Sequence[str],
        *,
        folder: Path,
        environ: Mapping[str, str],
        input: str = "",
        timeout: float | None = None,
        bound: bool = False,
        to: Path | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """Run `ktx` in a fork to its end; return its exit code and what it wrote to its two outputs.

        `bound`: permissions of files bind it, though it is root's. `to`: a file in place of its standard output.
        """
        run = self.piped(arguments, folder=folder, environ=environ, bound=bound, to=to)
        out, err = run.communicate(input, timeout)
        return subprocess.CompletedProcess(["ktx", *arguments], run.wait(), out, err)

    def piped(
        self,
        arguments: Sequence[str],
        *,
        folder: Path,
        environ: Mapping[str, str],
        bound: bool = False,
        to: Path | None = None,
    ) -> Fork:
        """Start `ktx` in a fork whose three streams are pipes to this process, but for an output `to` a file."""
        with tempfile.TemporaryDirectory(prefix="fork-") as place:
            stdin, *outputs = at = [Path(place, name) for name in ("stdin", "stdout", "stderr")]
            for each in at:
                os.mkfifo(each, 0o600)
            # Nobody writes yet, and who waits for that would wait for a child that is not there.
            reading = [os.open(each, os.O_RDONLY | os.O_NONBLOCK) for each in outputs]
            streams = {"streams": [str(each) for each in (stdin, to or outputs[0], outputs[1])], "bound": bound}
            asked = {"arguments": list(arguments), "folder": str(folder), "environ": dict(environ), **streams}
            run = self._start(asked)
            run.stdin = stdin.open("w", encoding="utf-8")  # which waits until all three are open there
            for each in reading:
                os.set_blocking(each, True)
            run.stdout, run.stderr = (os.fdopen(each, encoding="utf-8") for each in reading)
        return run

    def spawning(self) -> Subprocess:
        """Return what stands for `subprocess` where ktx starts processes of ktx: they are forks."""
        if self._parent is None:
            raise RuntimeError("enter it first")
        return Subprocess(functools.partial(_spawned, self._parent.address))

    def at_terminal(
        self,
        arguments: Sequence[str],
        *,
        folder: Path,
        environ: Mapping[str, str],
        terminal: str,
        out: Path | None = None,
    ) -> Fork:
        """Start `ktx` in a fork with the terminal of that name as its own; `out`: a file in place of its output."""
        asked = {"arguments": list(arguments), "folder": str(folder), "environ": dict(environ), "terminal": terminal}
        return self._start({**asked, "out": None if out is None else str(out)})

    def _start(self, asked: Mapping[str, Any]) -> Fork:
        if self._parent is None:
            raise RuntimeError("enter it first")
        return Fork(self._parent.fork(asked), self._parent)


@functools.cache
def shared() -> Forks:
    """Return the one that all tests of this process share; it begins with its first use, see `leave_shared`."""
    return Forks(*_SHARED, *_SPAWNING).__enter__()


def leave_shared() -> None:
    """End the one all share, if there is one."""
    if shared.cache_info().currsize:
        shared().__exit__(None, None, None)
        shared.cache_clear()
    workers.leave_shared()


def _serve() -> None:
    """Say that all is loaded; fork for every line of the input and print the id of the child, and its end later."""
    atexit.register(_end)  # before all others, so it runs after them
    for name in (*_LOADED, *sys.argv[2:]):
        importlib.import_module(name)
    fork_workers(sys.argv[1])
    asked = Asked()
    for name in _SPAWNING:
        if name in sys.modules:
            vars(sys.modules[name])["subprocess"] = Subprocess(functools.partial(_spawned, asked.address or "-"))
    gc.collect()
    gc.freeze()
    wake, woken = os.pipe()
    os.set_blocking(woken, False)
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    signal.set_wakeup_fd(woken)
    print("loaded", asked.address or "-", flush=True)
    rest = b""
    while True:
        ready, _, _ = select.select([0, wake, asked], [], [])
        if wake in ready:
            os.read(wake, 4096)
            _reap(asked)
        if asked in ready and asked.fork(lambda run, streams: _become(run, lambda: streams), (wake, woken)):
            return
        if 0 in ready:
            part = os.read(0, 1 << 16)
            if not part:
                return
            *lines, rest = (rest + part).split(b"\n")
            for line in lines:
                if _fork(json.loads(line), (wake, woken, *asked.open())):
                    return


def _reap(asked: Asked) -> None:
    """Tell how every child ended that did: who asked for it, the standard output where nobody else did."""
    with contextlib.suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            status = os.waitstatus_to_exitcode(ended[1])
            if not asked.ended(ended[0], status):
                print("ended", ended[0], status, flush=True)


def _fork(asked: Mapping[str, Any], own: Sequence[int]) -> bool:
    """Fork and print the child's id; return whether this is the child, after its run."""
    # Open before anybody who waits for its end closes the other one they have.
    terminal = os.open(asked["terminal"], os.O_RDWR | os.O_NOCTTY) if "terminal" in asked else None
    pid = child(own)
    if pid == 0:
        _become(asked, lambda: _streams(asked) if terminal is None else _of_terminal(terminal, asked["out"]))
        return True
    if terminal is not None:
        os.close(terminal)
    print("begun", pid, flush=True)
    return False


def _become(asked: Mapping[str, Any], opened: Callable[[], Sequence[int]]) -> None:
    """Carry out the run in this process, its streams from `opened`; its end is the end of the process."""
    os.setsid()
    os.chdir(asked["folder"])
    os.environ.clear()
    os.environ.update(asked["environ"])
    if "PYTHONPATH" in asked["environ"]:
        _find_packages(asked["environ"]["PYTHONPATH"])
    streams = opened()
    for target, source in enumerate(streams):
        os.dup2(source, target)
    for each in set(streams):
        os.close(each)
    # New ones: those of the parent know whether its own could seek.
    taken = (sys.stdin.errors, sys.stdout.errors, "backslashreplace")
    sys.stdin, sys.stdout, sys.stderr = (
        os.fdopen(at, "r" if at == 0 else "w", errors=errors, closefd=False) for at, errors in enumerate(taken)
    )
    sys.stderr.reconfigure(line_buffering=True)
    if asked.get("bound"):
        _give_up_capabilities()
        start_workers()  # who forks them has all rights
    sys.argv = [str(Path(sys.executable).with_name("ktx")), *asked["arguments"]]
    module = asked.get("module", "ktx_cli")
    try:
        importlib.import_module("ktx_cli.cli.main" if module == "ktx_cli" else module).main()
    except SystemExit as end:
        _CODES.append(end.code)
        raise
    _CODES.append(0)


def _end() -> None:
    """End a run where its Python would begin to take apart all modules, and copy nearly all memory of the parent."""
    code = _CODES[0] if _CODES else None
    if not isinstance(code, int):  # the parent, or a run that ends in another way
        return
    try:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
    except (OSError, ValueError):  # Python has words and a code of its own for that
        return
    os._exit(code)


def _find_packages(path: str) -> None:
    """Have the packages in folders as Python has them that starts with `PYTHONPATH`."""
    from ktx_cli.project.plugins import forget_plugins

    sys.path[1:1] = path.split(os.pathsep)
    forget_plugins()


def _streams(asked: Mapping[str, Any]) -> tuple[int, int, int]:
    if "streams" in asked:
        given, *outputs = asked["streams"]
        out, err = (os.open(each, os.O_WRONLY) for each in outputs)
        return os.open(given, os.O_RDONLY), out, err
    said = os.open(asked["said"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    return os.open(os.devnull, os.O_RDONLY), _without_a_reader() if asked["unread"] else said, said


def _give_up_capabilities() -> None:
    """Have permissions of files bind this process and its programs: Linux alone, where root begins with all rights."""
    libc = ctypes.CDLL(None, use_errno=True)
    for number in _RIGHTS:
        if libc.prctl(_PR_CAPBSET_DROP, number, 0, 0, 0):
            raise OSError(ctypes.get_errno(), "prctl")
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
    data = (ctypes.c_uint32 * 6)()  # effective, permitted and inheritable, twice
    if libc.capget(header, data):
        raise OSError(ctypes.get_errno(), "capget")
    for each in range(3):
        data[each] &= ~sum(1 << number for number in _RIGHTS)
    if libc.capset(header, data):
        raise OSError(ctypes.get_errno(), "capset")


def _of_terminal(terminal: int, out: str | None) -> tuple[int, int, int]:
    fcntl.ioctl(terminal, termios.TIOCSCTTY, 0)
    return terminal, terminal if out is None else os.open(out, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), terminal


def _without_a_reader() -> int:
    """Return the end of a pipe to write to, whose other end is closed."""
    reading, writing = os.pipe()
    os.close(reading)
    return writing
