"""The program of a worker, which reads requests, runs them on DuckDB or SQLite, and sends the results.

Requests run one at a time on each channel. The worker ends when ktx does, for whatever reason: the other end of its
pipes is then closed. A statement cannot prevent that, because it runs without Python's lock, and the system's alarm
ends the process soon after the statement's time limit.

Nothing of ktx except `wire` is imported here, and of an engine only its native module, because a worker is started for
every command that reads such a database.
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
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any, Final, Protocol

from ktx_cli.warehouses.worker.wire import OUT_OF_MEMORY, packed, row_memory, unpacked


class Send(Protocol):
    """Sends a part of the result. `simple`: see `wire.packed`."""

    def __call__(self, message: Any, simple: bool = False) -> None:
        """Send the part."""
        ...


_ZONED: Final = "TIMESTAMP WITH TIME ZONE"
_SIMPLE: Final = frozenset(
    {"TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT", "UHUGEINT"}
    | {"FLOAT", "DOUBLE", "VARCHAR", "BOOLEAN", "BLOB"}
)
_BATCH_ROWS: Final = 1024
_BATCH_BYTES: Final = 1024 * 1024


class NotReadingError(Exception):
    """Raised for a statement that does more than read; its message is a subject with a verb."""


class Engine(Protocol):
    """A session in one engine."""

    file_bytes: int
    """The maximum size of a file that the engine may write."""

    def open(self, settings: Mapping[str, Any]) -> str:
        """Open the database and return the engine's version."""
        ...

    def execute(self, number: int, statement: Mapping[str, Any], send: Send) -> bool:
        """Run a statement, send its columns and rows, and return whether there were more rows.

        If columns are sent again, the result starts over.
        """
        ...

    def interrupt(self, number: int) -> None:
        """Make a running statement fail; called by another thread."""
        ...

    def is_interrupt(self, error: BaseException) -> bool:
        """Return whether an error comes from `interrupt`."""
        ...

    def close(self) -> None:
        """Close the database."""
        ...


class DuckDbEngine:
    """DuckDB. Several threads may run statements.

    Every statement has a cursor of its own, so temporary objects, variables and `USE` do not outlive it.
    """

    file_bytes = 0

    def __init__(self) -> None:
        from importlib import import_module

        try:
            # The Python package around it takes three times as long to import.
            self._native: Any = import_module("_duckdb")
        except ImportError:  # DuckDB 1.4.0 has it elsewhere.
            self._native = import_module("duckdb")
        self._connection: Any = None
        self._running: dict[int, Any] = {}

    def open(self, settings: Mapping[str, Any]) -> str:
        """See `Engine`. `statements` are run, with their parameters, before the session counts as open.

        `filesystems`: modules whose function `filesystem` makes one for DuckDB, and its argument.
        """
        connection = self._native.connect(
            settings["path"], read_only=settings["read_only"], config=dict(settings["config"])
        )
        for module, argument in settings.get("filesystems", ()):
            from importlib import import_module

            connection.register_filesystem(import_module(module).filesystem(argument))
        for sql, parameters in settings["statements"]:
            connection.execute(sql, parameters)
        self._connection = connection
        return str(self._native.__version__)

    def execute(self, number: int, statement: Mapping[str, Any], send: Send) -> bool:
        """See `Engine`. Times with a zone are returned in UTC."""
        cursor = self._running[number] = self._connection.cursor()
        try:
            sql, parameters = statement["sql"], statement["parameters"]
            if statement["reading"]:
                sql = self._reading(cursor, sql, statement["explained"])
            cursor.execute(sql, parameters)
            description = cursor.description or ()
            types = [str(each[1]) for each in description]
            send(("columns", tuple(each[0] for each in description)))
            if not any(_ZONED in kind for kind in types):
                return _send_rows(cursor.fetchmany, statement, send, simple=_SIMPLE.issuperset(types))
            # Fetching such a value needs the package pytz, so DuckDB converts it to UTC, or to text inside nested
            # values.
            cursor.execute(_without_zones(sql, types), parameters)
            return _send_rows(_in_utc(cursor.fetchmany, types), statement, send)
        finally:
            del self._running[number]
            cursor.close()

    def interrupt(self, number: int) -> None:
        """See `Engine`."""
        running = self._running.get(number)
        try:
            if running is not None:
                running.interrupt()
        except self._native.Error:  # It was closed meanwhile.
            return

    def is_interrupt(self, error: BaseException) -> bool:
        """See `Engine`."""
        return isinstance(error, self._native.InterruptException)

    def close(self) -> None:
        """See `Engine`."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _reading(self, cursor: Any, sql: str, explained: str | None) -> str:
        """Return the text of a single read-only statement, without anything after its semicolon."""
        # For files, this is the barrier: COPY and ATTACH may write to a path that may be read.
        kinds, statements = self._native.StatementType, cursor.extract_statements(sql)
        if len(statements) != 1:
            raise NotReadingError("more than one statement (or none) is")
        kind = statements[0].type
        if kind == kinds.EXPLAIN and explained is not None:
            # EXPLAIN ANALYZE runs what it explains; ANALYZE as a statement of its own is not a SELECT.
            inner = cursor.extract_statements(explained)
            kind = inner[0].type if len(inner) == 1 else kind
        if kind != kinds.SELECT:
            raise NotReadingError(f"{kind.name} is")
        return self._without_end(str(statements[0].query))

    def _without_end(self, sql: str) -> str:
        """Truncate a statement at its semicolon; DuckDB keeps a comment after it."""
        text = sql.encode()
        for offset, kind in self._native.tokenize(sql):
            if kind == self._native.token_type.operator and text[offset : offset + 1] == b";":
                return text[:offset].decode()
        return sql


class SqliteEngine:
    """SQLite. An authorizer only allows user and agent statements to read and describe."""

    file_bytes = 4 * 1024 * 1024 * 1024
    """The maximum size of temporary files, which sorting uses."""

    def __init__(self) -> None:
        import sqlite3

        self._native: Any = sqlite3
        self._connection: Any = None
        self._actions: frozenset[int] = frozenset()
        self._pragmas: frozenset[str] = frozenset()
        self._closed: frozenset[str] = frozenset()

    def open(self, settings: Mapping[str, Any]) -> str:
        """See `Engine`."""
        connection = self._native.connect(
            settings["uri"], uri=True, timeout=settings["busy"], isolation_level=None, check_same_thread=False
        )
        connection.execute("PRAGMA query_only = 1")
        for limit, value in settings["limits"]:
            connection.setlimit(limit, value)
        self._actions = frozenset(settings["actions"])
        self._pragmas = frozenset(settings["pragmas"])
        self._closed = frozenset(settings["closed_functions"])
        self._connection = connection
        return str(self._native.sqlite_version)

    def execute(self, number: int, statement: Mapping[str, Any], send: Send) -> bool:
        """See `Engine`."""
        if self._connection is None:
            raise self._native.ProgrammingError("the database is closed")
        self._connection.set_authorizer(self._authorize if statement["reading"] else None)
        try:
            return self._answer(statement, send)
        except self._native.OperationalError as error:
            if self._connection.text_factory is not str or "decode to UTF-8" not in str(error):
                raise
        # The file has texts that are not valid UTF-8, so from now on each text is decoded with care, which is slower.
        self._connection.text_factory = _text
        return self._answer(statement, send)

    def _answer(self, statement: Mapping[str, Any], send: Send) -> bool:
        cursor = self._connection.execute(statement["sql"], tuple(statement["parameters"]))
        try:
            send(("columns", tuple(each[0] for each in cursor.description or ())))
            return _send_rows(cursor.fetchmany, statement, send, simple=True)
        finally:
            cursor.close()

    def interrupt(self, number: int) -> None:
        """See `Engine`."""
        connection = self._connection
        try:
            if connection is not None:
                connection.interrupt()
        except self._native.ProgrammingError:  # It was closed meanwhile.
            return

    def is_interrupt(self, error: BaseException) -> bool:
        """See `Engine`."""
        return getattr(error, "sqlite_errorname", "") == "SQLITE_INTERRUPT"

    def close(self) -> None:
        """See `Engine`."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _authorize(self, action: int, first: str | None, second: str | None, *rest: str | None) -> int:
        native = self._native
        if action in self._actions:
            allowed = action != native.SQLITE_FUNCTION or (second or "").lower() not in self._closed
        else:
            allowed = action == native.SQLITE_PRAGMA and (first or "").lower() in self._pragmas
        return int(native.SQLITE_OK if allowed else native.SQLITE_DENY)


ENGINES: Final[dict[str, Callable[[], Engine]]] = {"duckdb": DuckDbEngine, "sqlite": SqliteEngine}


def _text(raw: bytes) -> str:
    # SQLite stores whatever bytes a program gave it as text.
    return raw.decode("utf-8", "replace")


def _send_rows(
    fetch: Callable[[int], list[Any]], statement: Mapping[str, Any], send: Send, *, simple: bool = False
) -> bool:
    """Send rows until there are no more, or the limits are reached; return whether there were more.

    One extra row is taken, and no batch is larger than the rows before it suggest.
    """
    most, most_bytes, kept, spent, size = statement["max_rows"], statement["max_bytes"], 0, 0, 1
    while batch := fetch(size):
        sizes = list(map(row_memory, batch))
        if (most is not None and kept + len(batch) > most) or spent + sum(sizes) > most_bytes:
            ends = list(accumulate(sizes, initial=spent))[1:]
            fitting = bisect_right(ends, most_bytes)
            send(("rows", batch[: fitting if most is None else min(fitting, most - kept)]), simple)
            return True
        send(("rows", batch), simple)
        kept, spent = kept + len(batch), spent + sum(sizes)
        size = max(1, min(size * 8, _BATCH_ROWS, _BATCH_BYTES * kept // max(spent, 1)))
        if most is not None:
            size = min(size, most - kept + 1)
    return False


def _in_utc(fetch: Callable[[int], list[Any]], types: Sequence[str]) -> Callable[[int], list[Any]]:
    """Return `fetch` with UTC as the zone of every value in a column of times with a zone."""
    from datetime import UTC, datetime

    zoned = [kind == _ZONED for kind in types]

    def values(row: Sequence[Any]) -> Iterator[Any]:
        for value, zone in zip(row, zoned, strict=True):
            yield value.replace(tzinfo=UTC) if zone and isinstance(value, datetime) else value

    return lambda size: [tuple(values(row)) for row in fetch(size)]


def _without_zones(sql: str, types: Sequence[str]) -> str:
    names = [f"c{position}" for position in range(len(types))]
    values = [
        f"system.main.timezone('UTC', {name})" if kind == _ZONED else f"{name}::VARCHAR" if _ZONED in kind else name
        for name, kind in zip(names, types, strict=True)
    ]
    return f"SELECT {', '.join(values)} FROM (\n{sql}\n) AS result({', '.join(names)})"


_ALARM_SECONDS: Final = 5.0
_AGAIN_MILLISECONDS: Final = 50
_LOOK_MILLISECONDS: Final = 100
_FLUSH_BYTES: Final = 64 * 1024
_MESSAGE: Final = 20_000


class Worker:
    """One worker: its engine, its limits, and the deadline of each running request, at most one per channel."""

    def __init__(self, control: int, memory: int, looks: bool) -> None:
        self.memory = memory
        self.looks = looks
        self.control = control
        self.engine: Engine | None = None
        self.running: dict[int, float] = {}
        self.interrupted: set[int] = set()
        self.lock = threading.Lock()

    def bound(self) -> None:
        """Apply the limits that apply to every engine."""
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGALRM})
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        if not self.looks:
            resource.setrlimit(resource.RLIMIT_AS, (self.memory, self.memory))
        try:
            # If the machine itself runs out of memory, the worker is killed first, not a program of the user.
            with open("/proc/self/oom_score_adj", "w") as stream:  # noqa: PTH123 (pathlib takes time to import)
                stream.write("1000")
        except OSError:
            pass

    def watch(self) -> None:
        """Interrupt the requests named on the control pipe, and end when ktx does."""
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
        """Record a request and its time limit."""
        with self.lock:
            self.running[number] = time.monotonic() + seconds + _ALARM_SECONDS
            self._set_alarm()

    def end(self, number: int) -> None:
        """Record that a request is done."""
        with self.lock:
            del self.running[number]
            self.interrupted.discard(number)
            self._set_alarm()

    def _set_alarm(self) -> None:
        """Have the system end the process if ktx has not done so, because ktx may have died."""
        last = max(self.running.values(), default=0.0)
        signal.setitimer(signal.ITIMER_REAL, max(0.001, last - time.monotonic()) if last else 0)

    def run(self, number: int, operation: str, argument: Any, send: Send) -> Any:
        """Execute a request and return its result; `send` receives everything before the result."""
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
            raise RuntimeError("no database is open")
        return self.engine.execute(number, argument, send)

    def described(self, error: BaseException) -> tuple[str, str, str, bool]:
        """Return the information about an error that ktx needs."""
        interrupted = self.engine is not None and self.engine.is_interrupt(error)
        return type(error).__name__, str(error)[:_MESSAGE], str(getattr(error, "sqlite_errorname", "")), interrupted


class Channel:
    """A pipe for requests and one for results; requests are executed in order."""

    def __init__(self, worker: Worker, requests: int, answers: int) -> None:
        self.worker = worker
        self.requests = requests
        self.answers = answers
        self.waiting = bytearray()

    def serve(self) -> None:
        """Serve requests until ktx ends."""
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
    """Return the process's peak memory.

    On Linux, `ru_maxrss` starts with the memory of ktx when it started the process. macOS counts it in bytes.
    """
    try:
        with open("/proc/self/status", "rb") as stream:  # noqa: PTH123
            status = stream.read()
        return int(status.partition(b"VmHWM:")[2].split(None, 1)[0]) * 1024
    except (OSError, IndexError):
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


def main() -> None:
    """Serve. Arguments: control pipe, memory limit, whether to check memory, and two pipes per channel."""
    gc.set_threshold(50_000, 20, 50)  # Rows are many objects, and none of them is in a reference cycle.
    control, memory, looks = map(int, sys.argv[1:4])
    pipes = [int(each) for each in sys.argv[4].split(",")]
    worker = Worker(control, memory, bool(looks))
    worker.bound()
    for requests, answers in zip(pipes[::2], pipes[1::2], strict=True):
        threading.Thread(target=Channel(worker, requests, answers).serve, daemon=True).start()
    worker.watch()
