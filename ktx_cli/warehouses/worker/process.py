"""Start, limit and end the processes that run statements, and keep some of them for the next connection."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import threading
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import ktx_cli
from ktx_cli.core import monotonic
from ktx_cli.warehouses.worker.wire import OUT_OF_MEMORY, WireError, packed, unpacked

MEMORY_BYTES = 2 * 1024 * 1024 * 1024
"""The memory limit of a worker, including its entire address space."""

GRACE_SECONDS = 1.0
"""How long a statement may take to end after an interrupt before its worker is killed."""

START_SECONDS: Final = 30.0
"""How long a worker may take to start and to open a database."""

SPARE_SECONDS: Final = 300.0
"""How long a worker waits for the next connection to the database that it last had open."""

MOST_SPARES: Final = 4
"""The maximum number of waiting workers."""

SPARE_BYTES: Final = 512 * 1024 * 1024
"""The maximum memory use of a worker that is kept, because an engine does not release all of its memory."""

LIMITED_BY_SYSTEM = sys.platform.startswith("linux")
"""Whether the system enforces a memory limit; elsewhere, a worker checks its own ten times a second."""

_START: Final = "import sys; sys.path += sys.argv[5:]; from ktx_cli.warehouses.worker.child import main; main()"
CHANNELS: Final = {"duckdb": 4}
"""The number of concurrent statements per worker, by engine, which matches a scan's requests."""

_KEPT: Final = ("TZ", "LANG", "TMPDIR", "SQLITE_TMPDIR", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")
_DEFERRED: Final = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP}
_PIPE_BYTES: Final = 1024 * 1024
_F_SETPIPE_SZ: Final = 1031
_SMALL_BYTES: Final = 1024 * 1024
_LOOK_SECONDS: Final = 0.25


class EngineError(Exception):
    """An error that an engine raised in a worker. `kind`: the name of its class. `code`: SQLite's name for the error.

    `used_before`: the worker had run other statements, whose memory it may still have held.
    """

    used_before = False

    def __init__(self, engine: str, kind: str, message: str, code: str = "", *, interrupted: bool = False) -> None:
        super().__init__(message)
        self.engine = engine
        self.kind = kind
        self.code = code
        self.interrupted = interrupted

    @property
    def is_out_of_memory(self) -> bool:
        """Whether the engine, or Python in the worker, ran out of memory."""
        return self.kind in ("OutOfMemoryException", "MemoryError") or self.code.startswith("SQLITE_NOMEM")

    @property
    def leaves_damage(self) -> bool:
        """Whether the worker must not be reused."""
        return self.is_out_of_memory or self.kind in ("FatalException", "InternalException")


class WorkerEndedError(EngineError):
    """Raised if the worker ended or was killed during a request. `interrupted`: whether this was because of its time
    limit.

    `alone`: no other request can have been the cause.
    """

    def __init__(self, engine: str, kind: str, message: str, *, interrupted: bool = False, alone: bool = True) -> None:
        super().__init__(engine, kind, message, interrupted=interrupted)
        self.alone = alone

    @property
    def leaves_damage(self) -> bool:
        """See `EngineError`."""
        return True


@dataclass(slots=True)
class _Request:
    """A running request: its interrupt time, the time to kill its worker, and the bytes that its result may still have.

    `interrupted`: whether it was. `shared`: another request ran at some time, which may have ended the worker.
    """

    number: int
    soft: float
    hard: float
    left: int
    interrupted: bool = False
    shared: bool = False


class WorkerProcess:
    """A running worker, which accepts as many concurrent requests, from any thread, as it has channels."""

    def __init__(self, engine: str) -> None:
        self.engine = engine
        pipes = [os.pipe() for _ in range(1 + 2 * CHANNELS.get(engine, 1))]
        (control_end, self._control), *rest = pipes
        theirs = [control_end]
        self._free: list[tuple[int, int]] = []
        for (request_end, request), (answer, answer_end) in zip(rest[::2], rest[1::2], strict=True):
            theirs += [request_end, answer_end]
            self._free.append((request, answer))
        ours = [self._control, *(each for pair in self._free for each in pair)]
        try:
            self._process = _started(theirs)
        except BaseException:
            _close(ours)
            raise
        finally:
            _close(theirs)
        for _, answer in self._free:
            _widen(answer)
        self._running: dict[int, _Request] = {}
        self._number = 0
        self._is_retired = False
        self._changed = threading.Condition()
        self._finalizer = weakref.finalize(self, _end, self._process, ours)

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        """Whether requests can be sent."""
        return not self._is_retired and self._process.poll() is None

    def request(
        self, operation: str, argument: Any, seconds: float, *, max_bytes: int = _SMALL_BYTES
    ) -> Iterator[tuple[str, Any]]:
        """Yield the messages of a result with at most `max_bytes`, ending with `("done", value)`.

        Raises `EngineError`. After a `WorkerEndedError`, and if the caller does not take all messages, the process is
        ended.
        """
        channel, request = self._begun(seconds, max_bytes)
        finished = False
        try:
            self._write(channel[0], packed((request.number, operation, argument, seconds)), request)
            while not finished:
                message = self._message(channel[1], request)
                finished = message[0] in ("done", "error")
                if message[0] == "error":
                    kind, text, code, interrupted = message[1:]
                    raise EngineError(self.engine, kind, text, code, interrupted=interrupted)
                yield message[0], message[1]
        except (WireError, ValueError, TypeError, IndexError) as error:
            raise WorkerEndedError(self.engine, "WireError", f"its result cannot be read: {error}") from error
        finally:
            with self._changed:
                del self._running[request.number]
                self._free.append(channel)
                self._changed.notify_all()
                is_over = not finished or (self._is_retired and not self._running)
            if is_over:
                self.kill()

    def interrupt(self) -> None:
        """Make the running requests fail; harmless if there are none."""
        with self._changed:
            for request in self._running.values():
                request.hard = min(request.hard, monotonic() + GRACE_SECONDS)
                self._tell_to_stop(request)

    def retire(self) -> None:
        """End the process when the running requests are done."""
        with self._changed:
            self._is_retired = True
            is_over = not self._running
        if is_over:
            self.kill()

    def kill(self) -> None:
        """End the process immediately; calling this twice is harmless."""
        if self._finalizer.alive:
            self._process.kill()
        with self._changed:
            self._is_retired = True
            # Its files are closed when nobody reads them any more, because their numbers are reused.
            is_over = not self._running
        if is_over:
            self._finalizer()

    def _begun(self, seconds: float, max_bytes: int) -> tuple[tuple[int, int], _Request]:
        """Return a free channel and the new request's state."""
        with self._changed:
            while not self._free and not self._is_retired:
                self._changed.wait()
            if self._is_retired:
                raise WorkerEndedError(self.engine, "Killed", "it was ended", alone=False)
            channel = self._free.pop()
            self._number += 1
            soft = monotonic() + seconds
            request = _Request(self._number, soft, soft + GRACE_SECONDS, max_bytes, shared=bool(self._running))
            for other in self._running.values():
                other.shared = True
            self._running[request.number] = request
            return channel, request

    def _tell_to_stop(self, request: _Request) -> None:
        request.interrupted = True
        try:
            os.write(self._control, request.number.to_bytes(8, "big"))
        except OSError:  # It has ended.
            return

    def _write(self, pipe: int, data: bytes, request: _Request) -> None:
        view = memoryview(data)
        try:
            while view:
                view = view[os.write(pipe, view) :]
        except OSError as error:
            raise self._ended(request) from error

    def _message(self, pipe: int, request: _Request) -> Any:
        length = int.from_bytes(self._read(pipe, 4, request), "big")
        request.left -= length
        if request.left < 0:
            raise WireError("it exceeds the maximum length")
        return unpacked(self._read(pipe, length, request))

    def _read(self, pipe: int, size: int, request: _Request) -> bytearray:
        data = bytearray()
        while len(data) < size:
            self._await(pipe, request)
            part = os.read(pipe, size - len(data))
            if not part:
                raise self._ended(request)
            data += part
        return data

    def _await(self, pipe: int, request: _Request) -> None:
        """Wait until there is data to read; interrupt the request at its time limit, then kill the worker."""
        poll = select.poll()
        poll.register(pipe, select.POLLIN)
        while True:
            now = monotonic()
            if now >= request.hard:
                raise WorkerEndedError(self.engine, "Killed", "it did not end in time", interrupted=True)
            if now >= request.soft and not request.interrupted:
                self._tell_to_stop(request)
            wait = (request.hard if request.interrupted else request.soft) - now
            # In short intervals, because another thread may interrupt meanwhile.
            if poll.poll(max(0.0, min(wait, _LOOK_SECONDS)) * 1000):
                return

    def _ended(self, request: _Request) -> WorkerEndedError:
        """Return the error for a request whose worker ended."""
        alone = not request.shared
        try:
            code = self._process.wait(GRACE_SECONDS)
        except subprocess.TimeoutExpired:
            code = 0
        if code == -signal.SIGALRM:
            return WorkerEndedError(self.engine, "SIGALRM", "it did not end in time", interrupted=True, alone=alone)
        if code in (OUT_OF_MEMORY, -signal.SIGKILL):
            return WorkerEndedError(self.engine, "MemoryError", "it was ended because of its memory use", alone=alone)
        name = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        return WorkerEndedError(self.engine, name, f"it ended unexpectedly ({name})", alone=alone)


def _started(pipes: Sequence[int]) -> subprocess.Popen[bytes]:
    """Start a worker with its pipe ends: one for control, then two per channel."""
    # The worker can import what the parent can, except for what is in the current folder.
    places = dict.fromkeys([str(Path(ktx_cli.__file__).parent.parent), *filter(os.path.isabs, sys.path)])
    options = ["-I", "-S", *(["-B"] if sys.dont_write_bytecode else [])]
    control, *channels = map(str, pipes)
    arguments = [control, str(MEMORY_BYTES), str(int(not LIMITED_BY_SYSTEM)), ",".join(channels)]
    before = signal.pthread_sigmask(signal.SIG_BLOCK, _DEFERRED)
    try:
        # Blocked signals stay blocked in the worker: Ctrl-C and SIGTERM of the process group are handled by ktx.
        return subprocess.Popen(
            [sys.executable, *options, "-c", _START, *arguments, *places],
            # What an engine prints must not mix with the messages or with ktx's output.
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            env=_environment(os.environ),
            pass_fds=pipes,
        )
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return a worker's environment: no secrets, and few malloc arenas, which use address space."""
    kept = {name: value for name, value in environ.items() if name in _KEPT or name.startswith("LC_")}
    return {**kept, "MALLOC_ARENA_MAX": "2"}


def _widen(pipe: int) -> None:
    try:
        import fcntl

        fcntl.fcntl(pipe, _F_SETPIPE_SZ, _PIPE_BYTES)
    except OSError:  # Not Linux, or the user has no more pipe capacity.
        return


def _close(pipes: Iterable[int]) -> None:
    for pipe in pipes:
        os.close(pipe)


def _end(process: subprocess.Popen[bytes], pipes: Iterable[int]) -> None:
    process.kill()
    _close(pipes)
    process.wait()


class Spares:
    """Workers without an open database that wait for the next connection to the one that they last had open."""

    def __init__(self) -> None:
        self._waiting: list[tuple[str, WorkerProcess, float]] = []
        self._lock = threading.Lock()
        self._sweeper: threading.Timer | None = None

    def take(self, key: str) -> WorkerProcess | None:
        """Return a worker that had this database open, or None if there is none."""
        with self._lock:
            for place, (name, process, _) in enumerate(self._waiting):
                if name == key:
                    del self._waiting[place]
                    return process
        return None

    def keep(self, key: str, process: WorkerProcess) -> None:
        """Make a worker wait, and if there are too many, end the one that has waited longest."""
        with self._lock:
            self._waiting.append((key, process, monotonic()))
            gone = [self._waiting.pop(0)] if len(self._waiting) > MOST_SPARES else []
            self._sweep_later()
        for _, old, _ in gone:
            old.kill()

    def clear(self) -> None:
        """End all waiting workers."""
        with self._lock:
            gone, self._waiting = self._waiting, []
            if self._sweeper is not None:
                self._sweeper.cancel()
                self._sweeper = None
        for _, old, _ in gone:
            old.kill()

    def _sweep_later(self) -> None:
        if self._sweeper is None:
            self._sweeper = threading.Timer(SPARE_SECONDS, self._sweep)
            self._sweeper.daemon = True
            self._sweeper.start()

    def _sweep(self) -> None:
        until = monotonic() - SPARE_SECONDS
        with self._lock:
            gone = [each for each in self._waiting if each[2] <= until]
            self._waiting = [each for each in self._waiting if each[2] > until]
            self._sweeper = None
            if self._waiting:
                self._sweep_later()
        for _, old, _ in gone:
            old.kill()


SPARES: Final = Spares()
"""This process's waiting workers."""
