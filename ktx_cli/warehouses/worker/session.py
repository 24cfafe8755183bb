"""An engine's session in a worker, as used by connectors. If a worker is lost, the session continues in another one."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from ktx_cli.core import SourceError, monotonic
from ktx_cli.warehouses import base
from ktx_cli.warehouses.port import ConnectionSpec
from ktx_cli.warehouses.worker import process
from ktx_cli.warehouses.worker.process import (
    SPARE_BYTES,
    SPARES,
    START_SECONDS,
    EngineError,
    WorkerEndedError,
    WorkerProcess,
)
from ktx_cli.warehouses.worker.wire import WireError, plain

MAX_CATALOG_BYTES = 512 * 1024 * 1024
"""The approximate limit in bytes for the results of ktx's own statements, such as catalog queries."""


_MESSAGES_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Rows:
    """A statement's result. `truncated`: whether it was cut off at a limit."""

    columns: tuple[str, ...]
    rows: list[tuple[Any, ...]]
    truncated: bool = False

    def fetchall(self) -> list[tuple[Any, ...]]:
        """Return all rows."""
        return self.rows

    def fetchone(self) -> tuple[Any, ...] | None:
        """Return the first row, or None if there is none."""
        return self.rows[0] if self.rows else None

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        return iter(self.rows)


class Session:
    """A database open in a worker; safe for several threads.

    `key` identifies the database: a worker that had it open can be reused only for it. `settings` are the engine's,
    requested whenever a worker opens the database; `prepare` is called before the first foreign statement on each
    worker. After a worker was lost, the next statement runs in another.
    """

    def __init__(
        self,
        engine: str,
        key: str,
        settings: Callable[[], Mapping[str, Any]],
        prepare: Callable[[Session], None] = lambda session: None,
    ) -> None:
        self.engine = engine
        self.version = ""
        self._key = f"{engine} {key}"
        self._settings = settings
        self._prepare = prepare
        self._has_opened = False
        self._is_prepared = False
        self._is_used = False
        self._process: WorkerProcess | None = None
        self._lock = threading.RLock()
        self._alone = threading.Lock()

    @property
    def pid(self) -> int | None:
        """The process id of the worker, or None if none is open."""
        process = self._process
        return None if process is None else process.pid

    @property
    def is_open(self) -> bool:
        """Whether a worker has the database open."""
        process = self._process
        return self._has_opened and process is not None and process.is_alive

    def open(self) -> None:
        """Open the database unless it is open. Raises `EngineError`."""
        with self._lock:
            if self.is_open:
                return
            spare = self._started()
            try:
                self._request_open()
            except WorkerEndedError:
                if not spare:
                    raise
                self._process = WorkerProcess(self.engine)  # The last one ended while it waited.
                self._request_open()

    def head(self, path: str, size: int) -> bytes:
        """Return the first bytes of a file, as read by the worker. Raises `EngineError`.

        Opening and closing a database's file in a process releases the locks that the process holds on it.
        """
        with self._lock:
            self._started()
            return bytes(self._request("head", (path, size)))

    def prepare(self) -> None:
        """Open the database and prepare it for user statements. Raises `EngineError`."""
        with self._lock:
            self.open()
            while not self._is_prepared:
                self._is_prepared = True
                self._prepare(self)
                self.open()  # If a statement of `prepare` ended the worker, the next one is not prepared.

    def execute(
        self,
        sql: str,
        parameters: Sequence[Any] = (),
        *,
        seconds: float,
        reading: bool = False,
        explained: str | None = None,
        max_rows: int | None = None,
        max_bytes: int = MAX_CATALOG_BYTES,
    ) -> Rows:
        """Run one statement for at most `seconds`. Raises `EngineError`.

        `reading`: the statement is foreign and must only read; `explained` is then the part after its EXPLAIN.
        """
        try:
            values = plain(list(parameters))
        except WireError as error:
            raise EngineError(self.engine, "ProgrammingError", str(error)) from error
        statement = {
            "sql": sql,
            "parameters": values,
            "reading": reading,
            "explained": explained,
            "max_rows": max_rows,
            "max_bytes": max_bytes,
        }
        until = monotonic() + seconds
        try:
            return self._run(statement, seconds)
        except EngineError as error:
            if isinstance(error, WorkerEndedError) and not error.alone:
                # Another statement may have ended the worker; those that were running take turns in the next one.
                left = seconds
            elif error.is_out_of_memory and error.used_before and not error.interrupted:
                # Engines do not release all the memory of earlier statements; a new worker has all of it.
                left = until - monotonic()
            else:
                raise
        with self._alone:
            return self._run(statement, left)

    def interrupt(self) -> None:
        """Make the running statement fail; harmless if there is none."""
        process = self._process
        if process is not None:
            process.interrupt()

    def close(self) -> None:
        """Close the database and keep the worker for the next connection to it; calling this twice is harmless."""
        with self._lock:
            if self._process is None:
                return
            try:
                peak = self._request("close", None)
            except EngineError:
                self._lose()
                return
            if peak > SPARE_BYTES:
                self._lose()
                return
            process, self._process = self._process, None
            self._has_opened = self._is_prepared = self._is_used = False
            SPARES.keep(self._key, process)

    def _started(self) -> bool:
        """Make sure that there is a worker, and return whether it had been waiting."""
        process = self._process
        if process is not None and process.is_alive:
            return False
        self._lose()
        spare = SPARES.take(self._key)
        self._process = spare or WorkerProcess(self.engine)
        return spare is not None

    def _request_open(self) -> None:
        self.version = self._request("open", (self.engine, self._settings()))
        self._has_opened = True

    def _request(self, operation: str, argument: Any) -> Any:
        """Return the response to a short request; a worker whose engine failed is not reused."""
        assert self._process is not None
        try:
            ((_, value),) = self._process.request(operation, argument, START_SECONDS)
        except BaseException:
            self._lose()
            raise
        return value

    def _run(self, statement: Mapping[str, Any], seconds: float) -> Rows:
        with self._lock:
            if statement["reading"]:
                self.prepare()
            else:
                self.open()
            process, used = self._process, self._is_used
            self._is_used = used or bool(statement["reading"])
        assert process is not None
        try:
            return self._answer(process, statement, max(0.0, seconds))
        except EngineError as error:
            error.used_before = used
            if error.leaves_damage:
                self._lose(process)
            raise

    def _answer(self, process: WorkerProcess, statement: Mapping[str, Any], seconds: float) -> Rows:
        columns: tuple[str, ...] = ()
        rows: list[tuple[Any, ...]] = []
        truncated = False
        most = statement["max_rows"]
        # Messages are shorter than the memory of their values, which a worker counts.
        longest = _MESSAGES_BYTES + statement["max_bytes"]
        for kind, value in process.request("execute", statement, seconds, max_bytes=longest):
            if kind == "columns":
                columns, rows = value, []
            elif kind == "rows":
                rows += value
                if most is not None and len(rows) > most:
                    raise WorkerEndedError(self.engine, "WireError", "it returned more rows than requested")
            else:
                truncated = bool(value)
        return Rows(columns, rows, truncated)

    def _lose(self, process: WorkerProcess | None = None) -> None:
        """Switch to another worker, unless that has already been done. `process`: the failed worker."""
        with self._lock:
            if process is not None and process is not self._process:
                return
            gone, self._process = self._process, None
            self._has_opened = self._is_prepared = self._is_used = False
        if gone is not None:
            gone.retire()


@dataclass(frozen=True, slots=True)
class TimedSession:
    """A session for several of ktx's own statements, which share the deadline `until` (`monotonic`)."""

    session: Session
    until: float

    def execute(self, sql: str, parameters: Sequence[Any] = ()) -> Rows:
        """Run one statement and return all its rows. Raises `EngineError`."""
        found = self.session.execute(sql, parameters, seconds=self.until - monotonic())
        if found.truncated:
            raise EngineError(self.session.engine, "TooLarge", "the catalog is larger than ktx can read")
        return found


ENGINES = {"duckdb": "DuckDB", "sqlite": "SQLite"}
"""The names of engines in messages."""


class IsolatedConnector(base.BaseConnector):
    """A connector whose engine runs in a worker; a lost worker is replaced for the next statement."""

    def __init__(self, spec: ConnectionSpec, place: str) -> None:
        super().__init__(spec, place)
        self._connection: Session | None = None

    def close(self) -> None:
        """Close the database; calling it twice is harmless."""
        session, self._connection = self._connection, None
        if session is not None:
            session.close()

    def interrupt(self) -> None:
        """See `Interruptible`."""
        session = self._connection
        if session is not None:
            session.interrupt()

    def _opened_session(self) -> Session:
        """Return the open session. Raises `SourceError`."""
        session = self._connection
        if session is None:
            raise self.failure("the connection is closed")
        if not session.is_open:
            try:
                session.open()
            except EngineError as error:
                raise self._not_opened(error) from error
        return session

    @contextmanager
    def _translating(self, sql: str | None = None) -> Iterator[None]:
        """Translate session errors. `sql` is the user's statement, or None for one of ktx's own."""
        try:
            yield
        except EngineError as error:
            of_the_user = sql is not None
            raise self._over_a_limit(error, of_the_user=of_the_user) or self._translated(error, sql) from error

    def _over_a_limit(self, error: EngineError, *, of_the_user: bool) -> SourceError | None:
        """Return the error for a statement that took too long, used too much memory, or ended its worker."""
        if error.interrupted:
            return self.timeout(of_the_user=of_the_user)
        what = "the statement" if of_the_user else "reading the catalog"
        hint = "narrow the statement with a WHERE clause or a LIMIT, or build shorter strings and lists"
        if error.is_out_of_memory:
            limit = f"{process.MEMORY_BYTES / 1024**3:g} GiB"
            found = self.failure(f"{what} was stopped: it needs more memory than {limit}", hint=hint, code="query")
        elif isinstance(error, WorkerEndedError):
            text = f"{what} ended the {ENGINES[error.engine]} process ({error.kind})"
            found = self.failure(text, hint=f"it may need too much memory; {hint}", code="query")
            found.details[base.SESSION_ENDED] = True
        else:
            return None
        if not of_the_user:
            found.code = "connection"
        return found

    def _translated(self, error: EngineError, sql: str | None) -> SourceError:
        """Return the error to report for an engine's error in a statement."""
        return self.failure(str(error), code="query" if sql is not None else "connection")

    def _not_opened(self, error: EngineError) -> SourceError:
        """Return the error for a database that cannot be opened."""
        return self._over_a_limit(error, of_the_user=False) or self._translated(error, None)
