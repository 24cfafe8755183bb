"""The program of a worker: reads requests, runs them, one at a time on each channel, and sends the answers.

It ends when ktx does, whatever ktx died of: the other end of its pipes is then gone. A statement cannot keep it from
that, because it runs without Python's lock, and the system's alarm ends the process soon after the statement's time.
"""

from __future__ import annotations

import gc
import os
import resource
import select
import signal
import sys
import threading
import time
from typing import Any, Final

from ktx_cli.warehouses.worker.engines import ENGINES, Engine, Send
from ktx_cli.warehouses.worker.wire import OUT_OF_MEMORY, packed, unpacked

_ALARM_SECONDS: Final = 5.0
_AGAIN_MILLISECONDS: Final = 50
_LOOK_MILLISECONDS: Final = 100
_FLUSH_BYTES: Final = 64 * 1024
_MESSAGE: Final = 20_000


class Worker:
    """One worker: its engine, its limits, and until when each request under way may take, one a channel at most."""

    def __init__(self, control: int, memory: int, looks: bool) -> None:
        self.memory = memory
        self.looks = looks
        self.control = control
        self.engine: Engine | None = None
        self.running: dict[int, float] = {}
        self.interrupted: set[int] = set()
        self.lock = threading.Lock()

    def bound(self) -> None:
        """Take on the limits that hold for every engine."""
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGALRM})
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if not self.looks:
            resource.setrlimit(resource.RLIMIT_AS, (self.memory, self.memory))
        try:
            # Where the machine itself runs out, the worker goes first, not a program of the user's.
            with open("/proc/self/oom_score_adj", "w") as stream:  # noqa: PTH123 (pathlib takes time to import)
                stream.write("1000")
        except OSError:
            pass

    def watch(self) -> None:
        """Interrupt the requests that the control pipe names, and end with ktx."""
        poll = select.poll()
        poll.register(self.control, select.POLLIN)
        while True:
            with self.lock:
                pending = self.interrupted & self.running.keys()
            wait = _AGAIN_MILLISECONDS if pending else _LOOK_MILLISECONDS if self.looks else None
            if poll.poll(wait):
                number = os.read(self.control, 8)
                if len(number) < 8:
                    os._exit(0)
                self.interrupted.add(int.from_bytes(number, "big"))
            if self.looks and peak_bytes() > self.memory:
                os._exit(OUT_OF_MEMORY)
            if self.engine is not None:
                with self.lock:
                    pending = self.interrupted & self.running.keys()
                for request in pending:
                    self.engine.interrupt(request)

    def begin(self, number: int, seconds: float) -> None:
        """Note a request and how long it may take."""
        with self.lock:
            self.running[number] = time.monotonic() + seconds + _ALARM_SECONDS
            self._set_alarm()

    def end(self, number: int) -> None:
        """Note that a request is done."""
        with self.lock:
            del self.running[number]
            self.interrupted.discard(number)
            self._set_alarm()

    def _set_alarm(self) -> None:
        """Have the system end the process when ktx has not: it may be gone."""
        last = max(self.running.values(), default=0.0)
        signal.setitimer(signal.ITIMER_REAL, max(0.001, last - time.monotonic()) if last else 0)

    def run(self, number: int, operation: str, argument: Any, send: Send) -> Any:
        """Do what a request asks for and return its result; `send` takes what comes before that."""
        if operation == "open":
            name, settings = argument
            if self.engine is None:
                self.engine = ENGINES[name]()
                resource.setrlimit(resource.RLIMIT_FSIZE, (self.engine.file_bytes, self.engine.file_bytes))
            return self.engine.open(settings)
        if operation == "head":
            return _head(*argument)
        if operation == "close":
            if self.engine is not None:
                self.engine.close()
            return peak_bytes()
        if self.engine is None:
            raise RuntimeError("nothing is open")
        return self.engine.execute(number, argument, send)

    def described(self, error: BaseException) -> tuple[str, str, str, bool]:
        """Return what ktx needs to know of an error."""
        interrupted = self.engine is not None and self.engine.is_interrupt(error)
        return type(error).__name__, str(error)[:_MESSAGE], str(getattr(error, "sqlite_errorname", "")), interrupted


class Channel:
    """A pipe of requests and one of answers; what is asked on it is done one after the other."""

    def __init__(self, worker: Worker, requests: int, answers: int) -> None:
        self.worker = worker
        self.requests = requests
        self.answers = answers
        self.waiting = bytearray()

    def serve(self) -> None:
        """Answer requests until ktx is gone."""
        try:
            while True:
                self._answer(*unpacked(self._read(int.from_bytes(self._read(4), "big"))))
        except BaseException:  # noqa: BLE001 (nobody reads a traceback; ktx sees the pipe close)
            os._exit(1)

    def _answer(self, number: int, operation: str, argument: Any, seconds: float) -> None:
        self.worker.begin(number, seconds)
        try:
            answer: tuple[Any, ...] = ("done", self.worker.run(number, operation, argument, self._send))
        except BaseException as error:  # noqa: BLE001 (ktx is told of all of them)
            answer = ("error", *self.worker.described(error))
        self.worker.end(number)
        self._send(answer)
        self._flush()

    def _send(self, message: Any, simple: bool = False) -> None:
        self.waiting += packed(message, simple=simple)
        if len(self.waiting) >= _FLUSH_BYTES:
            self._flush()

    def _flush(self) -> None:
        view = memoryview(self.waiting)
        sent = 0
        while sent < len(view):
            sent += os.write(self.answers, view[sent:])
        view.release()
        self.waiting.clear()

    def _read(self, size: int) -> bytes:
        parts = b""
        while len(parts) < size:
            part = os.read(self.requests, size - len(parts))
            if not part:
                os._exit(0)
            parts += part
        return parts


def _head(path: str, size: int) -> bytes:
    file = os.open(path, os.O_RDONLY)
    try:
        return os.read(file, size)
    finally:
        os.close(file)


def peak_bytes() -> int:
    """Return how much memory the process has held at most.

    On Linux `ru_maxrss` begins with what ktx held when it started the process. macOS counts it in bytes.
    """
    try:
        with open("/proc/self/status", "rb") as stream:  # noqa: PTH123
            status = stream.read()
        return int(status.partition(b"VmHWM:")[2].split(None, 1)[0]) * 1024
    except (OSError, IndexError):
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def main() -> None:
    """Serve. Arguments: control pipe, limit of memory, whether to look at the memory, and two pipes a channel."""
    gc.set_threshold(50_000, 20, 50)  # rows are many objects, and none of them goes round in circles
    control, memory, looks = map(int, sys.argv[1:4])
    pipes = [int(each) for each in sys.argv[4].split(",")]
    worker = Worker(control, memory, bool(looks))
    worker.bound()
    for requests, answers in zip(pipes[::2], pipes[1::2], strict=True):
        threading.Thread(target=Channel(worker, requests, answers).serve, daemon=True).start()
    worker.watch()
